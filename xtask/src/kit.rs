//! `cargo xtask kit`: runs the laws on a server of the user's, and writes a report that can be sent.

use crate::counts::Counts;
use crate::servers::Store;
use crate::{host, steps};
use anyhow::{Context as _, bail, ensure};
use shedlock_rig::engine::Kind;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// What the server speaks: `postgres` also for CockroachDB, YugabyteDB, Aurora, Neon or Supabase, `mysql` also for
    /// TiDB or Aurora.
    #[arg(value_enum)]
    store: Store,

    /// Its URL. Name a database or a namespace that holds no locks of others: the tests create and delete tables, or
    /// whatever the store has.
    url: String,

    /// What the server is, for the title of the report, such as `CockroachDB 25.2, three nodes`.
    #[arg(long = "as", value_name = "WORDS")]
    words: Option<String>,

    /// Where the report is written. By default, `shedlock-kit-STORE.txt`.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Runs the kit.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(kind) = args.store.kind() else {
        bail!(
            "{} has no server; its tests are part of `cargo xtask test`",
            args.store.name()
        );
    };
    let version = kind
        .version_at(&args.url)
        .context("no reply from this URL")?;
    let (package, target) = kind.kit();
    let mut command = steps::cargo();
    command.args([
        "test",
        "--all-features",
        "--no-fail-fast",
        "-p",
        package,
        "--test",
        target,
    ]);
    for other in Kind::ALL {
        command.env_remove(other.url_variable());
        command.env(other.variable(), "unavailable");
    }
    command.env_remove(kind.variable());
    command.env(kind.url_variable(), &args.url);
    command.env("SHEDLOCK_TEST_STORES", args.store.name());
    let mut counts = Counts::default();
    let lines = lines(&mut command, &mut counts)?;
    ensure!(
        counts.passed + counts.failed > 0,
        "no case ran; see the messages above"
    );
    let file = args.report.clone();
    let file = file.unwrap_or_else(|| format!("shedlock-kit-{}.txt", args.store.name()).into());
    let title = args.words.clone().unwrap_or(version.clone());
    fs::write(
        &file,
        report(&title, &version, args.store, &counts, &lines)?,
    )
    .with_context(|| format!("cannot write {}", file.display()))?;
    println!(
        "{} passed, {} failed: {}",
        counts.passed,
        counts.failed,
        file.display()
    );
    Ok(match counts.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The lines about cases, which are also printed.
fn lines(command: &mut Command, counts: &mut Counts) -> anyhow::Result<Vec<String>> {
    let mut child = command.stdout(Stdio::piped()).spawn();
    let child = child
        .as_mut()
        .map_err(|error| anyhow::anyhow!("cannot start cargo: {error}"))?;
    let out = child.stdout.take().context("cargo has no output")?;
    let mut lines = Vec::new();
    for line in BufReader::new(out).lines() {
        let line = line?;
        println!("{line}");
        counts.add(&line);
        if line.starts_with("test ") {
            let words: Vec<_> = line.split_whitespace().collect();
            lines.push(words.join(" "));
        }
    }
    child.wait()?;
    Ok(lines)
}

/// The text of the report. It has no URL in it.
fn report(
    title: &str,
    version: &str,
    store: Store,
    counts: &Counts,
    lines: &[String],
) -> anyhow::Result<String> {
    let git = |args: &[&str]| host::output(Command::new("git").args(args));
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(|_| "unknown".into());
    let of = |what: &str| {
        let these = lines.iter().filter(|line| line.ends_with(what));
        these.map(|line| format!("{line}\n")).collect::<String>()
    };
    Ok(format!(
        "shedlock's conformance kit on {title}\n\n\
         speaks    {}\n\
         version   {}\n\
         commit    {}\n\
         platform  {} {}\n\
         result    {} passed, {} failed, {} do not apply\n\n\
         Failed cases\n\n{}{}\n\
         Passed cases\n\n{}\n\
         Cases that do not apply\n\n{}",
        store.name(),
        version.trim(),
        commit.trim(),
        std::env::consts::OS,
        std::env::consts::ARCH,
        counts.passed,
        counts.failed,
        counts.ignored,
        of("FAILED"),
        counts.failures(),
        of("ok"),
        of("ignored"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_lists_each_case_with_its_result() {
        let lines = ["test a ... ok", "test b ... FAILED", "test c ... ignored"];
        let lines = lines.map(str::to_owned);
        let mut counts = Counts::default();
        counts.add("test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured");
        let text = report("Aurora", "16.4", Store::POSTGRES, &counts, &lines);
        let text = text.expect("git is not needed");
        for part in [
            "kit on Aurora\n",
            "result    1 passed, 1 failed, 1 do not apply",
            "Failed cases\n\ntest b ... FAILED\n",
            "Passed cases\n\ntest a ... ok\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    }
}

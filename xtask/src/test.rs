//! `cargo xtask test`: the databases, the checks and the tests.

use crate::adoption;
use crate::api;
use crate::browser;
use crate::clients;
use crate::counts::Counts;
use crate::executables;
use crate::faketime;
use crate::host;
use crate::interop;
use crate::java::{self, Java};
use crate::messages;
use crate::oldest_rust;
use crate::programs;
use crate::prometheus;
use crate::protoc;
use crate::publish;
use crate::recipes;
use crate::servers::{self, Store};
use crate::spring;
use crate::sqlx08;
use crate::steps::{self, Outcome, Steps};
use anyhow::{Context as _, bail};
use shedlock_rig::engine::{Kind, Profile, Servers};
use std::env;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Makes the tests run what they omit by default.
pub(crate) const FULL: &str = "SHEDLOCK_TEST_FULL";

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only the tests that need this store and those that need none; can be repeated. If none
    /// is named, run everything, including the checks of the code.
    #[arg(long = "store", value_name = "STORE", value_enum)]
    stores: Vec<Store>,
    /// Run every case of the conformance kit on every harness, and the long forms of the searches
    /// (model, simulation, drills).
    #[arg(long)]
    full: bool,
    /// Do not install missing servers and tools.
    #[arg(long)]
    no_install: bool,
    /// Arguments for `cargo test`; the checks of the code are then skipped.
    #[arg(last = true, value_name = "ARGS")]
    cargo_args: Vec<OsString>,
    /// Whether real ShedLock is needed, whatever is picked.
    #[arg(skip)]
    java: bool,
    #[arg(skip)]
    variables: Vec<(&'static str, String)>,
}

impl Args {
    /// The arguments for `cargo xtask test`.
    pub(crate) fn of(stores: Vec<Store>, no_install: bool, cargo_args: Vec<OsString>) -> Self {
        Self {
            stores,
            full: false,
            no_install,
            cargo_args,
            java: false,
            variables: Vec::new(),
        }
    }

    /// The tests need real ShedLock.
    pub(crate) fn with_java(mut self) -> Self {
        self.java = true;
        self
    }

    /// The variable that makes the tests omit nothing.
    fn asks_for_all(&self) -> Option<(&'static str, &'static str)> {
        self.full.then_some((FULL, "1"))
    }

    /// Passes a variable to the tests.
    pub(crate) fn with_variable(mut self, name: &'static str, value: String) -> Self {
        self.variables.push((name, value));
        self
    }
}

/// Runs the tests. The exit code reports whether everything passed.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    check_c_compiler()?;
    check_free_space()?;
    let named = !args.stores.is_empty();
    let stores = Store::or_all(&args.stores);
    let profile = Profile {
        no_install: args.no_install,
        extracts_may_miss: !named,
        ..servers::of_all_tests()
    };
    let servers = servers::start(stores, true, &profile)?;
    if let Err(why) = faketime::library(args.no_install) {
        eprintln!("xtask: NO WRONG CLOCKS: {why}");
    }
    let browser = browser::provide(args.no_install);
    if let Err(why) = &browser {
        eprintln!("xtask: NO BROWSER TESTS: {why}");
    }
    protoc::check()?;
    prometheus::check()?;
    programs::check()?;
    let mut steps = Steps::new();
    steps.add("servers", Outcome::Passed, begun.elapsed());
    if !named && args.cargo_args.is_empty() {
        recipes::install_readers(args.no_install);
        check_code(&mut steps, &servers, args.no_install);
    }
    if args.java || interop::is_meant(stores, &args.cargo_args) {
        steps.run("ShedLock in Java", || {
            Java::Interop.build(servers.run(), args.no_install)
        });
    }
    if spring::is_meant(stores, &args.cargo_args) {
        steps.run("ShedLock in Spring", || {
            Java::Spring.build(servers.run(), args.no_install)
        });
    }
    let mut counts = Counts::default();
    let passed = steps.run("tests", || cargo_test(args, stores, &servers, &mut counts));
    let how = match (passed, args.cargo_args.is_empty()) {
        (false, _) if counts.passed == 0 => "NOT TESTED: no test ran",
        // The step names the targets.
        (false, _) => "tested, and some test failed",
        (true, true) => "tested",
        // Only the selected tests determine which stores they need.
        (true, false) => "at hand",
    };
    // Last, because readers of a long log look at its end.
    println!("\n{}", counts.longest());
    println!("{}{}", counts.failures(), steps.summary());
    print!("{}", tested(stores, &servers, how));
    println!("{}", tested_in_browser(&browser, how));
    println!("total: {:.0} s", begun.elapsed().as_secs_f64());
    println!(
        "{} passed, {} failed, {} skipped",
        counts.passed, counts.failed, counts.ignored
    );
    if counts.left_out > 0 {
        let left_out = counts.left_out;
        println!(
            "{left_out} cases of the kit left out on variants: `cargo xtask test --full` runs them"
        );
    }
    if counts.passed + counts.failed == 0 {
        bail!("no test ran: does the filter match one that applies to this store?");
    }
    Ok(if steps.all_passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// All checks other than the tests.
fn check_code(steps: &mut Steps, servers: &Servers, no_install: bool) {
    let mut cargo = |name: &str, args: &[&str]| {
        steps.run(name, || {
            steps::complete(servers.run(), steps::cargo().args(args))
        });
    };
    cargo("format", &["fmt", "--all", "--check"]);
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
    ];
    cargo("clippy", &[&clippy[..], &["-D", "warnings"]].concat());
    steps.run("documentation", || {
        for mut command in api::document()? {
            let outcome = steps::complete(servers.run(), &mut command)?;
            if outcome != Outcome::Passed {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Passed)
    });
    steps.run("public API", api::check);
    steps.run("messages", messages::check);
    steps.run("one store, one client", clients::one_store_brings_no_other);
    steps.run("core without clients", clients::core_brings_none);
    steps.run("sqlx 0.8", || sqlx08::check(servers.run()));
    steps.run("packaged crates", publish::check);
    steps.run("features of an application", adoption::check);
    steps.run("builds without TLS", || {
        steps::complete(servers.run(), steps::cargo().args(clients::WITHOUT_TLS))
    });
    steps.run("builds with aws-lc-rs", || {
        steps::complete(servers.run(), steps::cargo().args(clients::WITH_AWS_LC))
    });
    steps.run("oldest supported Rust", || oldest_rust::check(no_install));
}

/// A full disk fails tests that have nothing to do with it, without a word: what would have named
/// it could not be written either.
fn check_free_space() -> anyhow::Result<()> {
    const NEEDED: u64 = 6 << 30;
    for folder in [steps::target_folder(), env::temp_dir()] {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("{} could not be created", folder.display()))?;
        let free = host::free_space(&folder)?;
        if free < NEEDED {
            bail!(
                "the disk of {} has {} MiB free, and a run needs {}; free space on it, for example \
                 with `cargo clean`",
                folder.display(),
                free >> 20,
                NEEDED >> 20
            );
        }
    }
    Ok(())
}

/// SQLite is compiled from C. This program's existence shows that there is a linker, but headers
/// may be missing.
fn check_c_compiler() -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let source = folder.path().join("try.c");
    std::fs::write(
        &source,
        "#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n",
    )
    .with_context(|| format!("{} could not be written", source.display()))?;
    let compiler = env::var_os("CC")
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(folder.path().join("try.o"));
    host::output(&mut command).map(drop).context(
        "no working C compiler, which the bundled SQLite needs: on Debian \
         `apt-get install -y gcc libc6-dev`, elsewhere install one or name it in CC",
    )
}

fn cargo_test(
    args: &Args,
    stores: &[Store],
    servers: &Servers,
    counts: &mut Counts,
) -> anyhow::Result<Outcome> {
    let environment = |command: &mut Command| {
        servers::name(servers, stores, command);
        command
            .envs(java::VARIABLES.map(|(name, java)| (name, java.folder())))
            .envs(args.variables.iter().map(|(name, value)| (name, value)))
            .envs(args.asks_for_all());
        if env::var_os("CARGO_TERM_COLOR").is_none() && std::io::stdout().is_terminal() {
            command.env("CARGO_TERM_COLOR", "always");
        }
    };
    if args.cargo_args.is_empty() {
        return executables::run(servers.run(), &environment, counts);
    }
    let mut command = steps::cargo();
    command.args(["test", "--all-features", "--no-fail-fast"]);
    if !args
        .cargo_args
        .iter()
        .any(|arg| is_package(&arg.to_string_lossy()))
    {
        command.arg("--workspace");
    }
    command.args(&args.cargo_args);
    environment(&mut command);
    steps::complete_read(servers.run(), &mut command, |line| counts.add(line))
}

/// Whether an argument of `cargo test` narrows the packages.
fn is_package(arg: &str) -> bool {
    arg == "-p" || arg == "--package" || arg.starts_with("--package=")
}

/// What was tested and what was not, in a form that is not overlooked.
fn tested(stores: &[Store], servers: &Servers, how: &str) -> String {
    let seen = servers.seen();
    let of_kind = |kind| match seen
        .iter()
        .find(|seen| seen.kind == kind)
        .map(|it| it.version)
    {
        Some(Ok(version)) => format!("{how}: {version}"),
        Some(Err(why)) => format!("NOT TESTED: {why}"),
        None => "NOT TESTED: not requested".to_owned(),
    };
    let servers = Kind::ALL
        .into_iter()
        .map(|kind| (kind.name(), of_kind(kind)));
    let others = Store::all()
        .iter()
        .filter(|store| store.kind().is_none())
        .map(|store| {
            let asked = stores.contains(store);
            (
                store.name(),
                if asked {
                    how
                } else {
                    "NOT TESTED: not requested"
                }
                .to_owned(),
            )
        });
    servers
        .chain(others)
        .map(|(name, how)| format!("{name:18} {how}\n"))
        .collect()
}

/// The same for the dashboard.
fn tested_in_browser(browser: &Result<String, String>, how: &str) -> String {
    let how = match browser {
        Ok(with) => format!("{how}: {with}"),
        Err(why) => format!("NOT TESTED: {why}"),
    };
    format!("{:18} {how}\n", "browser")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_full_run_has_the_tests_leave_nothing_out() {
        let asks = |words: &[&str]| {
            Line::parse_from(["test"].iter().chain(words))
                .args
                .asks_for_all()
        };
        assert_eq!(asks(&["--full"]), Some((FULL, "1")));
        assert_eq!(
            asks(&["--full", "--", "-p", "shedlock-sql"]),
            Some((FULL, "1"))
        );
        assert_eq!(asks(&[]), None);
    }
}

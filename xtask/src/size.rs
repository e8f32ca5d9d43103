//! `cargo xtask size`: how many code lines there are, by concern, now and at another revision.
//!
//! A code line is neither blank nor a comment. All text counts that is compiled, interpreted or read by a test: Rust,
//! Lua, Java, shell, templates and style sheets, transcripts, and what tests compare with. Manifests and prose do not.

use crate::host;
use crate::steps;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Arguments of `cargo xtask size`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Compare with this revision.
    #[arg(long, value_name = "REVISION", default_value = "11a717e8")]
    since: String,
}

/// What a line is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Product,
    Proof,
    /// Other libraries beside ours, measured once a release.
    Peers,
}

/// Code lines by concern.
type Lines = BTreeMap<(Side, &'static str), usize>;

/// Tests in the files and folders of the product's code.
const UNITS: &str = "unit tests in src";

/// The concern of each folder. The first that a path begins with counts; the rest of the tree is not counted.
const CONCERNS: &[(&str, Side, &str)] = {
    use Side::{Peers, Product, Proof};
    &[
        ("crates/core/src/runtime/", Product, "runtime"),
        ("crates/core/src/", Product, "contract, clocks, wrappers"),
        ("crates/grammar/src/", Product, "grammar"),
        ("crates/support/src/", Product, "support"),
        ("crates/journal/src/", Product, "journal"),
        ("crates/macros/src/", Product, "attributes"),
        ("crates/scheduler/src/", Product, "scheduler"),
        ("crates/shedlock/src/", Product, "facade"),
        ("crates/pings/src/", Product, "pings"),
        ("crates/ui/src/", Product, "dashboard"),
        ("crates/ui/templates/", Product, "dashboard"),
        ("crates/ui/assets/", Product, "dashboard"),
        ("crates/cli/src/", Product, "command"),
        ("stores/common/src/", Product, "provider toolkit"),
        ("stores/sql/src/", Product, "SQL"),
        ("stores/redis/src/", Product, "Redis"),
        ("stores/redis/scripts/", Product, "Redis"),
        ("stores/mongodb/src/", Product, "MongoDB"),
        ("stores/nats/src/", Product, "NATS"),
        ("stores/etcd/src/", Product, "etcd"),
        ("stores/zookeeper/src/", Product, "ZooKeeper"),
        ("stores/consul/src/", Product, "Consul"),
        ("crates/conformance/src/", Proof, "kit"),
        ("crates/conformance/tests/", Proof, "tests of the kit"),
        ("crates/cli/tests/", Proof, "tests of the command"),
        ("crates/", Proof, "tests of the other crates"),
        ("stores/", Proof, "tests of the stores"),
        ("testing/proof/", Proof, "judge and mistakes"),
        ("testing/rig/", Proof, "rig"),
        ("testing/transcripts/", Proof, "transcripts' runner"),
        ("testing/planted/", Proof, "planted defects"),
        ("testing/torture/", Proof, "torture"),
        ("testing/simulation/", Proof, "simulation and model"),
        ("testing/bench/src/peers/", Peers, "bench against peers"),
        ("testing/bench/peers/", Peers, "bench against peers"),
        ("testing/bench/contender/", Peers, "bench against peers"),
        ("testing/bench/java/", Peers, "bench against peers"),
        ("testing/bench/", Proof, "bench"),
        ("testing/", Proof, "interop, scenarios, alerts, docs, fuzz"),
        ("examples/", Proof, "examples"),
        ("docs/incidents.md", Proof, "transcripts' runner"),
        ("docs/operating.md", Proof, "transcripts' runner"),
        (
            "docs/alerts/shedlock.test.yml",
            Proof,
            "interop, scenarios, alerts, docs, fuzz",
        ),
        ("docs/alerts/", Product, "alert rules, Grafana"),
        ("xtask/", Proof, "tasks"),
    ]
};

/// Prints the table.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = steps::workspace_root();
    let now = count(&root)?;
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    check_out(&root, &args.since, folder.path())?;
    let then = count(folder.path())?;
    print!("{}", table(&now, &then, &args.since));
    Ok(ExitCode::SUCCESS)
}

/// Puts the files of a revision into a folder.
fn check_out(root: &Path, revision: &str, into: &Path) -> anyhow::Result<()> {
    let mut archive = Command::new("git")
        .current_dir(root)
        .args(["archive", "--format=tar", revision])
        .stdout(Stdio::piped())
        .spawn()
        .context("git could not be started")?;
    let mut tar = Command::new("tar");
    tar.arg("-x").arg("-C").arg(into);
    tar.stdin(archive.stdout.take().context("no pipe from git")?);
    let unpacked = tar.status().context("tar could not be started")?;
    let archived = archive.wait().context("git could not be waited for")?;
    anyhow::ensure!(
        archived.success() && unpacked.success(),
        "there is no revision {revision}"
    );
    // So that git lists its files.
    let git = |args: &[&str]| host::output(Command::new("git").current_dir(into).args(args));
    git(&["init", "--quiet"])?;
    git(&["add", "--all", "--force"]).map(drop)
}

/// Counts all files that git knows, or would.
fn count(root: &Path) -> anyhow::Result<Lines> {
    let mut git = Command::new("git");
    git.current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let mut lines = Lines::new();
    for path in host::output(&mut git)?.lines() {
        let Some(&(_, side, concern)) = CONCERNS.iter().find(|it| path.starts_with(it.0)) else {
            continue;
        };
        // A file that is not text, or that was deleted, has no lines.
        let Ok(text) = fs::read_to_string(root.join(path)) else {
            continue;
        };
        let (code, tests) = match code_lines(path, &text) {
            (code, tests) if is_test(path) => (0, code + tests),
            counted => counted,
        };
        let of_tests = match side {
            Side::Product => (Side::Proof, UNITS),
            _ => (side, concern),
        };
        *lines.entry((side, concern)).or_default() += code;
        *lines.entry(of_tests).or_default() += tests;
    }
    Ok(lines)
}

/// Whether a file beside the product's code is compiled for tests only.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.ends_with("/fuzz.rs")
}

/// How many lines of a file are code, and how many of those of a Rust file are in modules of tests.
fn code_lines(path: &str, text: &str) -> (usize, usize) {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let without = |marks: &[&str]| {
        let is_comment = |line: &&str| marks.iter().any(|mark| line.starts_with(mark));
        lines.clone().filter(|line| !is_comment(line)).count()
    };
    let ending = path.rsplit('.').next().unwrap_or_default();
    let code = match ending {
        "rs" => return rust_lines(text),
        "java" | "js" | "css" => without(&["//", "/*", "* ", "*/"]),
        "lua" | "sql" => without(&["--"]),
        "sh" | "py" | "yaml" | "yml" => without(&["#"]),
        "html" => without(&["<!--"]),
        // What is around the hunks is there already.
        "patch" => lines
            .filter(|line| line.starts_with(['+', '-', 'W', 'F', 'T']))
            .count(),
        "md" if is_transcript(path) => fenced_lines(text),
        "md" | "toml" | "lock" | "xml" | "svg" | "png" => 0,
        // Snapshots, corpora, listings.
        _ => lines.count(),
    };
    (code, 0)
}

fn is_transcript(path: &str) -> bool {
    ["docs/incidents.md", "docs/operating.md"].contains(&path) || path.contains("/transcripts/")
}

/// The lines in code blocks, other than blank ones.
fn fenced_lines(text: &str) -> usize {
    let mut is_inside = false;
    let mut count = 0;
    for line in text.lines() {
        if line.starts_with("```") {
            is_inside = !is_inside;
        } else if is_inside && !line.trim().is_empty() {
            count += 1;
        }
    }
    count
}

/// Formatted Rust: modules of tests end with a brace in the first column.
fn rust_lines(text: &str) -> (usize, usize) {
    let (mut code, mut tests) = (0, 0);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_of_tests = line == "#[cfg(test)]";
        let opens_module = |line: &&str| line.starts_with("mod ") && line.ends_with('{');
        if is_of_tests && lines.peek().is_some_and(opens_module) {
            tests += 1;
            for line in lines.by_ref() {
                tests += usize::from(is_rust_code(line));
                if line == "}" {
                    break;
                }
            }
        } else {
            code += usize::from(is_rust_code(line));
        }
    }
    (code, tests)
}

fn is_rust_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

fn table(now: &Lines, then: &Lines, since: &str) -> String {
    let sum = |lines: &Lines, side| -> usize {
        let of_side = lines.iter().filter(|((it, _), _)| *it == side);
        of_side.map(|(_, count)| count).sum()
    };
    let row = |name: &str, now: usize, then: usize| {
        let change = i64::try_from(now).unwrap_or(0) - i64::try_from(then).unwrap_or(0);
        format!("{name:42} {now:>8} {then:>8} {change:>+8}\n")
    };
    let mut text = format!(
        "{:42} {:>8} {since:>8} {:>8}\n",
        "code lines", "now", "change"
    );
    let mut keys: Vec<_> = now.keys().chain(then.keys()).collect();
    keys.sort();
    keys.dedup();
    for side in [Side::Product, Side::Proof, Side::Peers] {
        for key in keys.iter().filter(|key| key.0 == side) {
            let of = |lines: &Lines| lines.get(key).copied().unwrap_or_default();
            text += &row(&format!("  {}", key.1), of(now), of(then));
        }
        let name = match side {
            Side::Product => "product",
            Side::Proof => "proof and tools",
            Side::Peers => "peers",
        };
        text += &row(name, sum(now, side), sum(then, side));
    }
    let share = |count: usize| u32::try_from(count).map_or(f64::NAN, f64::from);
    let ratio = |lines: &Lines, moved: usize| {
        let (product, proof) = (sum(lines, Side::Product), sum(lines, Side::Proof));
        share(proof - moved) / share(product + moved)
    };
    let units = |lines: &Lines| {
        lines
            .get(&(Side::Proof, UNITS))
            .copied()
            .unwrap_or_default()
    };
    let mut compare = |name: &str, now: f64, then: f64| {
        text += &format!("{name:42} {now:>8.2} {then:>8.2} {:>+8.2}\n", now - then);
    };
    compare("proof and tools / product", ratio(now, 0), ratio(then, 0));
    compare(
        "the same, by folder: with its unit tests",
        ratio(now, units(now)),
        ratio(then, units(then)),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_comments_are_no_code() {
        let text = "//! Doc.\n\nfn a() {\n    // Why.\n    b();\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    \
            #[test]\n    fn c() {}\n}\n";
        assert_eq!(code_lines("crates/core/src/a.rs", text), (3, 6));
        assert_eq!(
            code_lines("stores/redis/scripts/a.lua", "-- Why.\nreturn 1\n"),
            (1, 0)
        );
        assert_eq!(code_lines("README.md", "text\n"), (0, 0));
    }

    #[test]
    fn the_screens_of_a_transcript_are_code() {
        let text = "# Title\n\nA sentence.\n\n```console\n$ shedlock\n\nusage\n```\n";
        assert_eq!(
            code_lines("crates/cli/tests/transcripts/a.md", text),
            (2, 0)
        );
    }

    #[test]
    fn each_folder_with_code_has_a_concern() {
        let root = steps::workspace_root();
        let mut git = Command::new("git");
        let listed = host::output(git.current_dir(&root).args(["ls-files", "*.rs", "*.lua"]));
        for path in listed.unwrap().lines() {
            assert!(CONCERNS.iter().any(|it| path.starts_with(it.0)), "{path}");
        }
    }
}

//! Steps of a longer task: named, timed, and summarized at the end.

use crate::host;
use anyhow::Context as _;
use serde::de::DeserializeOwned;
use shedlock_rig::engine::{Ending, RunDir};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The folder of the workspace: the one around the package that cargo runs, otherwise around the
/// current folder. Not the one that this program was built in, which may be another copy of the
/// workspace.
pub(crate) fn workspace_root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let start = package.or_else(|| env::current_dir().ok());
    let start = start.unwrap_or_default();
    root_above(&start).unwrap_or(start)
}

/// The innermost folder from here upwards that has a workspace manifest.
fn root_above(start: &Path) -> Option<PathBuf> {
    let is_root = |folder: &&Path| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml"));
        manifest.is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
    };
    start.ancestors().find(is_root).map(Path::to_owned)
}

/// The cargo that started this one.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_root());
    without_ours(&mut command);
    command
}

/// Builds these packages in release.
pub(crate) fn build_in_release(packages: &[&str]) -> anyhow::Result<()> {
    for package in packages {
        let built = cargo()
            .args(["build", "--release", "--package", package])
            .status();
        let built = built.context("cargo could not be started")?;
        anyhow::ensure!(built.success(), "{package} could not be built");
    }
    Ok(())
}

/// What cargo knows of the packages of a workspace.
pub(crate) fn metadata<T: DeserializeOwned>(root: &Path) -> anyhow::Result<T> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata = host::output(command.current_dir(root))?;
    serde_json::from_str(&metadata).context("the metadata of the workspace cannot be read")
}

/// The folder that cargo builds in.
pub(crate) fn target_folder() -> PathBuf {
    let named = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    named.unwrap_or_else(|| workspace_root().join("target"))
}

/// Removes the variables that `cargo run` has set for us and that are not meant for another
/// package.
pub(crate) fn without_ours(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
}

/// The steps so far.
pub(crate) struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: String,
    outcome: Outcome,
    seconds: f64,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It passed.
    Passed,
    /// It failed, with the reason in a few words.
    Failed(String),
    /// It was not run, with the reason.
    Skipped(String),
}

impl Steps {
    /// No steps yet.
    pub(crate) fn new() -> Self {
        Self { done: Vec::new() }
    }

    /// Runs a step. An error counts as its failure, and the next step is still run. Returns whether
    /// it has passed.
    pub(crate) fn run(
        &mut self,
        name: &str,
        step: impl FnOnce() -> anyhow::Result<Outcome>,
    ) -> bool {
        println!("\n=== {name}");
        let begun = Instant::now();
        let outcome = step().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        let passed = outcome == Outcome::Passed;
        self.add(name, outcome, begun.elapsed());
        passed
    }

    /// Adds a step that was run elsewhere.
    pub(crate) fn add(&mut self, name: &str, outcome: Outcome, took: Duration) {
        let step = Step {
            name: name.to_owned(),
            outcome,
            seconds: took.as_secs_f64(),
        };
        println!("=== {}", step.line(name.len()));
        self.done.push(step);
    }

    /// Whether none has failed.
    pub(crate) fn all_passed(&self) -> bool {
        !self
            .done
            .iter()
            .any(|step| matches!(step.outcome, Outcome::Failed(_)))
    }

    /// A table of all.
    pub(crate) fn summary(&self) -> String {
        let width = self
            .done
            .iter()
            .map(|step| step.name.len())
            .max()
            .unwrap_or_default();
        self.done
            .iter()
            .map(|step| step.line(width) + "\n")
            .collect()
    }
}

impl Step {
    fn line(&self, width: usize) -> String {
        let (result, why) = match &self.outcome {
            Outcome::Passed => ("ok", ""),
            Outcome::Failed(why) => ("FAILED", &**why),
            Outcome::Skipped(why) => ("not done", &**why),
        };
        let line = format!(
            "{:width$}  {result:8}  {:6.1} s  {why}",
            self.name, self.seconds
        );
        line.trim_end().to_owned()
    }
}

/// Runs `command` as part of `run`, with our output. Fails if it does.
pub(crate) fn complete(run: &RunDir, command: &mut Command) -> anyhow::Result<Outcome> {
    let mut child = run.spawn("step", Ending::Terminate, command.stdin(Stdio::null()))?;
    let status = child.wait().context("the step could not be waited for")?;
    run.forget("step", Ending::Terminate);
    Ok(if status.success() {
        Outcome::Passed
    } else {
        Outcome::Failed(status.to_string())
    })
}

/// The same, and also passes every line of its standard output to `see`.
pub(crate) fn complete_read(
    run: &RunDir,
    command: &mut Command,
    mut see: impl FnMut(&str),
) -> anyhow::Result<Outcome> {
    read(run, command, |line| {
        print!("{line}");
        see(line);
    })
}

/// The same, but passes its standard output only to `read`, line by line.
pub(crate) fn read(
    run: &RunDir,
    command: &mut Command,
    mut read: impl FnMut(&str),
) -> anyhow::Result<Outcome> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = run.spawn("step", Ending::Terminate, command)?;
    let mut lines = BufReader::new(child.stdout.take().context("no pipe to the step")?);
    let mut line = Vec::new();
    while lines
        .read_until(b'\n', &mut line)
        .is_ok_and(|length| length > 0)
    {
        let text = String::from_utf8_lossy(&line);
        read(&text);
        line.clear();
    }
    let status = child.wait().context("the step could not be waited for")?;
    run.forget("step", Ending::Terminate);
    Ok(if status.success() {
        Outcome::Passed
    } else {
        Outcome::Failed(status.to_string())
    })
}

/// The lines that only one of the texts has: `-` for the old one's, `+` for the new one's.
pub(crate) fn differences(old: &str, new: &str) -> String {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (old.lines().collect(), new.lines().collect());
    let gone = old.difference(&new).map(|line| format!("  - {line}\n"));
    let added = new.difference(&old).map(|line| format!("  + {line}\n"));
    gone.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_shown_by_line() {
        assert_eq!(differences("a\nb\n", "a\nb\n"), "");
        assert_eq!(differences("a\nb\n", "b\nc\n"), "  - a\n  + c\n");
    }

    #[test]
    fn a_failed_step_fails_all_and_an_undone_one_does_not() {
        let mut steps = Steps::new();
        steps.run("one", || Ok(Outcome::Passed));
        steps.run("two", || Ok(Outcome::Skipped("no tool".to_owned())));
        assert!(steps.all_passed());
        steps.run("three", || anyhow::bail!("broke"));
        assert!(!steps.all_passed());
        let summary = steps.summary();
        assert_eq!(summary.lines().count(), 3);
        assert!(
            summary.contains("FAILED") && summary.contains("broke"),
            "{summary}"
        );
        assert!(
            summary.contains("not done") && summary.contains("no tool"),
            "{summary}"
        );
    }

    #[test]
    fn the_workspace_is_found_from_any_of_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("crates/one/src");
        fs::create_dir_all(&deep).unwrap();
        fs::write(folder.path().join("Cargo.toml"), "[workspace]\n").unwrap();
        fs::write(folder.path().join("crates/one/Cargo.toml"), "[package]\n").unwrap();
        assert_eq!(root_above(&deep).as_deref(), Some(folder.path()));
        assert!(workspace_root().join("xtask/src/steps.rs").is_file());
    }
}

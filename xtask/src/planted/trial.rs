//! A worktree with one defect at a time, in which the tests that concern it run until one fails.

use super::patch::Patch;
use super::verdict::Verdict;
use crate::executables::Executable;
use crate::host;
use crate::servers::{self, Store};
use crate::steps;
use anyhow::Context as _;
use serde::Deserialize;
use shedlock_rig::engine::{Ending, Servers};
use shedlock_rig::process::Process;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// After this time a test target hangs, which convicts as well.
const LONGEST: Duration = Duration::from_secs(300);

/// How many of the failed tests are run again, and named.
const REPEATED: usize = 3;

/// The arguments of cargo for all builds. With the features of the whole workspace, so that the dependencies are built
/// once for all of them.
const BUILD: [&str; 4] = [
    "test",
    "--all-features",
    "--no-run",
    "--message-format=json-render-diagnostics",
];

/// A test target of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) package: String,
    pub(super) name: String,
    /// The unit tests of a library or a program.
    pub(super) is_unit: bool,
    is_library: bool,
}

impl Target {
    fn title(&self) -> String {
        let name = if self.is_unit { "lib" } else { &self.name };
        format!("{} {name}", self.package)
    }
}

/// Judges one defect after the other.
pub(super) struct Court<'a> {
    servers: &'a Servers,
    tree: PathBuf,
    output: PathBuf,
    targets: Vec<Target>,
    /// The tests of a target that fail without any defect: on this machine, or in this court.
    broken: RefCell<BTreeMap<String, Vec<String>>>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<PackageTarget>,
}

#[derive(Deserialize)]
struct PackageTarget {
    name: String,
    kind: Vec<String>,
}

/// All test targets of a workspace.
pub(super) fn targets(root: &Path) -> anyhow::Result<Vec<Target>> {
    let metadata: Metadata = steps::metadata(root)?;
    let of_package = |package: Package| {
        let name = package.name;
        let targets = package.targets.into_iter();
        targets.filter_map(move |target| {
            let kind = target.kind.first()?;
            matches!(&**kind, "test" | "lib" | "bin").then(|| Target {
                package: name.clone(),
                name: target.name,
                is_unit: kind != "test",
                is_library: kind == "lib",
            })
        })
    };
    Ok(metadata.packages.into_iter().flat_map(of_package).collect())
}

impl<'a> Court<'a> {
    /// Checks out the revision beside the build output, without any defect.
    pub(super) fn open(servers: &'a Servers, revision: &str) -> anyhow::Result<Self> {
        let folder = steps::target_folder().join("planted");
        let (tree, output) = (folder.join("tree"), folder.join("target"));
        let git = |folder: &Path, args: &[&str]| {
            host::output(Command::new("git").current_dir(folder).args(args))
        };
        let root = steps::workspace_root();
        let commit = git(&root, &["rev-parse", &format!("{revision}^{{commit}}")])?;
        if tree.exists() {
            // Resets the files that differ only, so that cargo builds no more than it must.
            git(&tree, &["checkout", "--force", "--detach", commit.trim()])?;
        } else {
            let place = tree.to_string_lossy();
            git(&root, &["worktree", "prune"])?;
            git(
                &root,
                &["worktree", "add", "--detach", &place, commit.trim()],
            )?;
        }
        let targets = targets(&tree)?;
        Ok(Self {
            servers,
            tree,
            output,
            targets,
            broken: RefCell::default(),
        })
    }

    /// Plants one defect, runs the tests, and removes it again.
    pub(super) fn judge(&self, patch: &Patch) -> Verdict {
        let verdict = self.apply(patch).and_then(|()| self.tried(patch));
        let restored = self.restore(patch);
        match verdict.and_then(|verdict| restored.map(|()| verdict)) {
            Ok(verdict) => verdict,
            Err(error) => {
                eprintln!("{error:#}");
                // The rest names folders of this machine.
                Verdict::Unfit(error.to_string())
            }
        }
    }

    fn tried(&self, patch: &Patch) -> anyhow::Result<Verdict> {
        for test in &patch.tests {
            for (target, built) in self.build(&test.within(&self.targets))? {
                let Some(failed) = self.fails(&built)? else {
                    continue;
                };
                let sound = self.sound(patch, target, failed)?;
                if !sound.is_empty() {
                    let (title, failed) = (target.title(), some_of(&sound));
                    return Ok(Verdict::Convicted(format!("{title}: {failed}")));
                }
            }
        }
        Ok(Verdict::Acquitted)
    }

    fn apply(&self, patch: &Patch) -> anyhow::Result<()> {
        let applied = host::output(&mut patch.application(&self.tree));
        applied.map(drop).context("does not apply")
    }

    fn restore(&self, patch: &Patch) -> anyhow::Result<()> {
        let mut git = Command::new("git");
        git.current_dir(&self.tree)
            .args(["checkout", "--quiet", "--"]);
        host::output(git.args(patch.files())).map(drop)
    }

    /// Those of the failed tests that pass without the defect.
    fn sound(
        &self,
        patch: &Patch,
        target: &Target,
        failed: Vec<String>,
    ) -> anyhow::Result<Vec<String>> {
        let mut known = self.broken.borrow_mut();
        let title = target.title();
        let broken = match known.entry(title.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                self.restore(patch)?;
                let mut broken = Vec::new();
                for (_, built) in self.build(&[target])? {
                    broken.extend(self.fails(&built)?.unwrap_or_default());
                }
                self.apply(patch)?;
                if !broken.is_empty() {
                    eprintln!("  {title} fails without any defect: {}", broken.join(", "));
                }
                unknown.insert(broken)
            }
        };
        let is_sound = |test: &String| !broken.contains(test);
        Ok(failed.into_iter().filter(is_sound).collect())
    }

    /// What fails in a target, if it fails in two runs.
    fn fails(&self, built: &Executable) -> anyhow::Result<Option<Vec<String>>> {
        let Some(failed) = self.failures(built, &[])? else {
            return Ok(None);
        };
        if failed.is_empty() {
            return Ok(Some(vec!["broke off or did not end".to_owned()]));
        }
        // A defect fails again; a test that was only disturbed does not.
        let few: Vec<_> = failed.iter().take(REPEATED).cloned().collect();
        if self.failures(built, &few)?.is_none() {
            eprintln!("  disturbed, not convicted: {}", failed.join(", "));
            return Ok(None);
        }
        Ok(Some(failed))
    }

    /// Builds targets that are alike: the unit tests of one package, or integration tests.
    fn build<'t>(&self, targets: &[&'t Target]) -> anyhow::Result<Vec<(&'t Target, Executable)>> {
        let mut command = steps::cargo();
        command.current_dir(&self.tree).args(BUILD);
        for target in targets {
            match (target.is_unit, target.is_library) {
                (true, true) => command.args(["-p", &target.package, "--lib"]),
                (true, false) => command.args(["-p", &target.package, "--bin", &target.name]),
                (false, _) => command.args(["--test", &target.name]),
            };
        }
        if targets.iter().any(|target| !target.is_unit) {
            command.arg("--workspace");
        }
        command.env("CARGO_TARGET_DIR", &self.output);
        let printed = host::output(&mut command).context("does not compile")?;
        let built = printed.lines().filter_map(Executable::of_message);
        let of_target = |built: Executable| {
            let is_it = |it: &&&Target| it.package == built.package && it.name == built.target;
            let target = *targets.iter().find(is_it)?;
            Some((target, built))
        };
        Ok(built.filter_map(of_target).collect())
    }

    /// The names of the tests that fail, or `None` if it passes. Empty if it breaks off or does not end.
    fn failures(&self, built: &Executable, only: &[String]) -> anyhow::Result<Option<Vec<String>>> {
        let run = self.servers.run();
        let path = run.path().join("planted.log");
        let log = File::create(&path).context("no log file")?;
        let mut command = built.command();
        if !only.is_empty() {
            command.arg("--exact").args(only);
        }
        servers::name(self.servers, Store::all(), &mut command);
        command
            .env("CARGO_TARGET_DIR", &self.output)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("no second log file")?)
            .stderr(log);
        let mut child = run.spawn("planted", Ending::Kill, &mut command)?;
        let end = Instant::now() + LONGEST;
        let status = loop {
            match child.try_wait().context("a test cannot be waited for")? {
                None if Instant::now() < end => sleep(Duration::from_millis(20)),
                status => break status,
            }
        };
        if status.is_none() {
            if let Some(process) = Process::find(child.id()) {
                process.kill_tree(Duration::from_secs(10));
            }
            child.wait().context("a test cannot be waited for")?;
        }
        run.forget("planted", Ending::Kill);
        if status.is_some_and(|status| status.success()) {
            return Ok(None);
        }
        let printed = fs::read(&path).context("the log file cannot be read")?;
        Ok(Some(failed_tests(&String::from_utf8_lossy(&printed))))
    }
}

/// Their names, or those of the first and how many more there are.
fn some_of(failed: &[String]) -> String {
    let named = failed.iter().take(REPEATED).cloned().collect::<Vec<_>>();
    match failed.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// The names in lines such as `test law::case ... FAILED`.
fn failed_tests(printed: &str) -> Vec<String> {
    let name = |line: &str| {
        let line = line.trim_end();
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.trim().to_owned())
    };
    printed.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::patch::Test;
    use super::*;

    #[test]
    fn failed_tests_are_named() {
        let printed = "running 2 tests\ntest a::b ... ok\ntest c ... FAILED\n\nfailures:\n    c\n";
        assert_eq!(failed_tests(printed), ["c"]);
    }

    #[test]
    fn targets_are_those_of_the_workspace() {
        let targets = targets(&steps::workspace_root()).unwrap();
        let meant = |text: &str| {
            let test: Test = text.parse().unwrap();
            test.within(&targets).len()
        };
        assert_eq!(meant("shedlock-core lib"), 1);
        assert_eq!(meant("shedlock-cli bins"), 1);
        assert_eq!(meant("shedlock-core lost"), 1);
        assert!(meant("shedlock-core tests") > 10);
        assert_eq!(meant("shedlock-core nothing"), 0);
    }
}

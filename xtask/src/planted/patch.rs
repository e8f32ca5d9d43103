//! A planted defect: a patch with a head that says what it breaks and which tests concern it.

use super::trial::Target;
use anyhow::{Context as _, bail};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// The most lines that a patch changes.
pub(super) const MOST_LINES: usize = 10;

/// One defect.
pub(super) struct Patch {
    /// The name of its file, without the ending.
    pub(super) name: String,
    /// Where it is.
    pub(super) file: PathBuf,
    /// The tests that concern it, the cheapest first.
    pub(super) tests: Vec<Test>,
    /// The name of the mutant that it was drawn as.
    pub(super) mutant: Option<String>,
    diff: String,
}

/// Tests of a package: `shedlock-core lib`, `shedlock-core lost`, or all of its integration tests: `shedlock-core tests`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    package: String,
    target: String,
}

impl Patch {
    /// Reads a file.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(file, &text).with_context(|| format!("{}", file.display()))
    }

    fn parse(file: &Path, text: &str) -> anyhow::Result<Self> {
        let (head, diff) = text
            .split_once("\n---\n")
            .context("there is no line `---` between the head and the diff")?;
        let line = |key: &str| head.lines().find_map(|line| line.strip_prefix(key));
        line("What: ").context("the head has no line `What: …`")?;
        let from = line("From: ").context("the head has no line `From: …`")?;
        let tests = line("Tests: ").context("the head has no line `Tests: …`")?;
        let tests = tests
            .split(", ")
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.into_owned(),
            file: file.to_owned(),
            tests,
            mutant: from
                .strip_prefix("cargo mutants, ")
                .and_then(|it| it.split_once(": "))
                .map(|(_, name)| name.to_owned()),
            diff: diff.to_owned(),
        })
    }

    /// How many lines it adds and removes.
    #[cfg(test)]
    pub(super) fn changed_lines(&self) -> usize {
        changed_lines(&self.diff)
    }

    /// Returns the command that applies it to this tree.
    pub(super) fn application(&self, tree: &Path) -> Command {
        let mut git = Command::new("git");
        git.current_dir(tree).arg("apply").arg(&self.file);
        git
    }

    /// The files that it changes.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        let lines = self.diff.lines();
        lines.filter_map(|line| line.strip_prefix("+++ b/"))
    }
}

/// How many lines a diff adds and removes.
pub(super) fn changed_lines(diff: &str) -> usize {
    let is_change = |line: &&str| {
        line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---")
    };
    diff.lines().filter(is_change).count()
}

impl Test {
    /// Those of these targets that it means.
    pub(super) fn within<'a>(&self, targets: &'a [Target]) -> Vec<&'a Target> {
        let is_meant = |target: &&Target| {
            target.package == self.package
                && match &*self.target {
                    "lib" | "bins" => target.is_unit,
                    "tests" => !target.is_unit,
                    name => !target.is_unit && target.name == name,
                }
        };
        targets.iter().filter(is_meant).collect()
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.target)
    }
}

impl FromStr for Test {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((package, target)) = text.trim().split_once(' ') else {
            bail!("`{text}` is not a package and a target");
        };
        Ok(Self {
            package: package.to_owned(),
            target: target.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "What: an unlock frees any lock\nFrom: 1a2b3c4d\n\
        Tests: shedlock-core lib, shedlock-core lost\n---\n\
        diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n d\n";

    #[test]
    fn the_head_names_the_tests() {
        let patch = Patch::parse(Path::new("a/h01-any.patch"), TEXT).unwrap();
        assert_eq!(patch.name, "h01-any");
        let tests: Vec<_> = patch.tests.iter().map(Test::to_string).collect();
        assert_eq!(tests, ["shedlock-core lib", "shedlock-core lost"]);
        assert_eq!(patch.files().collect::<Vec<_>>(), ["x.rs"]);
        assert_eq!(patch.changed_lines(), 2);
    }

    #[test]
    fn a_patch_without_tests_is_refused() {
        for line in ["What: ", "From: ", "Tests: "] {
            let text = TEXT.replace(line, "Who: ");
            assert!(Patch::parse(Path::new("h01.patch"), &text).is_err());
        }
    }
}

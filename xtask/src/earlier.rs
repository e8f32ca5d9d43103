//! Test targets of earlier versions, built from the history of this repository.

use crate::host;
use crate::steps;
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One revision, with its sources in the cache folder.
pub(crate) struct Earlier {
    revision: String,
    folder: PathBuf,
}

impl Earlier {
    /// Resolves anything that git accepts as a commit: a tag, a branch, a hash.
    pub(crate) fn of(name: &str) -> anyhow::Result<Self> {
        let commit = format!("{name}^{{commit}}");
        let found = host::output(git().args(["rev-parse", "--verify", "--quiet", &commit]));
        let revision =
            found.with_context(|| format!("{name:?} is not a commit of this repository"))?;
        let revision = revision.trim().to_owned();
        let folder = host::cache_dir()?.join("earlier").join(&revision);
        Ok(Self { revision, folder })
    }

    /// The executable of this test target. Built unless it was built before.
    pub(crate) fn test_target(&self, package: &str, target: &str) -> anyhow::Result<PathBuf> {
        let source = self.unpacked()?;
        eprintln!("xtask: building {package} of {}", self.revision);
        let mut command = steps::cargo();
        command
            .args([
                "test",
                "--no-run",
                "--all-features",
                "--message-format=json",
            ])
            .args(["-p", package, "--test", target])
            .current_dir(&source)
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        let output = command.output().context("cargo could not be started")?;
        if !output.status.success() {
            bail!("{package} of {} could not be built", self.revision);
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        executable(&messages, target)
            .with_context(|| format!("{} has no test target {target}", self.revision))
    }

    /// Its files, as they were committed.
    fn unpacked(&self) -> anyhow::Result<PathBuf> {
        let source = self.folder.join("source");
        if source.is_dir() {
            return Ok(source);
        }
        let cannot = || format!("{} could not be unpacked", self.revision);
        fs::create_dir_all(&self.folder).with_context(cannot)?;
        // Under another name until it is complete.
        let torn = tempfile::tempdir_in(&self.folder).with_context(cannot)?;
        let archive = self.folder.join("source.tar");
        host::output(
            git()
                .args(["archive", "--output"])
                .args([&archive])
                .arg(&self.revision),
        )?;
        unpack(&archive, torn.path())?;
        fs::remove_file(&archive).with_context(cannot)?;
        fs::rename(torn.path(), &source).with_context(cannot)?;
        Ok(source)
    }
}

fn unpack(archive: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(folder);
    host::output(&mut tar).map(drop)
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(steps::workspace_root());
    git
}

/// Cargo's message about an artifact.
#[derive(Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// The executable of this target among cargo's messages.
fn executable(messages: &str, target: &str) -> Option<PathBuf> {
    let artifacts = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    let mut of_target =
        artifacts.filter(|artifact| artifact.target.as_ref().is_some_and(|it| it.name == target));
    of_target.find_map(|artifact| artifact.executable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_of_a_target_is_found_among_others() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"kit"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/t/other-1"}"#,
            "\nwarning: no JSON\n",
            r#"{"reason":"compiler-artifact","target":{"name":"kit"},"executable":"/t/kit-2"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages, "kit"), Some("/t/kit-2".into()));
        assert_eq!(executable(messages, "none"), None);
    }
}

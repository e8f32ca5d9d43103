//! MySQL's own server for a Debian that has none: the one of the unstable distribution, with the
//! libraries it needs, extracted into a folder of ours. Nothing of it is installed.

use crate::host;
use anyhow::{Context as _, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The tool that extracts it, and its package.
pub(crate) const PACKAGE: &str = "mmdebstrap";

/// The folder that it is extracted to.
pub(crate) fn mysql_root() -> anyhow::Result<PathBuf> {
    Ok(host::cache_dir()?.join("mysql-sid"))
}

/// Extracts it, if the registry has it today.
///
/// The unstable distribution moves and cannot be pinned: callers must be able to do without.
pub(crate) fn extract_mysql() -> anyhow::Result<()> {
    if !host::is_debian() || !host::is_root() {
        bail!("it is extracted only on Debian as root");
    }
    let mmdebstrap = host::find_program(PACKAGE).context("mmdebstrap is not installed")?;
    let root = mysql_root()?;
    let part = root.with_extension("part");
    // A run that was killed has left half of it.
    let _ = fs::remove_dir_all(&part);
    eprintln!(
        "xtask: extracting Debian sid's mysql-server-core into {}",
        root.display()
    );
    host::output(
        Command::new(mmdebstrap)
            .args(["--quiet", "--variant=extract"])
            .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
            .arg("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr")
            .arg("--include=base-files,mysql-server-core")
            .arg("sid")
            .arg(&part)
            .args(mirror()),
    )?;
    fs::rename(&part, &root).with_context(|| format!("{} could not be renamed", part.display()))
}

/// The mirror that this machine takes Debian from, if apt tells.
fn mirror() -> Option<String> {
    let said = host::output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Origin: Debian",
        "Label: Debian",
    ]))
    .ok()?;
    said.lines()
        .next()
        .map(|line| line.trim_end_matches('/').to_owned())
}

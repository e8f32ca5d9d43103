//! `cargo xtask deny`: licences, advisories, bans and sources of the dependencies.

use anyhow::{Context as _, bail};
use std::process::{Command, ExitCode};

/// Runs cargo-deny with the repository's `deny.toml`.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    if crate::host::find_program("cargo-deny").is_none() {
        bail!("cargo-deny is not installed: get it with `cargo install --locked cargo-deny`");
    }
    let status = Command::new("cargo-deny")
        .args(["--all-features", "check"])
        .current_dir(crate::steps::workspace_root())
        .status()
        .context("cargo-deny could not be started")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

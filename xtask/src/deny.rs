//! `cargo xtask deny`: licences, advisories, bans and sources of the dependencies.

use crate::sqlx08;
use anyhow::{Context as _, bail};
use std::process::{Command, ExitCode};

/// Runs cargo-deny with the repository's `deny.toml`, in each workspace that is published.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    if crate::host::find_program("cargo-deny").is_none() {
        bail!("cargo-deny is not installed: get it with `cargo install --locked cargo-deny`");
    }
    let root = crate::steps::workspace_root();
    let mut code = ExitCode::SUCCESS;
    for folder in sqlx08::PUBLISHED {
        let mut deny = Command::new("cargo-deny");
        let config = root.join("deny.toml");
        deny.args(["--all-features", "--config"]).arg(config);
        deny.arg("check");
        let status = deny.current_dir(root.join(folder)).status();
        if !status.context("cargo-deny could not be started")?.success() {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

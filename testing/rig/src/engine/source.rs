//! Servers that no package of this Debian has, each in a folder of ours. Nothing is installed.

mod extract;
mod go;
mod pip;

pub(crate) use extract::{Extract, MMDEBSTRAP};
pub(crate) use go::{GO_PACKAGE, Go, go};
pub(crate) use pip::{PACKAGES as PIP_PACKAGES, Pip};

use anyhow::Context as _;
use std::fs;
use std::path::Path;

/// Fills a folder of ours that appears only once it is complete.
fn complete(folder: &Path, fill: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let part = folder.with_extension("part");
    // A killed run may have left a partial one.
    let _ = fs::remove_dir_all(&part);
    fill(&part)?;
    fs::rename(&part, folder).with_context(|| format!("{} could not be renamed", part.display()))
}

//! Python packages from PyPI.

use crate::engine::Found;
use crate::host;
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::Command;

/// A server that consists of Python packages.
pub(crate) struct Pip {
    /// Our folder inside the cache, named after its contents.
    pub(crate) folder: &'static str,
    /// The packages, all at known versions.
    pub(crate) requirements: &'static [&'static str],
}

/// What installs it, and what runs it.
pub(crate) const PACKAGES: [&str; 2] = ["python3", "python3-pip"];

impl Pip {
    /// The packages that were installed, if any. Their folder is `{packages}`.
    pub(crate) fn find(&self) -> anyhow::Result<Option<Found>> {
        let packages = self.folder()?;
        let python = python().filter(|_| packages.is_dir());
        Ok(python.map(|python| Found::program(&python).with("packages", packages.display())))
    }

    /// Installs them into a folder of ours.
    pub(crate) fn install(&self) -> anyhow::Result<()> {
        let python = python().context("python3 is not installed")?;
        let folder = self.folder()?;
        let first = self.requirements.first().copied().unwrap_or_default();
        eprintln!("xtask: installing {first} by pip into {}", folder.display());
        super::complete(&folder, |part| {
            let mut pip = Command::new(python);
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
                .arg(part)
                .args(self.requirements)
                .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
                .env("PIP_ROOT_USER_ACTION", "ignore");
            host::output(&mut pip).map(drop)
        })
    }

    fn folder(&self) -> anyhow::Result<PathBuf> {
        Ok(host::cache_dir()?.join(self.folder))
    }
}

/// The system's Python before another one of the user's: compiled packages fit one version of
/// Python.
fn python() -> Option<PathBuf> {
    let systems = PathBuf::from("/usr/bin/python3");
    let systems = host::is_program(&systems).then_some(systems);
    systems.or_else(|| host::find_program("python3"))
}

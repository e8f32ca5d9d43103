//! A double of MongoDB, since no registry has MongoDB itself: SecantusDB, of Python's registry,
//! which speaks its protocol over WiredTiger.

use super::instance::Server;
use super::probe;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use anyhow::Context as _;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `apt-get` knows the interpreter and its installer by.
pub(crate) const PACKAGES: [&str; 2] = ["python3", "python3-pip"];

/// The double and all that it needs, each at the version that was seen to work.
pub(crate) const REQUIREMENTS: [&str; 9] = [
    "SecantusDB==0.7.0b3",
    "dnspython==2.9.2",
    "future==1.0.0",
    "numpy==2.4.6",
    "pymongo==4.20.0",
    "python-dateutil==4.0.0",
    "s2sphere==0.2.5",
    "shapely==2.2.0",
    "tzdata==2026.6",
];

/// Named by what is in it.
const FOLDER: &str = "secantusdb-0.7.0b3";

/// The double where it was installed.
pub(crate) struct Mongodb {
    python: PathBuf,
    packages: PathBuf,
    settings: Vec<String>,
}

impl Mongodb {
    /// The one that [`install`] made, if any.
    pub(crate) fn find(profile: &Profile) -> anyhow::Result<Option<Self>> {
        let packages = folder()?;
        let Some(python) = python().filter(|_| packages.is_dir()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            python,
            packages,
            settings: profile.extra_args.clone(),
        }))
    }
}

/// Installs it into a folder of ours.
pub(crate) fn install() -> anyhow::Result<()> {
    let python = python().context("python3 is not installed")?;
    let folder = folder()?;
    let part = folder.with_extension("part");
    // A run that was killed has left half of it.
    let _ = fs::remove_dir_all(&part);
    eprintln!(
        "xtask: installing {} by pip into {}",
        REQUIREMENTS[0],
        folder.display()
    );
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(&part)
        .args(REQUIREMENTS)
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("PIP_ROOT_USER_ACTION", "ignore");
    host::output(&mut pip)?;
    fs::rename(&part, &folder).with_context(|| format!("{} could not be renamed", part.display()))
}

/// The command that installs it by hand, without the folder.
pub(crate) fn by_hand() -> String {
    format!("pip install --no-deps {}", REQUIREMENTS.join(" "))
}

fn folder() -> anyhow::Result<PathBuf> {
    Ok(host::cache_dir()?.join(FOLDER))
}

/// The system's own before another of the user's: what is compiled fits one version of Python.
fn python() -> Option<PathBuf> {
    let systems = PathBuf::from("/usr/bin/python3");
    host::is_program(&systems)
        .then_some(systems)
        .or_else(|| host::find_program("python3"))
}

impl Server for Mongodb {
    fn name(&self) -> &'static str {
        "mongodb"
    }

    fn account(&self) -> Option<Account> {
        None
    }

    fn init(&self, _run: &RunDir, _home: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    /// As a replica set of one node, which it is unless told otherwise.
    fn command(&self, home: &Path, port: u16) -> Command {
        let mut command = Command::new(&self.python);
        command
            .args(["-m", "secantus", "--host", "127.0.0.1", "--port"])
            .arg(port.to_string())
            .arg("--storage-path")
            .arg(home.join("data"))
            .args(&self.settings)
            .env("PYTHONPATH", &self.packages)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn url(&self, port: u16) -> String {
        format!("mongodb://127.0.0.1:{port}/shedlock_test")
    }

    fn probe(&self, port: u16) -> anyhow::Result<String> {
        let posing = probe::mongodb("127.0.0.1", port)?;
        Ok(format!("{FOLDER}, a double of MongoDB {posing}"))
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

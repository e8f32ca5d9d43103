//! NATS with JetStream, as it is installed.

use super::instance::Server;
use super::probe;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `apt-get` knows it by.
pub(crate) const PACKAGE: &str = "nats-server";

/// An installed NATS server.
pub(crate) struct Nats {
    program: PathBuf,
    settings: Vec<String>,
}

impl Nats {
    /// The one that is installed, if any.
    pub(crate) fn find(profile: &Profile) -> Option<Self> {
        let debians = PathBuf::from("/usr/sbin/nats-server");
        let program = host::find_program("nats-server")
            .or_else(|| host::is_program(&debians).then_some(debians))?;
        Some(Self {
            program,
            settings: profile.extra_args.clone(),
        })
    }
}

impl Server for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn account(&self) -> Option<Account> {
        None
    }

    fn init(&self, _run: &RunDir, _home: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    fn command(&self, home: &Path, port: u16) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["-a", "127.0.0.1", "-js", "-p"])
            .arg(port.to_string())
            .arg("-sd")
            .arg(home.join("data"))
            .args(&self.settings);
        command
    }

    fn url(&self, port: u16) -> String {
        format!("nats://127.0.0.1:{port}")
    }

    fn probe(&self, port: u16) -> anyhow::Result<String> {
        probe::nats("127.0.0.1", port)
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

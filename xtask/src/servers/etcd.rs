//! etcd, as it is installed: a cluster of one.

use super::instance::Server;
use super::probe;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `apt-get` knows it by.
pub(crate) const PACKAGE: &str = "etcd-server";

/// An installed etcd.
pub(crate) struct Etcd {
    program: PathBuf,
    settings: Vec<String>,
}

impl Etcd {
    /// The one that is installed, if any.
    pub(crate) fn find(profile: &Profile) -> Option<Self> {
        Some(Self {
            program: host::find_program("etcd")?,
            settings: profile.extra_args.clone(),
        })
    }
}

impl Server for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn account(&self) -> Option<Account> {
        None
    }

    fn init(&self, _run: &RunDir, _home: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    fn command(&self, home: &Path, port: u16) -> Command {
        let client = format!("http://127.0.0.1:{port}");
        // Nobody else is in this cluster, so that any port will do.
        let peer = "http://127.0.0.1:0";
        let mut command = Command::new(&self.program);
        command
            .arg("--data-dir")
            .arg(home.join("data"))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", peer])
            .args(["--initial-advertise-peer-urls", peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            // Half of what is usual: leases of a second are to be had then, and tests wait for them.
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(&self.settings);
        command
    }

    fn url(&self, port: u16) -> String {
        format!("etcd://127.0.0.1:{port}")
    }

    fn probe(&self, port: u16) -> anyhow::Result<String> {
        probe::etcd("127.0.0.1", port)
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

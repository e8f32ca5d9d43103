//! The installed etcd: a cluster of one.

use super::instance::{Server, boxed};
use super::kind::{Definition, Kind, Role, Source};
use super::probe::get;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use anyhow::{Context as _, bail};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How to obtain, find and probe it.
pub(super) const KIND: Kind = Kind(&Definition {
    word: "etcd",
    title: "etcd",
    role: Role::Main,
    kit: ("shedlock-etcd", "conformance"),
    source: Source::Packages(&["etcd-server"]),
    advice: None,
    find: |profile| Ok(Etcd::find(profile).map(boxed)),
    port: 2379,
    version_at: |at| probe(at.host, at.port),
});

/// An installed etcd.
pub(crate) struct Etcd {
    program: PathBuf,
    settings: Vec<String>,
}

impl Etcd {
    /// The installed one, if any.
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
        // This cluster has no other member, so any port will do.
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
            // Half of the default: this allows leases of a second, and tests wait for them.
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(&self.settings);
        command
    }

    fn url(&self, port: u16) -> String {
        format!("etcd://127.0.0.1:{port}")
    }

    fn probe(&self, port: u16) -> anyhow::Result<String> {
        probe("127.0.0.1", port)
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

/// The version of the etcd at this address, once it has a leader.
fn probe(host: &str, port: u16) -> anyhow::Result<String> {
    let health = get(host, port, "/health")?;
    if !health.contains("\"true\"") {
        bail!("it is not healthy: {health}");
    }
    version(&get(host, port, "/version")?)
}

fn version(answer: &str) -> anyhow::Result<String> {
    let version = answer.split_once("\"etcdserver\":\"").map(|(_, rest)| rest);
    let version = version.and_then(|rest| rest.split('"').next());
    Ok(version
        .context("it does not report its version")?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_reports_the_servers_version_not_the_clusters() {
        let said = "HTTP/1.0 200 OK\r\n\r\n{\"etcdserver\":\"3.4.23\",\"etcdcluster\":\"3.4.0\"}";
        assert_eq!(version(said).unwrap(), "3.4.23");
        assert!(version("HTTP/1.0 404 Not Found\r\n\r\n").is_err());
    }
}

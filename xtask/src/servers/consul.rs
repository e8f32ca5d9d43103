//! Consul, installed or extracted: a cluster of one that keeps its data on disk.

use super::instance::{Server, boxed};
use super::kind::{Definition, Kind, Role, Source};
use super::port;
use super::probe::get;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use super::sid::{Extract, Extracted};
use crate::host::{self, Account};
use anyhow::{Context as _, bail};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How to obtain, find and probe it.
pub(super) const KIND: Kind = Kind(&Definition {
    word: "consul",
    title: "Consul",
    role: Role::Main,
    kit: ("shedlock-consul", "conformance"),
    source: Source::Extract(EXTRACT),
    advice: None,
    find: |profile| Ok(Consul::find(profile)?.map(boxed)),
    port: 8500,
    version_at: |at| probe(at.host, at.port),
});

/// From the last Debian that had it.
const EXTRACT: Extract = Extract {
    name: "Consul",
    program: "consul",
    package: "consul",
    suite: "bullseye",
    folder: "consul-bullseye",
};

/// Settings that are not on its command line.
const SETTINGS: &str = "settings.json";

/// An installed or extracted Consul.
pub(crate) struct Consul {
    program: Program,
    settings: Vec<String>,
}

/// How the server is started.
enum Program {
    /// As the system installed it.
    Installed(PathBuf),
    /// From a folder with a complete system.
    Extracted(Extracted),
}

impl Consul {
    /// The installed one, otherwise the extracted one, if any.
    pub(crate) fn find(profile: &Profile) -> anyhow::Result<Option<Self>> {
        let root = EXTRACT.root()?;
        let program = host::find_program("consul")
            .map(Program::Installed)
            .or_else(|| Extracted::find(&root, "usr/bin/consul").map(Program::Extracted));
        Ok(program.map(|program| Self {
            program,
            settings: profile.extra_args.clone(),
        }))
    }
}

impl Server for Consul {
    fn name(&self) -> &'static str {
        "consul"
    }

    fn account(&self) -> Option<Account> {
        None
    }

    /// The cluster ports cannot be disabled and must not change: a server that restarts looks for
    /// itself at its previous address.
    fn init(&self, _run: &RunDir, home: &Path) -> anyhow::Result<()> {
        let (server, gossip) = (port::free()?, port::free()?);
        let settings = format!(
            "{{\"ports\": {{\"server\": {server}, \"serf_lan\": {gossip}, \"serf_wan\": -1, \
             \"dns\": -1, \"grpc\": -1}}, \"performance\": {{\"raft_multiplier\": 1}}, \
             \"leave_on_terminate\": false, \"disable_update_check\": true, \"limits\": \
             {{\"http_max_conns_per_client\": 2000}}}}"
        );
        fs::write(home.join(SETTINGS), settings).context("its settings could not be written")
    }

    fn command(&self, home: &Path, port: u16) -> Command {
        let mut command = match &self.program {
            Program::Installed(program) => Command::new(program),
            Program::Extracted(extracted) => extracted.command(),
        };
        command
            .args(["agent", "-server", "-bootstrap-expect=1"])
            .args(["-bind=127.0.0.1", "-client=127.0.0.1", "-log-level=warn"])
            .arg(format!("-http-port={port}"))
            .arg(format!("-data-dir={}", home.join("data").display()))
            .arg(format!("-config-file={}", home.join(SETTINGS).display()))
            .args(&self.settings);
        command
    }

    fn url(&self, port: u16) -> String {
        format!("consul://127.0.0.1:{port}")
    }

    fn probe(&self, port: u16) -> anyhow::Result<String> {
        probe("127.0.0.1", port)
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::INT
    }
}

/// The version of the Consul at this address, once its cluster has a leader.
fn probe(host: &str, port: u16) -> anyhow::Result<String> {
    let leader = get(host, port, "/v1/status/leader")?;
    if !leader.starts_with("HTTP/1.0 200") || leader.ends_with("\"\"") {
        bail!("its cluster has no leader: {leader}");
    }
    version(&get(host, port, "/v1/agent/self")?)
}

fn version(answer: &str) -> anyhow::Result<String> {
    if answer.starts_with("HTTP/1.0 403") {
        return Ok("version not reported without a token".to_owned());
    }
    let version = answer.split_once("\"Version\":\"").map(|(_, rest)| rest);
    let version = version.and_then(|rest| rest.split('"').next());
    Ok(version
        .context("it does not report its version")?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consul_may_omit_its_version() {
        let said = "HTTP/1.0 200 OK\r\n\r\n{\"Config\":{\"Server\":true,\"Version\":\"1.8.7\"}}";
        assert_eq!(version(said).unwrap(), "1.8.7");
        let locked = "HTTP/1.0 403 Forbidden\r\n\r\nPermission denied";
        assert!(version(locked).unwrap().contains("not reported"));
        assert!(version("HTTP/1.0 200 OK\r\n\r\n<html>").is_err());
    }
}

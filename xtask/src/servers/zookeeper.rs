//! The installed ZooKeeper, standalone.

use super::instance::{Server, boxed};
use super::kind::{Definition, Kind, Role, Source};
use super::probe::connect;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use anyhow::{Context as _, bail};
use rustix::process::Signal;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How to obtain, find and probe it: the server without its service, and the Java that runs it.
pub(super) const KIND: Kind = Kind(&Definition {
    word: "zookeeper",
    title: "ZooKeeper",
    role: Role::Main,
    kit: ("shedlock-zookeeper", "conformance"),
    source: Source::Packages(&["libzookeeper-java", "default-jre-headless"]),
    advice: None,
    find: |profile| Ok(ZooKeeper::find(profile).map(boxed)),
    port: 2181,
    version_at: |at| probe(at.host, at.port),
});

/// Debian's path of it, and of the library that writes its log.
const CLASS_PATH: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";

/// An installed ZooKeeper.
pub(crate) struct ZooKeeper {
    java: PathBuf,
    settings: Vec<String>,
}

impl ZooKeeper {
    /// The installed one, if any.
    pub(crate) fn find(profile: &Profile) -> Option<Self> {
        let is_there = CLASS_PATH.split(':').all(|jar| Path::new(jar).is_file());
        let java = host::find_program("java").filter(|_| is_there)?;
        Some(Self {
            java,
            settings: profile.extra_args.clone(),
        })
    }

    /// Any number of clients from this one host, and sessions short enough for tests to outlive.
    fn configuration(home: &Path, port: u16) -> String {
        let home = home.display();
        format!(
            "clientPort={port}\n\
             clientPortAddress=127.0.0.1\n\
             dataDir={home}/data\n\
             tickTime=1000\n\
             minSessionTimeout=1000\n\
             maxSessionTimeout=40000\n\
             maxClientCnxns=0\n\
             admin.enableServer=false\n"
        )
    }
}

impl Server for ZooKeeper {
    fn name(&self) -> &'static str {
        "zookeeper"
    }

    fn account(&self) -> Option<Account> {
        None
    }

    fn init(&self, _run: &RunDir, _home: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    fn command(&self, home: &Path, port: u16) -> Command {
        let mut command = Command::new(&self.java);
        let file = home.join("zoo.cfg");
        // Written here because the port is known here. If that fails, so does the start.
        let _ = fs::write(&file, Self::configuration(home, port));
        command
            .args(["-Xmx256m", "-XX:+UseSerialGC"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .args(&self.settings)
            .args(["-cp", CLASS_PATH])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(file);
        command
    }

    fn url(&self, port: u16) -> String {
        format!("zookeeper://127.0.0.1:{port}")
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

/// The version of the ZooKeeper at this address, which must serve.
fn probe(host: &str, port: u16) -> anyhow::Result<String> {
    let mut stream = connect(host, port)?;
    stream.write_all(b"srvr").context("it does not listen")?;
    let mut said = String::new();
    stream.read_to_string(&mut said).context("no answer")?;
    version(&said)
}

fn version(said: &str) -> anyhow::Result<String> {
    // Debian's version string has more after the number.
    let version = said.strip_prefix("Zookeeper version: ");
    let version = version.and_then(|rest| rest.split([',', '-', '\n']).next());
    if let Some(version) = version {
        return Ok(version.to_owned());
    }
    if said.contains("whitelist") {
        return Ok("version not reported (srvr is not in its 4lw.commands.whitelist)".to_owned());
    }
    bail!("it says: {}", said.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zookeeper_that_does_not_serve_is_reported() {
        let up = "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2024\nMode: standalone\n";
        assert_eq!(version(up).unwrap(), "3.8.0");
        let mute = "srvr is not executed because it is not in the whitelist.\n";
        assert!(version(mute).unwrap().contains("not reported"));
        let starting = "This ZooKeeper instance is not currently serving requests\n";
        let said = version(starting).unwrap_err().to_string();
        assert!(said.contains("not currently serving"), "{said}");
    }
}

//! ZooKeeper alone, as it is installed.

use super::instance::Server;
use super::probe;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `apt-get` knows it by: the server without its service, and what runs it.
pub(crate) const PACKAGES: [&str; 2] = ["libzookeeper-java", "default-jre-headless"];

/// Where Debian has it, with what writes its log.
const CLASS_PATH: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";

/// An installed ZooKeeper.
pub(crate) struct ZooKeeper {
    java: PathBuf,
    settings: Vec<String>,
}

impl ZooKeeper {
    /// The one that is installed, if any.
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
        // Written here since the port is known here; if that fails, so does the start.
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
        probe::zookeeper("127.0.0.1", port)
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

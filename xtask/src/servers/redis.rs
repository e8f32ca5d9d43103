//! Redis and Valkey: the same server under two names.

use super::instance::Server;
use super::probe;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use super::sid::{self, Extracted};
use crate::host::{self, Account};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `apt-get` knows Redis by.
pub(crate) const PACKAGE: &str = "redis-server";

/// An installed or extracted Redis or Valkey.
pub(crate) struct Redis {
    name: &'static str,
    program: Program,
    settings: Vec<String>,
}

/// How the server is called.
enum Program {
    /// As the system has it.
    Installed(PathBuf),
    /// From a folder with a system of its own.
    Extracted(Extracted),
}

impl Redis {
    /// The Redis that is installed, if any.
    pub(crate) fn find(profile: &Profile) -> Option<Self> {
        let daemon = host::find_program("redis-server")?;
        Some(Self::new("redis", Program::Installed(daemon), profile))
    }

    /// The Valkey that is installed, else the one that was extracted, if any.
    pub(crate) fn find_valkey(profile: &Profile) -> anyhow::Result<Option<Self>> {
        let root = sid::VALKEY.root()?;
        let program = host::find_program("valkey-server")
            .map(Program::Installed)
            .or_else(|| Extracted::find(&root, "usr/bin/valkey-server").map(Program::Extracted));
        Ok(program.map(|program| Self::new("valkey", program, profile)))
    }

    fn new(name: &'static str, program: Program, profile: &Profile) -> Self {
        Self {
            name,
            program,
            settings: profile.extra_args.clone(),
        }
    }
}

impl Server for Redis {
    fn name(&self) -> &'static str {
        self.name
    }

    fn account(&self) -> Option<Account> {
        None
    }

    fn init(&self, _run: &RunDir, _home: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    fn command(&self, home: &Path, port: u16) -> Command {
        let mut command = match &self.program {
            Program::Installed(daemon) => Command::new(daemon),
            Program::Extracted(extracted) => extracted.command(),
        };
        command
            .args(["--bind", "127.0.0.1", "--maxclients", "2000"])
            // Its data is thrown away.
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(home)
            .arg("--port")
            .arg(port.to_string())
            .args(&self.settings);
        command
    }

    fn url(&self, port: u16) -> String {
        format!("redis://127.0.0.1:{port}")
    }

    fn probe(&self, port: u16) -> anyhow::Result<String> {
        probe::redis("127.0.0.1", port).map(|(_, version)| version)
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

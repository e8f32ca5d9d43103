//! Redis and Valkey: the same server under two names.

use super::instance::{Server, boxed};
use super::kind::{Address, Definition, Kind, Role, Source};
use super::probe;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use super::sid::{Extract, Extracted};
use crate::host::{self, Account};
use anyhow::ensure;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Redis.
pub(super) const REDIS: Kind = Kind(&Definition {
    word: "redis",
    title: "Redis",
    role: Role::Main,
    kit: ("shedlock-redis", "conformance_redis"),
    source: Source::Packages(&["redis-server"]),
    advice: None,
    find: |profile| Ok(Redis::find(profile).map(boxed)),
    port: 6379,
    version_at: |at| version_at(at, false),
});

/// Valkey, additionally.
pub(super) const VALKEY: Kind = Kind(&Definition {
    word: "valkey",
    title: "Valkey",
    role: Role::Beside("redis"),
    kit: ("shedlock-redis", "conformance_valkey"),
    source: Source::Extract(VALKEY_EXTRACT),
    advice: None,
    find: |profile| Ok(Redis::find_valkey(profile)?.map(boxed)),
    port: 6379,
    version_at: |at| version_at(at, true),
});

const VALKEY_EXTRACT: Extract = Extract {
    name: "Valkey",
    program: "valkey-server",
    package: "valkey-server",
    suite: "sid",
    folder: "valkey-sid",
};

/// An installed or extracted Redis or Valkey.
pub(crate) struct Redis {
    name: &'static str,
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

impl Redis {
    /// The installed Redis, if any.
    pub(crate) fn find(profile: &Profile) -> Option<Self> {
        let daemon = host::find_program("redis-server")?;
        Some(Self::new("redis", Program::Installed(daemon), profile))
    }

    /// The installed Valkey, otherwise the extracted one, if any.
    pub(crate) fn find_valkey(profile: &Profile) -> anyhow::Result<Option<Self>> {
        let root = VALKEY_EXTRACT.root()?;
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

fn version_at(at: &Address<'_>, is_valkey: bool) -> anyhow::Result<String> {
    let (found, version) = probe::redis(at.host, at.port)?;
    ensure!(
        found == is_valkey,
        "Redis was expected and Valkey found, or the reverse: version {version}"
    );
    Ok(version)
}

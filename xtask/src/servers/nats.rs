//! NATS with JetStream: the installed version, and newer ones, built from source with Go.

use super::instance::{Server, boxed};
use super::kind::{Definition, Kind, Role, Source};
use super::probe::connect;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use anyhow::{Context as _, bail};
use rustix::process::Signal;
use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version in Debian.
pub(super) const KIND: Kind = Kind(&Definition {
    word: "nats",
    title: "NATS",
    role: Role::Main,
    kit: ("shedlock-nats", "conformance"),
    source: Source::Packages(&["nats-server"]),
    advice: None,
    find: |profile| Ok(Nats::find(profile).map(boxed)),
    port: 4222,
    version_at: |at| probe(at.host, at.port),
});

/// Additionally 2.10, which can start buckets at a chosen sequence.
pub(super) const KIND_2_10: Kind = Kind(&Definition {
    word: "nats210",
    title: "NATS 2.10",
    role: Role::Version("nats"),
    kit: ("shedlock-nats", "conformance"),
    source: Source::Go(&V2_10),
    advice: None,
    find: |profile| Ok(Nats::find_built(&V2_10, profile)?.map(boxed)),
    port: 4222,
    version_at: |at| probe(at.host, at.port),
});

/// Additionally 2.12, which writes several messages atomically.
pub(super) const KIND_2_12: Kind = Kind(&Definition {
    word: "nats212",
    title: "NATS 2.12",
    role: Role::Version("nats"),
    kit: ("shedlock-nats", "conformance"),
    source: Source::Go(&V2_12),
    advice: None,
    find: |profile| Ok(Nats::find_built(&V2_12, profile)?.map(boxed)),
    port: 4222,
    version_at: |at| probe(at.host, at.port),
});

/// The name of Go's `apt-get` package.
pub(crate) const GO_PACKAGE: &str = "golang-go";

/// The oldest Go that builds all versions.
const OLDEST_GO: &str = "1.25";

/// The module of the server.
const MODULE: &str = "github.com/nats-io/nats-server/v2";

/// A version that is built from source.
pub(crate) struct Version {
    /// Its number.
    pub(crate) version: &'static str,
    /// The name of its server.
    name: &'static str,
}

/// Can start buckets at a chosen sequence.
static V2_10: Version = Version {
    version: "2.10.27",
    name: "nats210",
};

/// Writes several messages atomically.
static V2_12: Version = Version {
    version: "2.12.15",
    name: "nats212",
};

impl Version {
    fn folder(&self) -> anyhow::Result<PathBuf> {
        Ok(host::cache_dir()?.join(format!("nats-server-{}", self.version)))
    }

    /// Builds it into a folder of ours.
    pub(crate) fn build(&self) -> anyhow::Result<()> {
        let go = go().context("Go is not installed")?;
        let folder = self.folder()?;
        let one_at_a_time = folder.with_extension("lock");
        let lock = File::create(&one_at_a_time)
            .with_context(|| format!("{} could not be created", one_at_a_time.display()))?;
        lock.lock()
            .context("the lock of the build could not be acquired")?;
        if host::is_program(&folder.join("nats-server")) {
            return Ok(());
        }
        let part = folder.with_extension("part");
        // A killed run may have left a partial build.
        let _ = fs::remove_dir_all(&part);
        let module = format!("{MODULE}@v{}", self.version);
        eprintln!("xtask: building {module} by Go into {}", folder.display());
        let install = |toolchain: Option<&str>| {
            let mut command = Command::new(&go);
            command
                .args(["install", "-trimpath", &module])
                .current_dir(env::temp_dir())
                .env("GOBIN", &part)
                .env("GOFLAGS", "-mod=mod")
                .env("CGO_ENABLED", "0")
                .envs(toolchain.map(|it| ("GOTOOLCHAIN", it)));
            host::output(&mut command)
        };
        // The installed Go if it is new enough. Otherwise it may download the version that it
        // needs.
        install(Some("local")).or_else(|_| install(None))?;
        fs::rename(&part, &folder)
            .with_context(|| format!("{} could not be renamed", part.display()))
    }

    /// Why it is missing and how to get it.
    pub(crate) fn what_to_do(&self, compose: &str, variable: &str) -> String {
        format!(
            "not built; it is built automatically (`go install {MODULE}@v{}`) if Go {OLDEST_GO} \
             or later is in PATH and can reach a module proxy: on Debian install `{GO_PACKAGE}` \
             of trixie-backports, or Go from https://go.dev/dl; or run `{compose}` and set \
             {variable} as that file says",
            self.version
        )
    }
}

/// The Go that builds them, if there is one.
pub(crate) fn go() -> Option<PathBuf> {
    let by_hand = PathBuf::from("/usr/local/go/bin/go");
    host::find_program("go").or_else(|| host::is_program(&by_hand).then_some(by_hand))
}

/// A NATS server.
pub(crate) struct Nats {
    name: &'static str,
    program: PathBuf,
    settings: Vec<String>,
}

impl Nats {
    /// The installed one, if any.
    pub(crate) fn find(profile: &Profile) -> Option<Self> {
        let debians = PathBuf::from("/usr/sbin/nats-server");
        let program = host::find_program("nats-server")
            .or_else(|| host::is_program(&debians).then_some(debians))?;
        Some(Self {
            name: "nats",
            program,
            settings: profile.extra_args.clone(),
        })
    }

    /// The one that was built, if any.
    pub(crate) fn find_built(version: &Version, profile: &Profile) -> anyhow::Result<Option<Self>> {
        let program = version.folder()?.join("nats-server");
        Ok(host::is_program(&program).then(|| Self {
            name: version.name,
            program,
            settings: profile.extra_args.clone(),
        }))
    }
}

impl Server for Nats {
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
        probe("127.0.0.1", port)
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

/// The version of the NATS server at this address. It sends its greeting first, and must have
/// JetStream.
fn probe(host: &str, port: u16) -> anyhow::Result<String> {
    version(&mut connect(host, port)?)
}

fn version(stream: &mut impl Read) -> anyhow::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).context("no answer")?;
        line.extend(byte);
    }
    let line = String::from_utf8_lossy(&line);
    let Some(info) = line.strip_prefix("INFO ") else {
        bail!("it says: {}", line.trim());
    };
    if !info.contains("\"jetstream\":true") {
        bail!("JetStream is not enabled there");
    }
    let version = info.split_once("\"version\":\"").map(|(_, rest)| rest);
    let version = version.and_then(|rest| rest.split('"').next());
    Ok(version
        .context("it does not report its version")?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nats_must_have_jetstream() {
        let with = b"INFO {\"version\":\"2.9.10\",\"jetstream\":true} \r\n";
        assert_eq!(version(&mut &with[..]).unwrap(), "2.9.10");
        let without = b"INFO {\"version\":\"2.9.10\"} \r\n";
        let said = version(&mut &without[..]).unwrap_err().to_string();
        assert!(said.contains("JetStream"), "{said}");
    }
}

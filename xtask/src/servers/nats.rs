//! NATS with JetStream: as it is installed, and newer versions, built from source by Go.

use super::instance::Server;
use super::probe;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use anyhow::Context as _;
use rustix::process::Signal;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `apt-get` knows it by.
pub(crate) const PACKAGE: &str = "nats-server";

/// What `apt-get` knows Go by.
pub(crate) const GO_PACKAGE: &str = "golang-go";

/// The oldest Go that builds all versions.
const OLDEST_GO: &str = "1.25";

/// The module of the server.
const MODULE: &str = "github.com/nats-io/nats-server/v2";

/// A version that is built from source.
pub(crate) struct Version {
    /// Its number.
    pub(crate) version: &'static str,
    /// What its server is called.
    name: &'static str,
}

/// Begins a bucket with a sequence of choice.
pub(crate) const V2_10: Version = Version {
    version: "2.10.27",
    name: "nats210",
};

/// Writes several messages or none.
pub(crate) const V2_12: Version = Version {
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
            .with_context(|| format!("{} could not be made", one_at_a_time.display()))?;
        lock.lock()
            .context("the lock of the build could not be taken")?;
        if host::is_program(&folder.join("nats-server")) {
            return Ok(());
        }
        let part = folder.with_extension("part");
        // A run that was killed has left half of it.
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
        // The Go that is here where it is new enough; else it may fetch the one that it needs.
        install(Some("local")).or_else(|_| install(None))?;
        fs::rename(&part, &folder)
            .with_context(|| format!("{} could not be renamed", part.display()))
    }

    /// Why it is missing and how to get it.
    pub(crate) fn what_to_do(&self, variable: &str) -> String {
        format!(
            "not built; it is built by itself (`go install {MODULE}@v{}`) where Go {OLDEST_GO} or \
             later is in PATH and reaches a module proxy: on Debian install `{GO_PACKAGE}` of \
             trixie-backports, or Go from https://go.dev/dl; or run `docker compose up --wait` and \
             set {variable} as compose.yaml says",
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
    /// The one that is installed, if any.
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
        probe::nats("127.0.0.1", port)
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

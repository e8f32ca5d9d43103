//! Built from source with Go.

use crate::engine::Found;
use crate::host;
use anyhow::Context as _;
use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

/// The name of Go's `apt-get` package.
pub(crate) const GO_PACKAGE: &str = "golang-go";

/// A server that is built from source.
pub(crate) struct Go {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// Its module.
    pub(crate) module: &'static str,
    /// The program of that module.
    pub(crate) program: &'static str,
    /// Its version.
    pub(crate) version: &'static str,
    /// The oldest Go that builds it.
    pub(crate) oldest_go: &'static str,
}

impl Go {
    /// The one that was built, if any.
    pub(crate) fn find(&self) -> anyhow::Result<Option<Found>> {
        let program = self.folder()?.join(self.program);
        Ok(host::is_program(&program).then(|| Found::program(&program)))
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
        if self.find()?.is_some() {
            return Ok(());
        }
        let module = format!("{}@v{}", self.module, self.version);
        eprintln!("xtask: building {module} by Go into {}", folder.display());
        super::complete(&folder, |part| {
            let install = |toolchain: Option<&str>| {
                let mut command = Command::new(&go);
                command
                    .args(["install", "-trimpath", &module])
                    .current_dir(env::temp_dir())
                    .env("GOBIN", part)
                    .env("GOFLAGS", "-mod=mod")
                    .env("CGO_ENABLED", "0")
                    .envs(toolchain.map(|it| ("GOTOOLCHAIN", it)));
                host::output(&mut command).map(drop)
            };
            // The installed Go if it is new enough. Otherwise it may download the version that it
            // needs.
            install(Some("local")).or_else(|_| install(None))
        })
    }

    /// Why it is missing and how to get it.
    pub(crate) fn what_to_do(&self, compose: &str, variable: &str) -> String {
        format!(
            "not built; it is built automatically (`go install {}@v{}`) if Go {} or later is in PATH and can reach a \
             module proxy: on Debian install `{GO_PACKAGE}` of trixie-backports, or Go from https://go.dev/dl; or run \
             `{compose}` and set {variable} as that file says",
            self.module, self.version, self.oldest_go
        )
    }

    fn folder(&self) -> anyhow::Result<PathBuf> {
        Ok(host::cache_dir()?.join(format!("{}-{}", self.program, self.version)))
    }
}

/// The Go that builds them, if there is one.
pub(crate) fn go() -> Option<PathBuf> {
    let by_hand = PathBuf::from("/usr/local/go/bin/go");
    host::find_program("go").or_else(|| host::is_program(&by_hand).then_some(by_hand))
}

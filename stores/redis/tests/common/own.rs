//! A server for one test.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use redis::{Client, IntoConnectionInfo as _, RedisConnectionInfo, cmd};
use shedlock_conformance::BoxError;
use shedlock_rig::wait::Looks;
use shedlock_rig::{Restartable, Signal, port};

/// Settings of a server whose confirmed writes are on disk.
pub(crate) const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// A server that no other test uses.
pub(crate) struct Own {
    program: PathBuf,
    settings: Vec<String>,
    /// The password that clients must send.
    password: Option<String>,
    folder: tempfile::TempDir,
    port: u16,
    process: Restartable,
}

impl Own {
    pub(crate) async fn start(program: PathBuf, settings: &[&str]) -> Result<Self, BoxError> {
        let mut words = settings.iter();
        let password = words.find(|word| **word == "--requirepass");
        let own = Self {
            program,
            settings: settings.iter().map(ToString::to_string).collect(),
            password: password.and(words.next()).map(ToString::to_string),
            folder: tempfile::tempdir()?,
            port: port::free()?,
            process: Restartable::default(),
        };
        own.begin().await?;
        Ok(own)
    }

    /// Starts the program as a sentinel, with these settings in its file, which the sentinel itself
    /// rewrites.
    pub(crate) async fn start_sentinel(program: PathBuf, file: &str) -> Result<Self, BoxError> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("sentinel.conf");
        std::fs::write(&path, file)?;
        let path = path.to_str().ok_or("a path that is no UTF-8")?;
        let mut lines = file.lines();
        let password = lines.find_map(|line| line.strip_prefix("requirepass "));
        let own = Self {
            program,
            settings: vec![path.to_owned(), "--sentinel".to_owned()],
            password: password.map(str::to_owned),
            folder,
            port: port::free()?,
            process: Restartable::default(),
        };
        own.begin().await?;
        Ok(own)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The URL without its password.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A client with all privileges.
    pub(crate) fn admin(&self) -> Result<Client, BoxError> {
        let mut settings = RedisConnectionInfo::default();
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        let address = self.url().into_connection_info()?;
        Ok(Client::open(address.set_redis_settings(settings))?)
    }

    pub(crate) async fn begin(&self) -> Result<(), BoxError> {
        let mut command = Command::new(&self.program);
        let is_sentinel = self
            .settings
            .last()
            .is_some_and(|word| word == "--sentinel");
        if is_sentinel {
            // Its configuration file comes first.
            command.args(&self.settings);
        }
        command
            .args(["--bind", "127.0.0.1", "--port"])
            .arg(self.port.to_string())
            .arg("--dir")
            .arg(self.folder.path())
            .stdout(Stdio::null());
        if !is_sentinel {
            command.args(["--save", ""]).args(&self.settings);
        }
        self.process.start(&mut command)?;
        let client = self.admin()?;
        let looks = Looks::at("a server of its own serves");
        loop {
            if let Ok(mut connection) = client.get_multiplexed_async_connection().await {
                let answer: Result<String, _> = cmd("PING").query_async(&mut connection).await;
                // A server that demands a password is ready.
                if answer.is_ok() || answer.is_err_and(|error| error.code() == Some("NOAUTH")) {
                    return Ok(());
                }
            }
            looks.again().await;
        }
    }

    /// Stops the server like a power failure would.
    pub(crate) fn stop(&self) {
        self.process.stop();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}

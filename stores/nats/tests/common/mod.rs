//! Servers that a test starts itself, with settings that the servers of `cargo xtask test` do not
//! have.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![allow(dead_code, reason = "each test target uses a part of it")]

pub(crate) mod cluster;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, Lease, LockName, LockProvider, Owner, Unlock, UnlockRequest,
};
use shedlock_rig::given::{self, needs_store, server_if_any};
use shedlock_rig::wait::eventually_async;
use shedlock_rig::{Restartable, Signal, port};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Returns the URLs of the available servers: 2.9, 2.10, 2.12.
pub(crate) fn servers() -> Vec<String> {
    let found: Vec<_> = ["nats", "nats210", "nats212"]
        .iter()
        .filter_map(|name| server_if_any(name))
        .collect();
    if found.is_empty() {
        needs_store("nats");
    }
    found
}

/// A server for one test only.
pub(crate) struct Own {
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    process: Restartable,
}

impl Own {
    /// Starts a server with JetStream and these additional lines of settings, in which `$DIR` is
    /// its folder.
    pub(crate) async fn start(settings: &str) -> Self {
        Self::start_at(port::free().unwrap(), settings).await
    }

    pub(crate) async fn start_at(port: u16, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let file = format!("listen: \"127.0.0.1:{port}\"\n{settings}\n").replace("$DIR", &path);
        std::fs::write(folder.path().join("nats.conf"), file).unwrap();
        let own = Self {
            folder,
            port,
            process: Restartable::default(),
        };
        own.begin().await;
        own
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) async fn begin(&self) {
        let mut command = Command::new(program());
        command
            .arg("-c")
            .arg(self.folder.path().join("nats.conf"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process.start(&mut command).unwrap();
        until("the server listens", async || {
            std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        })
        .await;
    }

    /// Stops the server as a power failure would.
    pub(crate) fn stop(&self) {
        self.process.stop();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}

fn program() -> PathBuf {
    given::program("nats-server", "nats")
}

/// Waits until a condition becomes true.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let never = async || Ok::<_, std::convert::Infallible>(is_so().await);
    let Ok(()) = eventually_async(what, never).await;
}

pub(crate) fn request(name: &str) -> AttemptRequest {
    AttemptRequest::new(LockName::new(name).unwrap(), Owner::generate(), MINUTE)
}

pub(crate) async fn take(provider: &dyn LockProvider, name: &str) -> Lease {
    match provider.attempt(&request(name)).await.unwrap() {
        Attempt::Acquired(lease) => lease,
        other => panic!("the lock should be free: {other:?}"),
    }
}

pub(crate) async fn give_back(provider: &dyn LockProvider, lease: &Lease) {
    let unlocked = provider.unlock(lease, &UnlockRequest::new()).await.unwrap();
    assert_eq!(unlocked, Unlock::Unlocked);
}

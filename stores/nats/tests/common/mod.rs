//! Servers that a test starts itself, with settings that the servers of `cargo xtask test` do not
//! have.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![allow(dead_code, reason = "each test target uses a part of it")]

pub(crate) mod certificates;
pub(crate) mod cluster;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shedlock_conformance::support::{self, free_port, needs_store, server_if_any};
use shedlock_core::{
    Attempt, AttemptRequest, Lease, LockName, LockProvider, Owner, Unlock, UnlockRequest,
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Returns the URLs of the available servers: 2.9, 2.10, 2.12.
pub(crate) fn servers() -> Vec<String> {
    let found: Vec<_> = ["", "210", "212"]
        .iter()
        .filter_map(|version| server_if_any(&format!("SHEDLOCK_TEST_NATS{version}")))
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
    running: Mutex<Option<Child>>,
}

impl Own {
    /// Starts a server with JetStream and these additional lines of settings, in which `$DIR` is
    /// its folder.
    pub(crate) async fn start(settings: &str) -> Self {
        Self::start_at(free_port().unwrap(), settings).await
    }

    pub(crate) async fn start_at(port: u16, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let file = format!("listen: \"127.0.0.1:{port}\"\n{settings}\n").replace("$DIR", &path);
        std::fs::write(folder.path().join("nats.conf"), file).unwrap();
        let own = Self {
            folder,
            port,
            running: Mutex::new(None),
        };
        own.begin().await;
        own
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) async fn begin(&self) {
        let child = Command::new(program())
            .arg("-c")
            .arg(self.folder.path().join("nats.conf"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        *self.lock() = Some(child.unwrap());
        until("the server listens", async || {
            std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        })
        .await;
    }

    /// Stops the server as a power failure would.
    pub(crate) fn stop(&self) {
        if let Some(mut child) = self.lock().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends a signal by its name, like `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.lock().as_ref().unwrap().id().to_string();
        let mut kill = Command::new("kill");
        let sent = kill.args([&format!("-{name}"), &id]).status();
        assert!(sent.unwrap().success());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(mut child) = self.lock().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn program() -> PathBuf {
    needs_store("nats");
    support::program("nats-server").expect("nats-server is installed: run `cargo xtask test`")
}

/// Waits until a condition becomes true.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..400 {
        if is_so().await {
            return;
        }
        pause(Duration::from_millis(50)).await;
    }
    panic!("timed out while waiting for: {what}");
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

/// Waits by the real clock: a real server's time must pass.
#[expect(
    clippy::disallowed_methods,
    reason = "a real server's time cannot be moved"
)]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

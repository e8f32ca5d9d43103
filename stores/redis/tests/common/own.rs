//! A server of a test's own.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::{Client, cmd};
use shedlock_conformance::BoxError;

/// Settings of a server that has on disk what it answers.
pub(crate) const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// The program of this name on the PATH.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// A server that nobody else uses.
pub(crate) struct Own {
    program: PathBuf,
    settings: Vec<String>,
    folder: tempfile::TempDir,
    port: u16,
    running: Mutex<Option<Child>>,
}

impl Own {
    pub(crate) async fn start(program: PathBuf, settings: &[&str]) -> Result<Self, BoxError> {
        let own = Self {
            program,
            settings: settings.iter().map(ToString::to_string).collect(),
            folder: tempfile::tempdir()?,
            port: free_port()?,
            running: Mutex::new(None),
        };
        own.begin().await?;
        Ok(own)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) async fn begin(&self) -> Result<(), BoxError> {
        let child = Command::new(&self.program)
            .args(["--bind", "127.0.0.1", "--save", "", "--port"])
            .arg(self.port.to_string())
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.settings)
            .stdout(Stdio::null())
            .spawn()?;
        *self.lock() = Some(child);
        let client = Client::open(self.url())?;
        for _ in 0..200 {
            if let Ok(mut connection) = client.get_multiplexed_async_connection().await {
                let answer: Result<String, _> = cmd("PING").query_async(&mut connection).await;
                // Whoever asks for a password serves.
                if answer.is_ok() || answer.is_err_and(|error| error.code() == Some("NOAUTH")) {
                    return Ok(());
                }
            }
            wait(Duration::from_millis(50)).await;
        }
        Err("a server of its own does not serve".into())
    }

    /// As by a power cut.
    pub(crate) fn stop(&self) -> Result<(), BoxError> {
        if let Some(mut child) = self.lock().take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Below the range of outgoing connections, so that it is still free when the server starts again.
fn free_port() -> Result<u16, BoxError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Tests of one process, and processes, look at different ports.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let start = 10_000 + u16::try_from((std::process::id().wrapping_mul(31) + number) % 9_000)?;
    (start..20_000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .ok_or_else(|| "no port is free".into())
}

/// Waits by the real clock: a real server's time must pass.
#[expect(
    clippy::disallowed_methods,
    reason = "a real server's time cannot be moved"
)]
async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}

//! A server that a case may stop.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shedlock_conformance::BoxError;

pub(crate) struct OwnServer {
    program: PathBuf,
    port: u16,
    home: PathBuf,
    running: Mutex<Option<Child>>,
}

impl OwnServer {
    /// None where the program is not installed.
    pub(crate) fn find() -> Option<Self> {
        let mut folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
        folders.push("/usr/sbin".into());
        let mut programs = folders.iter().map(|folder| folder.join("nats-server"));
        let program = programs.find(|program| program.is_file())?;
        let port = TcpListener::bind("127.0.0.1:0").ok()?;
        let port = port.local_addr().ok()?.port();
        let home =
            std::env::temp_dir().join(format!("shedlock-nats-{}-{port}", std::process::id()));
        Some(Self {
            program,
            port,
            home,
            running: Mutex::new(None),
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) async fn start(&self) -> Result<(), BoxError> {
        let child = Command::new(&self.program)
            .args([
                "-a",
                "127.0.0.1",
                "-p",
                &self.port.to_string(),
                "-js",
                "-sd",
            ])
            .arg(&self.home)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        for _ in 0..300 {
            if async_nats::connect(self.url()).await.is_ok() {
                return Ok(());
            }
            pause().await;
        }
        Err("the server did not start".into())
    }

    pub(crate) fn stop(&self) -> Result<(), BoxError> {
        let child = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut child) = child {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    pub(crate) fn remove(&self) -> Result<(), BoxError> {
        self.stop()?;
        std::fs::remove_dir_all(&self.home)?;
        Ok(())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a real server takes its time to start"
)]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

//! Servers that a test starts itself, with settings that the shared servers do not have.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_conformance::BoxError;
use shedlock_conformance::support::{free_port, program};
use zookeeper_client::Client;

use super::wait;

/// The paths of Debian's packages, including the libraries for logging and encryption.
const CLASS_PATH: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:\
                          /usr/share/java/netty-codec.jar";

/// A server for one test only, standalone or in an ensemble.
pub(crate) struct Own {
    java: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    running: Mutex<Option<Child>>,
}

impl Own {
    /// Starts a standalone server. `settings` are lines of its configuration.
    pub(crate) async fn start(settings: &str) -> Result<Self, BoxError> {
        let own = Self::prepare(settings)?;
        own.begin()?;
        own.serves().await?;
        Ok(own)
    }

    /// Starts three servers that form one ensemble.
    pub(crate) async fn ensemble() -> Result<Vec<Self>, BoxError> {
        let mut lines = String::new();
        for id in 1..=3 {
            let (peers, elections) = (free_port()?, free_port()?);
            lines += &format!("server.{id}=127.0.0.1:{peers}:{elections}\n");
        }
        let lines = format!("{lines}initLimit=10\nsyncLimit=4\n");
        let servers = (1..=3).map(|id| {
            let own = Self::prepare(&lines)?;
            std::fs::create_dir(own.folder.path().join("data"))?;
            std::fs::write(own.folder.path().join("data/myid"), id.to_string())?;
            own.begin()?;
            Ok(own)
        });
        let servers: Vec<Self> = servers.collect::<Result<_, BoxError>>()?;
        for server in &servers {
            server.serves().await?;
        }
        Ok(servers)
    }

    fn prepare(settings: &str) -> Result<Self, BoxError> {
        let java = java().ok_or("ZooKeeper is not installed: run `cargo xtask test`")?;
        let own = Self {
            java,
            folder: tempfile::tempdir()?,
            port: free_port()?,
            running: Mutex::new(None),
        };
        let configuration = format!(
            "clientPort={}\nclientPortAddress=127.0.0.1\ndataDir={}/data\ntickTime=500\n\
             maxSessionTimeout=40000\nadmin.enableServer=false\n{settings}",
            own.port,
            own.folder.path().display()
        );
        std::fs::write(own.configuration(), configuration)?;
        Ok(own)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("zookeeper://{}", self.address())
    }

    /// Starts the server, without waiting until it serves.
    pub(crate) fn begin(&self) -> Result<(), BoxError> {
        let log = std::fs::File::create(self.folder.path().join("log"))?;
        let child = Command::new(&self.java)
            .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .args(["-cp", CLASS_PATH])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.configuration())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        *self.lock() = Some(child);
        Ok(())
    }

    pub(crate) async fn serves(&self) -> Result<(), BoxError> {
        for _ in 0..600 {
            let connector = Client::connector().with_fail_eagerly();
            if connector.connect(&self.address()).await.is_ok() {
                return Ok(());
            }
            wait(Duration::from_millis(50)).await;
        }
        let log = std::fs::read_to_string(self.folder.path().join("log"))?;
        let log: String = log.chars().take(2_000).collect();
        Err(format!("a server of its own does not serve: {log}").into())
    }

    /// Stops the server as a power failure would.
    pub(crate) fn stop(&self) -> Result<(), BoxError> {
        if let Some(mut child) = self.lock().take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("zoo.cfg")
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn java() -> Option<PathBuf> {
    let is_there = CLASS_PATH.split(':').all(|jar| Path::new(jar).is_file());
    program("java").filter(|_| is_there)
}

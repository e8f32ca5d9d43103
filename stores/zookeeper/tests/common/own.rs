//! Servers that a test starts itself, with settings that the shared servers do not have.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use shedlock_conformance::BoxError;
use shedlock_rig::given::program;
use shedlock_rig::wait::eventually_async;
use shedlock_rig::{Restartable, Signal, port};
use zookeeper_client::Client;

/// The paths of Debian's packages, including the libraries for logging and encryption.
const CLASS_PATH: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:\
                          /usr/share/java/netty-codec.jar";

/// A server for one test only, standalone or in an ensemble.
pub(crate) struct Own {
    java: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    process: Restartable,
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
            let (peers, elections) = (port::free()?, port::free()?);
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
        let java = program("java", "zookeeper");
        let own = Self {
            java,
            folder: tempfile::tempdir()?,
            port: port::free()?,
            process: Restartable::default(),
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
        let mut command = Command::new(&self.java);
        command
            .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .args(["-cp", CLASS_PATH])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.configuration())
            .stdout(Stdio::null())
            .stderr(log);
        Ok(self.process.start(&mut command)?)
    }

    pub(crate) async fn serves(&self) -> Result<(), BoxError> {
        eventually_async("a server of its own serves", async || {
            if self.process.has_ended() {
                let log = std::fs::read_to_string(self.folder.path().join("log"))?;
                let log: String = log.chars().take(2_000).collect();
                return Err(format!("a server of its own has ended: {log}").into());
            }
            let connector = Client::connector().with_fail_eagerly();
            Ok(connector.connect(&self.address()).await.is_ok())
        })
        .await
    }

    /// Stops the server as a power failure would.
    pub(crate) fn stop(&self) {
        self.process.stop();
    }

    /// Sends the server a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Returns whether the server says that it is the leader of its ensemble.
    pub(crate) fn leads(&self) -> bool {
        let mut answer = String::new();
        let asked = TcpStream::connect(self.address()).and_then(|mut server| {
            server.write_all(b"srvr")?;
            server.read_to_string(&mut answer)
        });
        asked.is_ok() && answer.contains("Mode: leader")
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("zoo.cfg")
    }
}

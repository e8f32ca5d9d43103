//! Servers that a test starts itself.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use shedlock_conformance::BoxError;
use shedlock_rig::wait::Looks;
use shedlock_rig::{Certificates, Restartable, Signal, port};

/// A server that elects a leader this quickly grants leases of one second.
pub(crate) const QUICK: [&str; 4] = ["--heartbeat-interval", "50", "--election-timeout", "500"];

/// A cluster of one or more servers for one test only.
pub(crate) struct Own {
    program: PathBuf,
    settings: Vec<String>,
    /// The scheme that clients use to connect.
    scheme: &'static str,
    options: Option<ConnectOptions>,
    folder: tempfile::TempDir,
    members: Vec<Member>,
}

/// One server of the cluster.
struct Member {
    port: u16,
    peer: u16,
    process: Restartable,
}

impl Own {
    /// Starts this many servers, and waits until they have a leader.
    pub(crate) async fn start(
        program: PathBuf,
        size: usize,
        settings: &[&str],
    ) -> Result<Self, BoxError> {
        let own = Self::plan(program, size, settings)?;
        own.launch().await?;
        Ok(own)
    }

    /// Starts one server that uses TLS and requires a client certificate.
    pub(crate) async fn start_encrypted(
        program: PathBuf,
        files: &Certificates,
    ) -> Result<Self, BoxError> {
        let settings = [
            ["--cert-file", &files.path("server.pem")],
            ["--key-file", &files.path("server.key")],
            ["--trusted-ca-file", &files.path("ca.pem")],
            ["--client-cert-auth", "--log-level=error"],
        ];
        let mut own = Self::plan(program, 1, &[&QUICK[..], settings.as_flattened()].concat())?;
        let read = |file: &str| std::fs::read(files.path(file));
        let tls = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(read("ca.pem")?))
            .identity(Identity::from_pem(read("client.pem")?, read("client.key")?));
        own.scheme = "https";
        own.options = Some(ConnectOptions::new().with_tls(tls));
        own.launch().await?;
        Ok(own)
    }

    fn plan(program: PathBuf, size: usize, settings: &[&str]) -> Result<Self, BoxError> {
        let mut members = Vec::new();
        for _ in 0..size {
            members.push(Member {
                port: port::free()?,
                peer: port::free()?,
                process: Restartable::default(),
            });
        }
        Ok(Self {
            program,
            settings: settings.iter().map(ToString::to_string).collect(),
            scheme: "http",
            options: None,
            folder: tempfile::tempdir()?,
            members,
        })
    }

    async fn launch(&self) -> Result<(), BoxError> {
        for member in 0..self.members.len() {
            self.begin(member)?;
        }
        for member in 0..self.members.len() {
            self.serves(member).await?;
        }
        Ok(())
    }

    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> = self
            .members
            .iter()
            .map(|member| format!("127.0.0.1:{}", member.port))
            .collect();
        format!("etcd://{}", hosts.join(","))
    }

    /// Returns the address of one server.
    pub(crate) fn endpoint(&self, member: usize) -> String {
        format!("127.0.0.1:{}", self.members[member].port)
    }

    /// Starts a server that is not running.
    pub(crate) fn begin(&self, member: usize) -> Result<(), BoxError> {
        let cluster: Vec<_> = self
            .members
            .iter()
            .enumerate()
            .map(|(i, member)| format!("m{i}=http://127.0.0.1:{}", member.peer))
            .collect();
        let Member {
            port,
            peer,
            process,
        } = &self.members[member];
        let client = format!("{}://127.0.0.1:{port}", self.scheme);
        let peer = format!("http://127.0.0.1:{peer}");
        let log = std::fs::File::create(self.folder.path().join(format!("m{member}.log")))?;
        let mut command = Command::new(&self.program);
        command
            .args(["--name", &format!("m{member}"), "--data-dir"])
            .arg(self.folder.path().join(format!("m{member}")))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &cluster.join(",")])
            .args(&self.settings)
            .stdout(Stdio::null())
            .stderr(log);
        Ok(process.start(&mut command)?)
    }

    /// Waits until a server replies on behalf of the cluster.
    pub(crate) async fn serves(&self, member: usize) -> Result<(), BoxError> {
        let server = format!("{}://{}", self.scheme, self.endpoint(member));
        let looks = Looks::at("a server of its own serves");
        loop {
            if let Ok(mut client) = Client::connect([&server], self.options.clone()).await
                && client.get("nothing", None).await.is_ok()
            {
                return Ok(());
            }
            looks.again().await;
        }
    }

    /// Stops a server as a power failure would.
    pub(crate) fn stop(&self, member: usize) {
        self.members[member].process.stop();
    }

    pub(crate) fn stop_all(&self) {
        (0..self.members.len()).for_each(|member| self.stop(member));
    }

    pub(crate) fn signal(&self, member: usize, signal: Signal) {
        self.members[member].process.signal(signal);
    }
}

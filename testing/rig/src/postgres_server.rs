//! PostgreSQL servers that copy, follow and replace each other.

use crate::wait::eventually;
use crate::{OwnServer, host};
use anyhow::{Context as _, bail};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
#[cfg(feature = "certificates")]
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// A server for one test, whose data can be replaced by those of another one.
#[derive(Debug)]
pub struct PostgresServer {
    server: OwnServer,
    data: PathBuf,
}

impl PostgresServer {
    /// Starts a server with these additional arguments.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let arguments = [&["-cfsync=off"], arguments].concat();
        let mut started = Self {
            server: OwnServer::start("postgres", &arguments)?,
            data: PathBuf::new(),
        };
        started.data = started.sql("SHOW data_directory")?.into();
        Ok(started)
    }

    /// The server's URL, which does not change.
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// The folder of the programs that come with the servers, such as `pg_dump`.
    ///
    /// # Errors
    /// If there is none.
    pub fn programs() -> anyhow::Result<PathBuf> {
        let bin = crate::servers::postgres::bin();
        bin.context("PostgreSQL is not installed")
    }

    /// Sends statements, and returns what they print: a line for each row, without a header.
    ///
    /// # Errors
    /// If one of them fails.
    pub fn sql(&self, statements: &str) -> anyhow::Result<String> {
        let mut psql = Command::new(program("psql")?);
        psql.args([
            "-XAtq",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            statements,
            self.url(),
        ]);
        let output = psql.output()?;
        if !output.status.success() {
            bail!("{statements}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Makes it offer TLS with these certificates. It asks its clients for theirs, and needs none.
    ///
    /// # Errors
    /// If it does not accept them.
    #[cfg(feature = "certificates")]
    pub fn encrypt(&self, certificates: &crate::Certificates) -> anyhow::Result<()> {
        let owner = fs::metadata(&self.data)?;
        for (setting, file) in [
            ("ssl_ca_file", "ca.pem"),
            ("ssl_cert_file", "server.pem"),
            ("ssl_key_file", "server.key"),
        ] {
            let path = self.data.join(file);
            fs::copy(certificates.path(file), &path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            chown(&path, Some(owner.uid()), Some(owner.gid()))?;
            self.sql(&format!("ALTER SYSTEM SET {setting} = '{file}'"))?;
        }
        self.sql("ALTER SYSTEM SET ssl = on")?;
        self.sql("SELECT pg_reload_conf()")?;
        eventually("the server offers TLS", || {
            self.sql("SHOW ssl").is_ok_and(|is| is == "on")
        });
        Ok(())
    }

    /// Ends it without a warning.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.server.kill().map_err(anyhow::Error::from_boxed)
    }

    /// Ends it in an orderly way: its standbys get everything first.
    ///
    /// # Errors
    /// If it does not end.
    pub fn end(&self) -> anyhow::Result<()> {
        self.server.stop().map_err(anyhow::Error::from_boxed)
    }

    /// Starts it again after [`stop`](Self::stop).
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_again(&self) -> anyhow::Result<()> {
        self.server.start_again().map_err(anyhow::Error::from_boxed)
    }

    /// Starts this stopped server as a standby of the other one.
    ///
    /// # Errors
    /// If the other one cannot be copied.
    pub fn follow(&self, primary: &Self) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.data)?;
        let mut copy = Command::new(program("pg_basebackup")?);
        copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"])
            .args(["--dbname", primary.url(), "--pgdata"]);
        self.as_owner(&mut copy)?;
        self.start_again()
    }

    /// Runs this program on the data. If this process is root, the server is not.
    fn as_owner(&self, program: &mut Command) -> anyhow::Result<()> {
        let home = self.data.parent().context("no folder")?;
        let owner = fs::metadata(home)?;
        program.arg(&self.data).uid(owner.uid()).gid(owner.gid());
        let ran = program.current_dir("/").output()?;
        if !ran.status.success() {
            bail!("{program:?}: {}", String::from_utf8_lossy(&ran.stderr));
        }
        Ok(())
    }

    /// Waits until this standby has everything that its primary has written so far.
    ///
    /// # Errors
    /// If one of them does not reply.
    pub fn catch_up_with(&self, primary: &Self) -> anyhow::Result<()> {
        let written = primary.sql("SELECT pg_current_wal_lsn()")?;
        let is_here = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        eventually("the standby", || {
            self.sql(&is_here).is_ok_and(|is| is == "t")
        });
        Ok(())
    }
}

fn program(name: &str) -> anyhow::Result<PathBuf> {
    let program: PathBuf = PostgresServer::programs()?.join(name);
    if !host::is_program(&program) {
        bail!("{} is missing", program.display());
    }
    Ok(program)
}

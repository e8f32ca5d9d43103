//! PgBouncer in transaction pooling in front of our own PostgreSQL. Each transaction may use
//! another server connection, so session state and named statements are unreliable.

use super::debian;
use super::instance::Server;
use super::kind::{Definition, Kind, Role, Source};
use super::postgres::{USER, version_at};
use super::probe;
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use anyhow::Context as _;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How to obtain and probe it. It is found once the port of its PostgreSQL is known.
pub(super) const KIND: Kind = Kind(&Definition {
    word: "pgbouncer",
    title: "PgBouncer",
    role: Role::Beside("postgres"),
    kit: ("shedlock-sql", "conformance_postgres"),
    source: Source::Packages(&[PACKAGE]),
    advice: Some(what_to_do),
    find: |_| Ok(None),
    port: 5432,
    version_at,
});

/// The name of its `apt-get` package.
const PACKAGE: &str = "pgbouncer";

/// An installed PgBouncer.
pub(crate) struct PgBouncer {
    program: PathBuf,
    account: Option<Account>,
    postgres: u16,
}

impl PgBouncer {
    /// The installed one, if any, for the PostgreSQL on port `postgres`.
    pub(crate) fn find(postgres: u16) -> anyhow::Result<Option<Self>> {
        let Some(program) = host::find_program("pgbouncer") else {
            return Ok(None);
        };
        Ok(Some(Self {
            program,
            account: Account::for_server(USER)?,
            postgres,
        }))
    }

    /// Whether it is installed.
    pub(crate) fn is_there() -> bool {
        host::find_program("pgbouncer").is_some()
    }

    fn configuration(&self, home: &Path, port: u16) -> String {
        let home = home.display();
        // Otherwise its default settings. A test changes some of them on its console.
        format!(
            "[databases]\n\
             * = host=127.0.0.1 port={postgres} user={USER}\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir = {home}\n\
             auth_type = trust\n\
             auth_file = {home}/users\n\
             admin_users = {USER}\n\
             pool_mode = transaction\n\
             default_pool_size = 10\n\
             max_client_conn = 1000\n",
            postgres = self.postgres,
        )
    }
}

impl Server for PgBouncer {
    fn name(&self) -> &'static str {
        "pgbouncer"
    }

    fn account(&self) -> Option<Account> {
        self.account
    }

    fn init(&self, _run: &RunDir, home: &Path) -> anyhow::Result<()> {
        let users = home.join("users");
        fs::write(&users, format!("\"{USER}\" \"\"\n"))
            .with_context(|| format!("{} could not be written", users.display()))
    }

    fn command(&self, home: &Path, port: u16) -> Command {
        let mut command = Command::new(&self.program);
        let file = home.join("pgbouncer.ini");
        // Written here because the port is known here. If that fails, so does the start.
        let _ = fs::write(&file, self.configuration(home, port));
        command.arg(file);
        command
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://{USER}@127.0.0.1:{port}/postgres")
    }

    fn probe(&self, port: u16) -> anyhow::Result<String> {
        probe::postgres("127.0.0.1", port, USER, "postgres")
            .map(|behind| format!("in front of {behind}"))
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

fn what_to_do(variable: &str) -> String {
    format!(
        "not installed, or PostgreSQL is not one of ours; on Debian `{}`, or set {variable}",
        debian::by_hand(&[PACKAGE])
    )
}

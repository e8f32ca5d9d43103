//! Two PostgreSQL servers, of which one is the primary and the other one its standby.

use shedlock_rig::PostgresServer;

use crate::address::Address;

/// Who the jobs are, and who only looks.
pub(crate) const USERS: [&str; 2] = ["app", "monitor"];

/// The servers, and the address that leads to the primary.
#[derive(Debug)]
pub(crate) struct Databases {
    servers: [PostgresServer; 2],
    primary: usize,
    address: Address,
}

impl Databases {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let start = || PostgresServer::start(&["-cwal_keep_size=256MB"]);
        let databases = Self {
            servers: [start()?, start()?],
            primary: 0,
            address: Address::new()?,
        };
        databases.sql(
            "CREATE ROLE app LOGIN; GRANT ALL ON SCHEMA public TO app; \
             CREATE ROLE monitor LOGIN; GRANT pg_read_all_data TO monitor",
        )?;
        databases.standby().stop()?;
        databases.follow()?;
        databases.open()?;
        Ok(databases)
    }

    /// The store of this user, at the address that does not change.
    pub(crate) fn store(&self, user: &str) -> String {
        format!("postgres://{user}@{}/postgres", self.address.here())
    }

    /// The store on the primary itself, past the address.
    pub(crate) fn direct_store(&self) -> String {
        self.primary().url().replace("postgres@", "app@")
    }

    pub(crate) const fn primary(&self) -> &PostgresServer {
        &self.servers[self.primary]
    }

    pub(crate) const fn standby(&self) -> &PostgresServer {
        &self.servers[1 - self.primary]
    }

    /// Statements of the superuser on the primary.
    pub(crate) fn sql(&self, statements: &str) -> anyhow::Result<String> {
        self.primary().sql(statements)
    }

    /// Leads the address to the primary.
    pub(crate) fn open(&self) -> anyhow::Result<()> {
        self.address.lead_to(Some(self.primary().url()))
    }

    /// Leads the address nowhere.
    pub(crate) fn close(&self) -> anyhow::Result<()> {
        self.address.lead_to(None)
    }

    /// Makes the standby the primary. The old primary must have ended.
    pub(crate) fn promote(&mut self) -> anyhow::Result<()> {
        self.standby().sql("SELECT pg_promote()")?;
        self.primary = 1 - self.primary;
        self.open()
    }

    /// Makes the server that has ended a new standby.
    pub(crate) fn follow(&self) -> anyhow::Result<()> {
        self.standby().follow(self.primary())
    }

    /// Sets or resets something on one of the servers.
    pub(crate) fn alter(server: &PostgresServer, change: &str) -> anyhow::Result<()> {
        server.sql(&format!("ALTER SYSTEM {change}"))?;
        server.sql("SELECT pg_reload_conf()")?;
        Ok(())
    }
}

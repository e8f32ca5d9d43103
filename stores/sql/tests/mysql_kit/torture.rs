//! What the torture test needs from MySQL and MariaDB.

use std::net::SocketAddr;
use std::process::Command;

use shedlock_conformance::{BoxError, OptionalAction, action};
use shedlock_torture::{StoreFault, TortureNamespace};
use sqlx::MySqlPool;

use super::{Base, USER, run};
use crate::common;

impl Base {
    /// Also ends the existing connections.
    async fn few_connections(&self) -> Result<(), BoxError> {
        let limit = format!("ALTER USER {USER} WITH MAX_USER_CONNECTIONS 2");
        run(&self.java, &limit).await?;
        let list = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist \
                    WHERE user = ?";
        let ids: Vec<i64> = sqlx::query_scalar(list)
            .bind(USER)
            .fetch_all(&self.java)
            .await?;
        for id in ids {
            // It may have ended by itself.
            let _ = run(&self.java, &format!("KILL {id}")).await;
        }
        Ok(())
    }
}

impl Base {
    /// Commits wait for a replica that is not there. They show nothing until then, and take effect when the wait ends.
    async fn waits_for_a_replica(&self, waits: bool) -> Result<(), BoxError> {
        let orders: &[&str] = match waits {
            true => &[
                "SET GLOBAL rpl_semi_sync_master_timeout = 600000",
                "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
                "SET GLOBAL rpl_semi_sync_master_enabled = ON",
            ],
            false => &["SET GLOBAL rpl_semi_sync_master_enabled = OFF"],
        };
        for order in orders {
            run(&self.java, order).await?;
        }
        Ok(())
    }
}

impl TortureNamespace for Base {
    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        let mut url = url::Url::parse(&self.url).ok()?;
        url.set_host(Some(&addr.ip().to_string())).ok()?;
        url.set_port(Some(addr.port())).ok()?;
        Some(url.into())
    }

    fn shedlock(&self, host: &str, through: Option<SocketAddr>) -> Option<Command> {
        let url = through.map_or(Some(self.url.clone()), |addr| self.child_spec_via(addr))?;
        let (scheme, more) = self.jdbc;
        let parameters = format!("connectTimeout=4000&socketTimeout=4000{more}");
        let is_shared = !self.client_time && !self.pooled && self.java_zone == "+00:00";
        is_shared.then(|| common::shedlock(host, scheme, &url, &parameters))?
    }

    fn store_version(&self) -> OptionalAction<'_, String> {
        action(async {
            let version = sqlx::query_scalar("SELECT CONCAT(@@version_comment, ' ', @@version)");
            Ok(version.fetch_one(&self.java).await?)
        })
    }

    fn begin_fault(&self, fault: StoreFault) -> OptionalAction<'_, ()> {
        self.own.as_ref()?;
        match fault {
            StoreFault::FewConnections => action(self.few_connections()),
            StoreFault::ReadOnly => action(run(&self.java, "SET GLOBAL read_only = 1")),
            StoreFault::StandbyAway => action(self.waits_for_a_replica(true)),
            StoreFault::Busy => action(async {
                let mut keeper = MySqlPool::connect(&self.base).await?.begin().await?;
                let lock = "SELECT name FROM shedlock FOR UPDATE";
                sqlx::Executor::execute(&mut *keeper, lock).await?;
                *self.keeper.lock().await = Some(keeper);
                Ok(())
            }),
            _ => None,
        }
    }

    fn end_fault(&self, fault: StoreFault) -> OptionalAction<'_, ()> {
        self.own.as_ref()?;
        match fault {
            StoreFault::FewConnections => action(async {
                let limit = format!("ALTER USER {USER} WITH MAX_USER_CONNECTIONS 0");
                run(&self.java, &limit).await
            }),
            StoreFault::ReadOnly => action(run(&self.java, "SET GLOBAL read_only = 0")),
            StoreFault::StandbyAway => action(self.waits_for_a_replica(false)),
            StoreFault::Busy => action(async {
                if let Some(keeper) = self.keeper.lock().await.take() {
                    keeper.rollback().await?;
                }
                Ok(())
            }),
            _ => None,
        }
    }
}

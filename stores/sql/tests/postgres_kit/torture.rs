//! What the torture test needs from PostgreSQL.

use std::net::SocketAddr;
use std::process::Command;

use shedlock_conformance::{BoxError, OptionalAction, action};
use shedlock_torture::{StoreFault, TortureNamespace};
use sqlx::PgPool;

use crate::{Schema, client, common, run};

impl Schema {
    async fn only_reads(&self, word: &str) -> Result<(), BoxError> {
        self.set("default_transaction_read_only", word).await
    }

    /// Commits wait for these standbys.
    async fn waits_for(&self, standbys: &str) -> Result<(), BoxError> {
        self.set("synchronous_standby_names", &format!("'{standbys}'"))
            .await
    }

    /// Applies to all sessions, including open ones.
    async fn set(&self, setting: &str, value: &str) -> Result<(), BoxError> {
        run(&self.admin, format!("ALTER SYSTEM SET {setting} = {value}")).await?;
        run(&self.admin, "SELECT pg_reload_conf()".to_owned()).await
    }
}

impl TortureNamespace for Schema {
    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        let mut url = url::Url::parse(&self.url).ok()?;
        url.set_ip_host(addr.ip()).ok()?;
        url.set_port(Some(addr.port())).ok()?;
        Some(url.into())
    }

    fn shedlock(&self, host: &str, through: Option<SocketAddr>) -> Option<Command> {
        let url = through.map_or(Some(self.url.clone()), |addr| self.child_spec_via(addr))?;
        let schema = &self.schema;
        let parameters = format!("currentSchema={schema}&connectTimeout=4&socketTimeout=4");
        let is_shared = !self.client_time && !self.has_zone;
        is_shared.then(|| common::shedlock(host, "postgresql", &url, &parameters))?
    }

    fn store_version(&self) -> OptionalAction<'_, String> {
        action(async {
            let version =
                sqlx::query_scalar("SELECT 'PostgreSQL ' || current_setting('server_version')");
            Ok(version.fetch_one(&self.admin).await?)
        })
    }

    fn begin_fault(&self, fault: StoreFault) -> OptionalAction<'_, ()> {
        self.own.as_ref()?;
        let schema = &self.schema;
        let orders = match fault {
            StoreFault::FewConnections => format!(
                "ALTER ROLE {schema} CONNECTION LIMIT 2; \
                 SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{schema}'"
            ),
            StoreFault::ReadOnly => return action(self.only_reads("on")),
            StoreFault::StandbyAway => return action(self.waits_for("away")),
            StoreFault::Busy => {
                let lock = format!("LOCK TABLE {schema}.shedlock IN ACCESS EXCLUSIVE MODE");
                return action(async {
                    let mut keeper = PgPool::connect(&self.server).await?.begin().await?;
                    sqlx::Executor::execute(&mut *keeper, client::text(lock)).await?;
                    *self.keeper.lock().await = Some(keeper);
                    Ok(())
                });
            }
            _ => return None,
        };
        action(run(&self.admin, orders))
    }

    fn end_fault(&self, fault: StoreFault) -> OptionalAction<'_, ()> {
        self.own.as_ref()?;
        match fault {
            StoreFault::FewConnections => {
                let order = format!("ALTER ROLE {} CONNECTION LIMIT -1", self.schema);
                action(run(&self.admin, order))
            }
            StoreFault::ReadOnly => action(self.only_reads("off")),
            StoreFault::StandbyAway => action(self.waits_for("")),
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

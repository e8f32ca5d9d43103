//! Checks of the table and its server.

use shedlock_core::{Finding, Level, Operation};
use shedlock_provider::Result;

use crate::call::Call;
use crate::dialect::{Check, DURABILITY};
use crate::driver::{Driver, Wanted};
use crate::failure::{Class, Failure};
use crate::options::COLUMNS;
use crate::shape::Shape;
use crate::statement::{Field, Reply, Statement, Values};

const PRIVILEGES: &str = "privileges";

impl<B: Driver> Call<'_, B> {
    /// Reads facts that may hide in a setting, and rehearses the writes of a lock without changing anything.
    pub(crate) async fn diagnose(&self) -> Result<Vec<Finding>> {
        let plan = self.look().await?;
        let shape = &plan.shape;
        let version = shape.server.split(", ").next().unwrap_or_default();
        let privileges = self.privileges(shape).await;
        let is_writable = privileges.level == Level::Ok;
        let mut findings = vec![
            Finding::ok("version", format!("{} {version}", B::STORE)),
            self.columns_of(shape),
            privileges,
        ];
        findings.extend(B::DIALECT.warnings(&self.options, shape));
        if let Some(misread) = self.misread_finding(&plan).await {
            findings.retain(|finding| finding.check != misread.check);
            findings.push(misread);
        }
        for check in (B::DIALECT.checks)(&self.options) {
            findings.push(self.checked(&check).await);
        }
        if is_writable {
            findings.extend(self.replica(shape).await);
        }
        if !findings.iter().any(|finding| finding.check == DURABILITY) {
            let message = "commits are on disk before they are confirmed";
            findings.push(Finding::ok(DURABILITY, message));
        }
        findings.extend(self.names_in_others(shape).await);
        if let Some(warning) = self.connections.warning() {
            findings.push(Finding::bare("tls", Level::Warning, warning));
        }
        Ok(findings)
    }

    /// The columns that ShedLock's table does not have.
    fn columns_of(&self, shape: &Shape) -> Finding {
        if shape.is_complete {
            return Finding::ok("columns", "the table has all columns");
        }
        Finding::warning(
            "columns",
            format!(
                "table {} lacks the columns {}, which fencing tokens and slots of schedules need",
                self.options.table,
                COLUMNS.join(", ")
            ),
            format!("run {}", Operation::Migrate),
        )
    }

    async fn privileges(&self, shape: &Shape) -> Finding {
        for statement in B::DIALECT.rehearsals(&self.options, shape) {
            if let Err(failure) = self.sent(&statement).await {
                return Finding::failed(PRIVILEGES, &self.explained(failure, false));
            }
        }
        Finding::ok(PRIVILEGES, "this user may read, insert and update locks")
    }

    pub(crate) async fn checked(&self, check: &Check) -> Finding {
        let statement = B::DIALECT.checking(&self.options, check);
        match self.sent(&statement).await {
            Err(failure) => self.unchecked(check.name, failure),
            Ok(reply) => match reply.row().and_then(|row| row.name.as_deref()) {
                None | Some("") => Finding::ok(check.name, check.well),
                Some(culprit) => {
                    let culprit = [("culprit", culprit)];
                    check.wrong.warning(check.name, &culprit)
                }
            },
        }
    }

    /// Whether the server is a replica that accepts writes.
    async fn replica(&self, shape: &Shape) -> Option<Finding> {
        let check = "source";
        let follows = B::DIALECT.follows.as_ref()?;
        if shape.server.contains(follows.unless) {
            return None;
        }
        let replicates = || {
            Finding::warning(
                check,
                "the server is a replica of another one, but accepts writes: its locks are not on \
                 its source, so two processes can hold one lock if one of them uses the source",
                "connect to the primary, and set read_only=ON on its replicas; if this is the \
                 primary, remove its old source with RESET REPLICA ALL",
            )
        };
        let running = B::DIALECT.condition(&self.options, follows.running);
        match self.sent(&running).await {
            Ok(reply) if reply.row()?.is_true() => return Some(replicates()),
            Ok(_) => {}
            Err(failure) => return Some(self.unchecked(check, failure)),
        }
        for sources in follows.sources {
            let mut sources = Statement::plain(sources);
            sources.fields = &[Field::Text];
            match self.sent(&sources).await {
                Ok(reply) if reply.rows.is_empty() => break,
                Ok(_) => return Some(replicates()),
                Err(failure) if failure.class == Class::Other => {}
                Err(failure) if failure.class == Class::Privilege => {
                    let message = format!(
                        "the server is not replicating from another one; to see replication that \
                         is stopped, this user needs the privilege {}",
                        follows.privileges
                    );
                    return Some(Finding::ok(check, message));
                }
                Err(failure) => return Some(self.unchecked(check, failure)),
            }
        }
        Some(Finding::ok(
            check,
            "the server is not a replica of another one",
        ))
    }

    fn unchecked(&self, check: &'static str, failure: Failure) -> Finding {
        Finding::from_error(check, &self.explained(failure, false))
    }

    /// The reply to a statement without values.
    pub(crate) async fn sent(&self, statement: &Statement) -> Result<Reply, Failure> {
        let reply = self.send(statement, &Values::default(), Wanted::Any).await;
        reply.and_then(Reply::readable)
    }

    /// The same for a caller who returns the failure, which wrote nothing.
    pub(crate) async fn asked(&self, statement: &Statement) -> Result<Reply> {
        let reply = self.sent(statement).await;
        reply.map_err(|failure| self.explained(failure, false))
    }
}

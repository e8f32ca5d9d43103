//! Checks of the table and its server.

use shedlock_core::{Finding, Level};
use shedlock_store::Result;

use crate::call::Call;
use crate::dialect::{Check, DURABILITY};
use crate::driver::{Driver, Wanted};
use crate::failure::Failure;
use crate::shape::Shape;
use crate::statement::{Reply, Statement, Values};

const PRIVILEGES: &str = "privileges";

impl<B: Driver> Call<'_, B> {
    /// Reads facts that may hide in a setting, and rehearses the writes of a lock without changing anything.
    pub(crate) async fn diagnose(&self) -> Result<Vec<Finding>> {
        let shape = &self.look().await?.shape;
        let version = shape.server.split(", ").next().unwrap_or_default();
        let mut findings = vec![
            Finding::ok("version", format!("{} {version}", B::STORE)),
            self.columns_of(shape),
            self.privileges(shape).await,
        ];
        let warnings = B::DIALECT.warnings(&self.options, shape);
        let warnings = warnings
            .iter()
            .map(|(check, text)| Finding::from_text(check, Level::Warning, text));
        findings.extend(warnings);
        for check in (B::DIALECT.checks)(&self.options) {
            findings.push(self.checked(&check).await);
        }
        if !findings.iter().any(|finding| finding.check == DURABILITY) {
            let message = "commits are on disk before they are confirmed";
            findings.push(Finding::ok(DURABILITY, message));
        }
        if let Some(warning) = self.unverified() {
            findings.push(Finding::from_text("tls", Level::Warning, &warning));
        }
        Ok(findings)
    }

    /// The columns that ShedLock's table does not have.
    fn columns_of(&self, shape: &Shape) -> Finding {
        let missing = shape.extras.columns().filter(|(there, _)| !there);
        let missing: Vec<_> = missing.map(|(_, column)| column).collect();
        if missing.is_empty() {
            return Finding::ok("columns", "the table has all columns");
        }
        Finding::warning(
            "columns",
            format!(
                "table {} has no columns {}: without them, locks have no fencing tokens, or \
                 schedules no slots",
                self.options.table,
                missing.join(", ")
            ),
            "run `shedlock migrate`",
        )
    }

    async fn privileges(&self, shape: &Shape) -> Finding {
        for statement in B::DIALECT.rehearsals(&self.options, shape) {
            if let Err(failure) = self.sent(&statement).await {
                let error = format!("{:#}", self.explained(failure, false));
                return Finding::from_text(PRIVILEGES, Level::Error, &error);
            }
        }
        Finding::ok(PRIVILEGES, "this user may read, insert and update locks")
    }

    async fn checked(&self, check: &Check) -> Finding {
        let statement = B::DIALECT.condition(&self.options, &check.condition);
        match self.sent(&statement).await {
            Err(failure) => Finding::from_error(check.name, &self.explained(failure, false)),
            Ok(reply) => match reply.row().and_then(|row| row.name.as_deref()) {
                Some("x") => Finding::from_text(check.name, Level::Warning, check.wrong),
                _ => Finding::ok(check.name, check.well),
            },
        }
    }

    async fn sent(&self, statement: &Statement) -> Result<Reply, Failure> {
        let reply = self.send(statement, &Values::default(), Wanted::Any).await;
        reply.and_then(Reply::readable)
    }
}

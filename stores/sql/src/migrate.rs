//! Making the table, or adding what ShedLock's lacks.

use shedlock_core::Migration;
use shedlock_store::{Result, configuration};

use crate::call::{Call, SqlStore};
use crate::driver::{Driver, Wanted};
use crate::failure::Class;
use crate::statement::{Statement, Values};

impl<B: Driver> SqlStore<B> {
    /// Makes what is missing. Two processes that do so at once both succeed; each reports what it
    /// changed itself.
    pub(crate) async fn migrated(&self) -> Result<Migration> {
        let call = self.call();
        let mut changes = Vec::new();
        let table = &self.options.table;
        if call.create_if_missing().await? {
            changes.push(format!("created table {table}"));
        }
        // Also after the table was made: by another process of an older release, perhaps.
        let plan = call.look().await?;
        let columns = plan.shape.extras.columns();
        for (_, column) in columns.iter().filter(|(there, _)| !there) {
            let add = B::DIALECT.column_addition(&self.options, column);
            if call.define(&add).await? {
                changes.push(format!("added column {column:?} to table {table}"));
            }
        }
        if !plan.shape.is_complete() {
            call.look().await?;
        }
        Ok(Migration::with_changes(changes))
    }
}

impl<B: Driver> Call<'_, B> {
    /// Makes the table if there is none, and leaves one that is there as it is. True where it was made.
    pub(crate) async fn create_if_missing(&self) -> Result<bool> {
        if !self.columns().await?.is_empty() {
            return Ok(false);
        }
        self.define(&B::DIALECT.table_creation(&self.options)).await
    }

    /// False where another process was faster.
    async fn define(&self, statement: &Statement) -> Result<bool> {
        tracing::debug!(sql = statement.text(), "migration");
        let values = Values::default();
        let answer = self.send(statement, &values, false, Wanted::Proven).await;
        let Err(failure) = answer else {
            return Ok(true);
        };
        match failure.class {
            Class::Exists => Ok(false),
            Class::Privilege => Err(configuration(format!(
                "the database user may not define table {}: migrate with a user who may, or have \
                 one run: {}",
                self.options.table,
                statement.text()
            ))
            .with_source(failure.source)),
            _ => Err(self.explained(failure, true)),
        }
    }
}

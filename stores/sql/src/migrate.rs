//! Making the table, or adding what ShedLock's lacks.

use std::pin::pin;

use shedlock_core::{Error, ErrorKind, Migration};

use crate::driver::{Class, Driver, Failure, Wanted};
use crate::explain::explain;
use crate::plan::probe;
use crate::send::Call;
use crate::statement::Statement;
use crate::store::SqlStore;

impl<B: Driver> SqlStore<B> {
    /// Makes what is missing. Two processes that do so at once both succeed; each reports what it
    /// changed itself.
    pub(crate) async fn migrated(&self) -> Result<Migration, Error> {
        let call = self.call();
        let mut changes = Vec::new();
        let table = &self.options().table;
        let columns = probe(self.connections(), self.options(), call.deadline())
            .await
            .map_err(|failure| self.refused(failure))?;
        if columns.is_empty() {
            let create = B::dialect().create_table(self.options());
            if call.define(&create).await? {
                changes.push(format!("created table {table}"));
            }
        }
        // Also after the table was made: by another process of an older release, perhaps.
        let plan = call.look().await?;
        let columns = plan.shape.extras.columns();
        for (_, column) in columns.iter().filter(|(there, _)| !there) {
            let add = B::dialect().add_column(self.options(), column);
            if call.define(&add).await? {
                changes.push(format!("added column {column:?} to table {table}"));
            }
        }
        if !plan.shape.is_complete() {
            call.look().await?;
        }
        Ok(Migration::with_changes(changes))
    }

    /// Makes the table if there is none, and leaves one that is there as it is.
    #[cfg(feature = "sqlite")]
    pub(crate) async fn create_if_missing(&self) -> Result<(), Error> {
        let call = self.call();
        let columns = probe(self.connections(), self.options(), call.deadline())
            .await
            .map_err(|failure| self.refused(failure))?;
        if columns.is_empty() {
            call.define(&B::dialect().create_table(self.options()))
                .await?;
        }
        call.check().await
    }

    fn not_allowed(&self, failure: Failure, statement: &Statement) -> Error {
        Error::new(
            ErrorKind::Configuration,
            format!(
                "the database user may not define table {}: migrate with a user who may, or have \
                 one run: {}",
                self.options().table,
                statement.text()
            ),
        )
        .with_source(failure.source)
    }

    fn refused(&self, failure: Failure) -> Error {
        explain::<B>(failure, self.options(), false)
    }
}

impl<B: Driver> Call<'_, B> {
    /// False where another process was faster.
    async fn define(&self, statement: &Statement) -> Result<bool, Error> {
        tracing::debug!(sql = statement.text(), "migration");
        let mut held = self
            .connections()
            .acquire(Wanted::Proven, self.deadline())
            .await
            .map_err(|failure| self.refused(failure))?;
        let answer = {
            let define = B::batch(&mut held, statement.text());
            self.deadline().answer(pin!(define)).await
        };
        let failure = match answer {
            Some(Ok(())) => {
                held.finished();
                return Ok(true);
            }
            Some(Err(error)) => B::running(error),
            None => Failure::silent(),
        };
        match failure.class {
            Class::Exists => {
                held.finished();
                Ok(false)
            }
            Class::Privilege => Err(self.not_allowed(failure, statement)),
            _ => Err(explain::<B>(failure, self.options(), true)),
        }
    }
}

//! Making the table, or adding what ShedLock's lacks.

use shedlock_core::{Error, ErrorKind, Migration};

use crate::driver::{Backend, Class, Failure};
use crate::explain::explain;
use crate::flow::Flow;
use crate::plan::probe;
use crate::statement::Statement;

impl<B: Backend> Flow<B> {
    /// Makes what is missing. Two processes that do so at once both succeed; each reports what it
    /// changed itself.
    pub(crate) async fn migrate(&self) -> Result<Migration, Error> {
        let mut changes = Vec::new();
        let table = &self.options().table;
        let columns = probe(self.connections(), self.options())
            .await
            .map_err(|failure| self.refused(failure))?;
        if columns.is_empty() {
            let create = B::dialect().create_table(self.options());
            if self.define(&create).await? {
                changes.push(format!("created table {table}"));
            }
        }
        // Also after the table was made: by another process of an older release, perhaps.
        let plan = self
            .plans()
            .look(self.connections(), self.options())
            .await?;
        let columns = plan.shape.extras.columns();
        for (_, column) in columns.iter().filter(|(there, _)| !there) {
            let add = B::dialect().add_column(self.options(), column);
            if self.define(&add).await? {
                changes.push(format!("added column {column:?} to table {table}"));
            }
        }
        if !plan.shape.is_complete() {
            self.plans()
                .look(self.connections(), self.options())
                .await?;
        }
        Ok(Migration::with_changes(changes))
    }

    /// Makes the table if there is none, and leaves one that is there as it is.
    #[cfg(feature = "sqlite")]
    pub(crate) async fn create_if_missing(&self) -> Result<(), Error> {
        let columns = probe(self.connections(), self.options())
            .await
            .map_err(|failure| self.refused(failure))?;
        if columns.is_empty() {
            self.define(&B::dialect().create_table(self.options()))
                .await?;
        }
        self.check().await
    }

    /// False where another process was faster.
    async fn define(&self, statement: &Statement) -> Result<bool, Error> {
        tracing::debug!(sql = statement.text(), "migration");
        let mut held = self
            .connections()
            .acquire(true)
            .await
            .map_err(|failure| self.refused(failure))?;
        match B::define(&mut held, statement).await {
            Ok(()) => {
                held.finished();
                Ok(true)
            }
            Err(error) => {
                let failure = Failure::running::<B>(error);
                match failure.class {
                    Class::Exists => {
                        held.finished();
                        Ok(false)
                    }
                    Class::Privilege => Err(self.not_allowed(failure, statement)),
                    _ => Err(self.refused(failure)),
                }
            }
        }
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
        .with_store(B::STORE)
        .with_source(failure.source)
    }

    fn refused(&self, failure: Failure) -> Error {
        explain::<B>(failure, self.options(), false)
    }
}

//! What a database user may not do with the journal.

use shedlock_provider::Result;

use super::SqlJournal;
use super::rows::Words;
use super::schema::TABLES;
use crate::driver::Driver;
use crate::failure::Class;
use crate::statement::Field::Number;
use crate::statement::Row;

/// Statements that need one privilege each and change nothing, for the tables in their order. What a job's user may do
/// should not include to erase what operators did, so `DELETE` on the audit is not among them.
pub(super) const REHEARSALS: [(&str, &[(&str, &str)]); 4] = [
    (
        TABLES[0].suffix,
        &[("SELECT", "SELECT 1 FROM {journal} WHERE 1 = 0")],
    ),
    (
        TABLES[1].suffix,
        &[
            ("SELECT", "SELECT 1 FROM {job} WHERE 1 = 0"),
            (
                "INSERT",
                "INSERT INTO {job} (job, registered_us) \
                 SELECT '', 0 FROM (SELECT 1 AS one) AS n WHERE 1 = 0",
            ),
            ("UPDATE", "UPDATE {job} SET last_error = '' WHERE 1 = 0"),
        ],
    ),
    (
        TABLES[2].suffix,
        &[
            ("SELECT", "SELECT 1 FROM {run} WHERE 1 = 0"),
            (
                "INSERT",
                "INSERT INTO {run} (id, job, name, owner, started_us) \
                 SELECT '', '', '', '', 0 FROM (SELECT 1 AS one) AS n WHERE 1 = 0",
            ),
            ("UPDATE", "UPDATE {run} SET error = '' WHERE 1 = 0"),
            ("DELETE", "DELETE FROM {run} WHERE 1 = 0"),
        ],
    ),
    (
        TABLES[3].suffix,
        &[
            ("SELECT", "SELECT 1 FROM {audit} WHERE 1 = 0"),
            (
                "INSERT",
                "INSERT INTO {audit} (id, at_us, actor, is_authenticated, action, name, detail) \
                 SELECT '', 0, '', 0, '', '', '' FROM (SELECT 1 AS one) AS n WHERE 1 = 0",
            ),
        ],
    ),
];

/// The tables of the journal, each with what a user needs on it.
pub(crate) fn needed() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    REHEARSALS.into_iter().map(|(suffix, rehearsals)| {
        let privileges = rehearsals.iter().map(|(privilege, _)| *privilege);
        (suffix, privileges.collect())
    })
}

impl<B: Driver> SqlJournal<B> {
    /// The privileges that are missing on the tables; the one to create them if there are none.
    pub(super) async fn lacking(&self) -> Result<Vec<String>> {
        let (dialect, options) = (B::DIALECT, &self.store.options);
        let mut lacking = Vec::new();
        for (suffix, rehearsals) in REHEARSALS {
            let mut privileges = Vec::new();
            for (privilege, template) in rehearsals {
                let statement = dialect.journal_statement(options, template, &[Number]);
                match self.send(&statement, &Words::default()).await {
                    Ok(_) => {}
                    Err(failure) => match failure.class {
                        Class::Privilege => privileges.push(*privilege),
                        Class::Shape if suffix == TABLES[0].suffix => return self.creation().await,
                        // `plan_migration` reports a table that is missing.
                        Class::Shape => break,
                        _ => return Err(self.explained(failure, false)),
                    },
                }
            }
            if !privileges.is_empty() {
                let table = options.table.with_suffix(suffix);
                lacking.push(format!("{} on {table}", privileges.join(", ")));
            }
        }
        Ok(lacking)
    }

    async fn creation(&self) -> Result<Vec<String>> {
        let condition = B::DIALECT.journal.may_not_create;
        if condition.is_empty() {
            return Ok(Vec::new());
        }
        let statement = B::DIALECT.condition(&self.store.options, condition);
        let reply = self.send(&statement, &Words::default()).await;
        // A server that does not have these catalogs rejects the statement.
        let is_missing = reply.is_ok_and(|reply| reply.row().is_some_and(Row::is_true));
        let table = &self.store.options.table;
        let create = is_missing.then(|| format!("CREATE in the schema of table {table}"));
        Ok(create.into_iter().collect())
    }
}

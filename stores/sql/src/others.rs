//! Other lock tables of the database. A service that does not name its table may be meant to use one of them, such as that
//! of a Java service, which finds its table by a schema in its own URL or by the search path of its role.

use std::time::Duration;

use shedlock_core::{Finding, LockName, Operation, Slot};
use shedlock_provider::{Result, configuration};

use crate::call::Call;
use crate::dialect::Dialect;
use crate::driver::Driver;
use crate::failure::Class;
use crate::identifier::Table;
use crate::options::{Options, TABLE};
use crate::shape::Shape;
use crate::statement::{Cell, Row};

/// How long they are looked for.
const LIMIT: Duration = Duration::from_secs(2);

/// A table with ShedLock's columns.
struct Other {
    options: Options,
    /// `None` if it cannot be used as it is.
    shape: Option<Shape>,
    is_forbidden: bool,
}

impl<B: Driver> Call<'_, B> {
    /// Refuses a missing table that the settings do not name if there are others. A search that fails finds none.
    pub(crate) async fn check_others(&self) -> Result<()> {
        if self.options.names_table() {
            return Ok(());
        }
        let call = self.call_within(LIMIT.min(self.deadline.left()));
        let others = match call.others().await {
            Ok(others) => others,
            Err(error) => {
                tracing::warn!("cannot look for other lock tables in this database: {error:#}");
                return Ok(());
            }
        };
        let mut found = Vec::new();
        for other in others.iter().take(Dialect::OTHERS) {
            found.push(match other {
                Ok(table) => call.described(&call.other(table).await).await,
                Err(name) => format!("{name} (no URL can name it)"),
            });
        }
        if found.is_empty() {
            return Ok(());
        }
        if others.len() > found.len() {
            found.push("more".to_owned());
        }
        let found = found.join(", ");
        let table = &self.options.table;
        Err(configuration(format!(
            "table {table} is missing, but there are other lock tables: {found}"
        ))
        .advise(
            "only if these services are meant to exclude each other, share one: add its option to \
             the store's URL",
        )
        .advise((
            "otherwise create a table of your own with",
            Operation::NewTable,
        )))
    }

    /// Lock names that are in this table, which the settings do not name, and in others too.
    pub(crate) async fn names_in_others(&self, shape: &Shape) -> Option<Finding> {
        const CHECK: &str = "other-tables";
        if self.options.names_table() {
            return None;
        }
        let call = self.call_within(LIMIT);
        let others = match call.others().await {
            Ok(others) => others,
            Err(error) => return Some(Finding::from_error(CHECK, &error)),
        };
        let mut found = Vec::new();
        for table in others.iter().flatten().take(Dialect::OTHERS) {
            let other = call.other(table).await;
            let Some(other_shape) = &other.shape else {
                continue;
            };
            let tables = [(&call.options, shape), (&other.options, other_shape)];
            let names = call.sent(&B::DIALECT.names_in_both(tables)).await;
            // A table that this user may not read is no fault.
            let names = names.map_or_else(|_| Vec::new(), |reply| reply.rows);
            let names = names.into_iter().filter_map(|row| row.name);
            // The identity of a store is no lock.
            let names = names.filter(|name| LockName::new(name).is_ok());
            let names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
            if !names.is_empty() {
                let option = option::<B>(table);
                found.push(format!("{} in {table} ({option})", names.join(", ")));
            }
        }
        if found.is_empty() {
            return None;
        }
        Some(Finding::warning(
            CHECK,
            format!(
                "lock names that are also in another lock table, whose services this one does not exclude: {}",
                found.join("; ")
            ),
            "if they are the same jobs, add that option to the store's URL; otherwise name this table there \
             (?table=shedlock), which ends this warning",
        ))
    }

    /// The other tables, or the names of those that cannot be used. One more than are looked at.
    async fn others(&self) -> Result<Vec<Result<Table, String>>> {
        let reply = self
            .asked(&B::DIALECT.finding_others(&self.options))
            .await?;
        let table = |row: Row| {
            let mut texts = row.cells.into_iter().map(|cell| match cell {
                Cell::Text(text) => text,
                Cell::Number(_) => None,
            });
            let schema = texts.next().flatten();
            let name = texts.next().flatten().unwrap_or_default();
            Table::listed(schema.as_deref(), &name).ok_or_else(|| {
                let schema = schema.map_or_else(String::new, |schema| schema + ".");
                format!("{:?}", schema + &name)
            })
        };
        Ok(reply.rows.into_iter().map(table).collect())
    }

    async fn other(&self, table: &Table) -> Other {
        let mut options = self.options.clone();
        options.table = table.clone();
        let columns = self.columns_at(&options).await;
        let is_forbidden = columns
            .as_ref()
            .is_err_and(|it| it.class == Class::Privilege);
        let columns = columns.unwrap_or_default();
        let shape = B::DIALECT.shape_to_migrate(&options, &columns);
        Other {
            options,
            shape: shape.ok().map(|(shape, _)| shape),
            is_forbidden,
        }
    }

    /// Its name, its option in a URL, when it was used last, and whether this user may write it.
    async fn described(&self, other: &Other) -> String {
        let table = &other.options.table;
        let mut facts = vec![option::<B>(table)];
        let mut is_forbidden = other.is_forbidden;
        if let Some(shape) = &other.shape {
            let last = self.sent(&B::DIALECT.last_use(&other.options, shape)).await;
            let last = last.ok().and_then(|reply| reply.row()?.locked_at);
            if let Some(last) = last.and_then(|last| Slot::from_micros(last).ok()) {
                facts.push(format!("last used {last}"));
            }
            let mut may_write = true;
            for statement in B::DIALECT.rehearsals(&other.options, shape) {
                let rehearsed = self.sent(&statement).await;
                may_write &= rehearsed.is_ok();
                is_forbidden |= rehearsed.is_err_and(|it| it.class == Class::Privilege);
            }
            if may_write {
                facts.push("this user may write it".to_owned());
            }
        }
        if is_forbidden {
            facts.push("this user may not write it".to_owned());
        }
        format!("{table} ({})", facts.join(", "))
    }
}

fn option<B: Driver>(table: &Table) -> String {
    format!("?{}", table.url_options(TABLE, B::DIALECT.fold))
}

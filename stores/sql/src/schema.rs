//! What `migrate` creates. The same statements are printed for an administrator, planned, and executed.

use shedlock_core::{MigrationStep, Schema};
use shedlock_provider::Result;

use crate::call::Call;
use crate::dialect::Dialect;
use crate::driver::Driver;
use crate::identifier::Table;
use crate::journal;
use crate::options::{COLUMNS, Options};
use crate::shape::Shape;
use crate::statement::{Row, Statement};

/// A statement that creates something, and what it creates.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    verb: Verb,
    /// The table, the column, or the like.
    what: String,
    pub(crate) statement: Statement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Add,
    /// Creates a part of something that is reported itself.
    CreatePart,
    /// Writes the version of the schema.
    Record,
}

impl Definition {
    pub(crate) fn new(verb: Verb, what: String, text: &str) -> Self {
        let statement = Statement::plain(text);
        Self {
            verb,
            what,
            statement,
        }
    }

    pub(crate) fn is_record(&self) -> bool {
        self.verb == Verb::Record
    }

    pub(crate) fn step(&self) -> MigrationStep {
        let verb = match self.verb {
            Verb::Create | Verb::CreatePart => "create",
            Verb::Add => "add",
            Verb::Record => "record",
        };
        let step = MigrationStep::new(format!("{verb} {}", self.what));
        step.with_statement(self.statement.text())
    }

    /// What a migration reports.
    pub(crate) fn done(&self) -> Option<String> {
        let verb = match self.verb {
            Verb::Create => "created",
            Verb::Add => "added",
            Verb::CreatePart | Verb::Record => return None,
        };
        Some(format!("{verb} {}", self.what))
    }
}

impl Dialect {
    /// The lock table.
    pub(crate) fn creation(&self, options: &Options) -> Definition {
        let text = self.table_creation(options);
        Definition::new(Verb::Create, format!("table {}", options.table), &text)
    }

    /// Our own columns that a lock table lacks. A table with some of them is refused, so one
    /// statement adds them all, if the server has such a statement.
    pub(crate) fn additions(&self, options: &Options, missing: &[&str]) -> Vec<Definition> {
        let at_a_time = match self.adds_one_column_at_a_time {
            true => 1,
            false => missing.len().max(1),
        };
        let table = &options.table;
        let addition = |columns: &[&str]| {
            let added = columns.iter();
            let added = added.map(|it| format!("\n    ADD COLUMN {it} {}", self.own_column));
            let added: Vec<_> = added.collect();
            let quoted = table.quoted(self.quotation_mark);
            let text = format!("ALTER TABLE {quoted}{}", added.join(","));
            let names: Vec<_> = columns.iter().map(|name| format!("{name:?}")).collect();
            let noun = if names.len() == 1 {
                "column"
            } else {
                "columns"
            };
            let what = format!("{noun} {} to table {table}", names.join(", "));
            Definition::new(Verb::Add, what, &text)
        };
        missing.chunks(at_a_time).map(addition).collect()
    }

    /// The index for pages of names, for a table that was created without it.
    fn indexing(&self, options: &Options, shape: &Shape) -> Option<(Statement, Definition)> {
        let (is_missing, create) = self.index(options, shape)?;
        let what = format!("an index of names to table {}", options.table);
        Some((is_missing, Definition::new(Verb::Add, what, &create)))
    }

    pub(crate) fn schema(&self, options: &Options) -> Schema {
        let steps = |definitions: &[Definition]| definitions.iter().map(Definition::step).collect();
        let create = steps(&[self.creation(options)]);
        let mut upgrade = self.additions(options, &COLUMNS);
        upgrade.extend(
            self.indexing(options, &self.assumed)
                .map(|(_, index)| index),
        );
        let schema = Schema::with_create(create).upgrade(steps(&upgrade));
        let (grants, mut of_journal) = self.grants(options);
        let schema = match journal::definitions(self, options) {
            Ok(journal) => schema.journal(steps(&journal)),
            Err(error) => {
                of_journal.clear();
                schema.note(error.to_string())
            }
        };
        schema.grants(grants, of_journal)
    }

    /// What a user needs for the lock table, and for the journal. Both are what `diagnose` rehearses.
    fn grants(&self, options: &Options) -> (Vec<MigrationStep>, Vec<MigrationStep>) {
        if self.journal.may_not_create.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mark = self.quotation_mark;
        let grant = |what: &str, on: String, quoted: String| {
            let step = MigrationStep::new(format!("grant {what} on {on}"));
            step.with_statement(format!("GRANT {what} ON {quoted} TO"))
        };
        let on_table = |privileges: &[&str], table: &Table| {
            let on = format!("table {table}");
            grant(&privileges.join(", "), on, table.quoted(mark))
        };
        let schema = options.table.schema.as_ref().filter(|_| self.has_usage);
        let usage = schema.map(|schema| {
            let on = format!("schema {:?}", schema.as_str());
            grant("USAGE", on, format!("SCHEMA {}", schema.quoted(mark)))
        });
        let of_locks = on_table(&["SELECT", "INSERT", "UPDATE"], &options.table);
        let of_journal = journal::needed()
            .map(|(suffix, privileges)| on_table(&privileges, &options.table.with_suffix(suffix)));
        let with_usage = |steps| usage.iter().cloned().chain(steps).collect();
        (
            with_usage(vec![of_locks]),
            with_usage(of_journal.collect::<Vec<_>>()),
        )
    }
}

impl<B: Driver> Call<'_, B> {
    /// What the lock table lacks.
    pub(crate) async fn lacks(&self) -> Result<Vec<Definition>> {
        let columns = self.columns().await?;
        if columns.is_empty() {
            self.plans.forget();
            self.check_absence().await?;
            return Ok(vec![B::DIALECT.creation(&self.options)]);
        }
        let (shape, missing) = B::DIALECT.shape_to_migrate(&self.options, &columns)?;
        let mut lacks = B::DIALECT.additions(&self.options, &missing);
        if let Some((is_missing, index)) = B::DIALECT.indexing(&self.options, &shape) {
            let asked = self.asked(&is_missing).await?;
            if asked.row().is_some_and(Row::is_true) {
                lacks.push(index);
            }
        }
        Ok(lacks)
    }
}

/// A statement and all that follow, each in one line, for a message.
pub(crate) fn lines(statement: &Statement, next: &[Definition]) -> Vec<String> {
    let next = next.iter().map(|definition| &definition.statement);
    let all = std::iter::once(statement).chain(next);
    all.map(|it| in_one_line(it.text())).collect()
}

/// A statement in one line, for a message.
pub(crate) fn in_one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace("( ", "(").replace(" )", ")")
}

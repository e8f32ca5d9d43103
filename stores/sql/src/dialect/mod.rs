//! The statements of each dialect, independent of any driver.

mod columns;
pub(crate) mod mysql;
mod pieces;
pub(crate) mod postgres;
mod proof;
pub(crate) mod sqlite;
mod step;

use std::fmt;
use std::time::Duration;

use shedlock_core::Finding;
use shedlock_provider::{Result, TlsNames, Told};

pub(crate) use self::columns::is_partial;
pub(crate) use self::pieces::Pieces;
use self::pieces::words;
use self::proof::Alone;
pub use self::proof::Proof;
pub(crate) use self::proof::Proofs;
pub(crate) use self::step::{Claim, End, Statements, Step};
use crate::failure::Explain;
use crate::identifier::Identifier;
use crate::identifier::{Fold, Table};
use crate::options::{COLUMNS, Options, Settings};
use crate::shape::{Column, Shape, TimeKind};
use crate::statement::{Field, Placeholders, Statement};

/// A dialect: how to query the table's shape, and which statements fit it.
pub struct Dialect {
    /// How the database changes the case of unquoted names.
    pub(crate) fold: Fold,
    pub(crate) longest_name: usize,
    pub(crate) quotation_mark: char,
    placeholders: Placeholders,
    returns_rows: bool,
    /// Selects one row per column of the table, or none if there is no table, in the order of the fields of [`Column`]:
    /// name text, type text, digits bigint null, length bigint null, collation text null, unique bigint 0 or 1,
    /// required bigint 0 or 1, server text, the server's time bigint, place text, schema text null.
    probe: fn(&Options) -> String,
    /// Checks whether a column of this type can store the lock's name (`true`) or its owner. Returns whether it
    /// compares byte for byte; the error contains the types that are possible.
    text: fn(&Column, bool) -> Result<bool, &'static str>,
    /// How a column of this type stores an instant; the error contains the types that are possible.
    time: fn(&str) -> Result<TimeKind, &'static str>,
    is_integer: fn(&str) -> bool,
    /// The table that `migrate` creates.
    pub(crate) assumed: Shape,
    /// The unit, in microseconds, to which durations are rounded up before they are sent. It is one microsecond if the
    /// statements themselves round the instant for coarse columns.
    pub(crate) unit: i64,
    pub(crate) longest_lease: fn(&Options, &Shape) -> Duration,
    pub(crate) quote: fn(&str) -> String,
    pub(crate) session_init: Option<&'static str>,
    /// How a statement on a connection that is not ours proves that it is in no transaction but its own.
    alone: Alone,
    /// A statement that can make space on a disk that is full, for what changes an existing record.
    pub(crate) makes_space: Option<&'static str>,
    /// The options of a URL that name certificate files.
    pub(crate) tls: TlsNames,
    /// What a failure means here, if that differs from its usual meaning.
    pub(crate) explain: Explain,
    /// Server properties under which a crash can lose committed data, as they appear in [`Shape::server`], each with
    /// its warning.
    forgets: &'static [(&'static str, Told)],
    other_warnings: fn(&Options, &Shape) -> Vec<Finding>,
    /// Whether the times that ShedLock for Java writes may be misread, because a setting is missing.
    pub(crate) misreads_java: fn(&Options, &Shape) -> bool,
    /// What follows FROM to select the schema of the name `{schema}`.
    schemas: &'static str,
    /// See [`cancelling`](Dialect::cancelling).
    cancels: Option<&'static str>,
    /// See [`written_until`](Dialect::written_until).
    written_until: Option<&'static str>,
    /// See [`finding_spelling`](Dialect::finding_spelling).
    spelling: Option<&'static str>,
    /// Selects the schema (null if a statement finds the table without it) and the name of each other table of this
    /// database that has `{columns}` in any case.
    others: &'static str,
    /// `{name}` as a text that compares byte for byte with one of another column.
    comparable: &'static str,
    /// `{name}` as a text that drivers read, if it needs a conversion.
    readable: &'static str,
    /// How a statement starts that selects times.
    select: &'static str,
    /// Whether a user needs a privilege on the schema to use a table in it.
    pub(crate) has_usage: bool,
    /// What `diagnose` checks on this server, in addition to the warnings.
    pub(crate) checks: fn(&Options) -> Vec<Check>,
    /// How to find out whether this server is a replica that accepts writes.
    pub(crate) follows: Option<Follows>,
    /// Sets the dialect's own words ([`Pieces`]), including the step's own, unless the server needs no such step.
    pieces: fn(&Options, &Shape, Step, &mut Pieces),
    /// The lock table; `{ours}` stands for our own columns, each after a comma.
    create_table: &'static str,
    /// What serves pages in the byte order of the names in a table that was created otherwise: an expression that is true if
    /// there is no such index and this user may create it, and the statement that does.
    index: Option<(&'static str, &'static str)>,
    /// See [`has_one_writer`](Self::has_one_writer).
    has_one_writer: bool,
    /// What the journal's tables need.
    pub(crate) journal: JournalWords,
    /// The type of our own columns: 64 bits and nullable.
    pub(crate) own_column: &'static str,
    /// Whether each added column needs a statement of its own.
    pub(crate) adds_one_column_at_a_time: bool,
}

/// What differs between the dialects in the tables of the journal.
pub(crate) struct JournalWords {
    /// The type of a text of at most so many characters, which compares byte for byte.
    pub(crate) text: fn(usize) -> String,
    /// The server's time in microseconds since 1970 (UTC).
    pub(crate) clock: &'static str,
    /// 32 random hexadecimal digits.
    pub(crate) random: &'static str,
    /// Whether indexes are part of the table's definition, instead of statements of their own.
    pub(crate) inline_indexes: bool,
    /// Whether the schema is part of an index's name in its definition, instead of the table's.
    pub(crate) qualified_indexes: bool,
    /// An expression that is true if there is an index of this name.
    pub(crate) has_index: fn(&Table) -> String,
    /// What a read of one row adds so that no other transaction changes the row, or reads it like this, before the end
    /// of this one.
    pub(crate) for_update: &'static str,
    /// What makes an insert do nothing if the row exists: after `INSERT`, and at the end.
    pub(crate) ignores: [&'static str; 2],
    /// A condition that fails in a session whose statements do not commit by themselves.
    pub(crate) guarded: &'static str,
    /// What begins and ends a transaction.
    pub(crate) frame: Frame,
    /// The same in a session of the user's. It also limits how long the transaction waits for the locks of others, because
    /// the server's session would wait on.
    pub(crate) lent_frame: Frame,
    /// An expression that is true if this user may not create tables beside `{table}`. Empty if the dialect has no
    /// rights.
    pub(crate) may_not_create: &'static str,
}

/// The statements before a transaction's own, and those after them.
pub(crate) type Frame = (&'static [&'static str], &'static [&'static str]);

/// The name of the checks about writes that a crash can lose.
pub(crate) const DURABILITY: &str = "durability";

/// A check that `diagnose` makes on the server.
pub(crate) struct Check {
    /// Its name. Several checks may have the same one.
    pub(crate) name: &'static str,
    /// An SQL expression that is true if something is wrong. Words like `{table}` are replaced.
    pub(crate) condition: String,
    /// An SQL expression for what `{culprit}` in `wrong` stands for. If it is empty, nothing is wrong.
    pub(crate) culprit: Option<&'static str>,
    /// What is wrong then, and what to do.
    pub(crate) wrong: Told,
    /// What is the case otherwise.
    pub(crate) well: &'static str,
}

/// What [`Dialect::cancelling`] reports: the session waited, and does so no more.
pub(crate) const CANCELLED: &str = "cancelled";

/// What it reports of a session that has ended.
pub(crate) const GONE: &str = "gone";

impl Check {
    fn new(
        name: &'static str,
        condition: impl Into<String>,
        wrong: Told,
        well: &'static str,
    ) -> Self {
        Self {
            name,
            condition: condition.into(),
            culprit: None,
            wrong,
            well,
        }
    }

    /// Whether what it finds may undo the writes of locks.
    pub(crate) fn undoes_writes(&self) -> bool {
        ["triggers", "row-security"].contains(&self.name)
    }
}

/// How to find out whether a server replicates from another one.
pub(crate) struct Follows {
    /// An SQL expression, for any user, that is true if it does so now. It may be false on some versions.
    pub(crate) running: &'static str,
    /// Statements, for privileged users, that return a row for each source of the server. The first one that the
    /// server knows counts.
    pub(crate) sources: &'static [&'static str],
    /// A text in [`Shape::server`] if it has sources although it is no replica.
    pub(crate) unless: &'static str,
    /// The privileges for these statements.
    pub(crate) privileges: &'static str,
}

impl JournalWords {
    /// The names of an index and of its table, as a definition has them.
    pub(crate) fn index_names(&self, index: &Table, table: &Table, mark: char) -> (String, String) {
        let alone = |table: &Table| table.name.quoted(mark);
        match self.qualified_indexes {
            true => (index.quoted(mark), alone(table)),
            false => (alone(index), table.quoted(mark)),
        }
    }
}

/// The end of the name of the index for pages of names.
const INDEX: &str = "_name_bytes";

/// Omits the statements, which are long.
impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialect").finish_non_exhaustive()
    }
}

impl Dialect {
    /// Whether one writer keeps all others from writing, whatever connections are left.
    #[must_use]
    pub fn has_one_writer(&self) -> bool {
        self.has_one_writer
    }

    /// Checks the settings. Returns `InvalidInput` with the name of the invalid setting.
    pub(crate) fn options(&self, settings: Settings) -> Result<Options> {
        settings.check(self.fold, self.longest_name)
    }

    pub(crate) fn probing(&self, options: &Options) -> Statement {
        self.about_table(options, &(self.probe)(options), &[Field::Column])
    }

    /// A statement from this text, in which words like `{table}` are replaced.
    fn about_table(&self, options: &Options, text: &str, fields: &'static [Field]) -> Statement {
        let text = Pieces::of_table(self, options).expand(text);
        Statement::new(self.placeholders, &text, fields)
    }

    pub(crate) fn table_creation(&self, options: &Options) -> String {
        let mut pieces = Pieces::of_table(self, options);
        let ours = COLUMNS.map(|column| format!(",\n    {column} {}", self.own_column));
        pieces.set("ours", ours.concat());
        pieces.expand(self.create_table)
    }

    /// Whether an index for pages of names can be added, and the statement that adds it.
    pub(crate) fn index(&self, options: &Options, shape: &Shape) -> Option<(Statement, String)> {
        let (is_missing, create) = self.index?;
        let mut pieces = Pieces::of_shape(self, options, shape);
        // As the other statements of a migration name it.
        pieces.set("table", options.table.quoted(self.quotation_mark));
        let name = options.table.with_suffix(INDEX).name;
        pieces.set("index", name.quoted(self.quotation_mark));
        Some((self.condition(options, is_missing), pieces.expand(create)))
    }

    /// A statement of the journal, with its words replaced.
    pub(crate) fn journal_statement(
        &self,
        options: &Options,
        template: &str,
        fields: &'static [Field],
    ) -> Statement {
        let mut pieces = Pieces::of_table(self, options);
        let table = |suffix| {
            options
                .table
                .with_suffix(suffix)
                .quoted(self.quotation_mark)
        };
        let [ignore, ignored] = self.journal.ignores;
        words! { pieces:
            journal = table("_journal");
            job = table("_job");
            run = table("_run");
            audit = table("_audit");
            clock = self.journal.clock;
            random = self.journal.random;
            for_update = self.journal.for_update;
            ignore = ignore;
            ignored = ignored;
            guarded = self.journal.guarded;
        }
        let mut statement = Statement::new(self.placeholders, &pieces.expand(template), fields);
        statement.prepared = options.prepares() && !statement.binds.is_empty();
        statement
    }

    /// Whether a statement with this name finds this column. Our own columns have lower-case names without quotes.
    pub(crate) fn finds(&self, column: &Column, name: &str) -> bool {
        match self.fold {
            Fold::Lower => column.name == name,
            Fold::Keep => column.name.eq_ignore_ascii_case(name),
        }
    }

    /// Whether a confirmed write survives a crash of this server, according to the server's settings.
    pub(crate) fn is_durable(&self, shape: &Shape) -> bool {
        let mut facts = self.forgets.iter();
        !facts.any(|(fact, _)| shape.server.contains(fact))
    }

    /// Warnings about a table or server that works, but not as its users may expect. Each is logged once.
    pub(crate) fn warnings(&self, options: &Options, shape: &Shape) -> Vec<Finding> {
        let facts = self.forgets.iter();
        let found = facts.filter(|(fact, _)| shape.server.contains(fact));
        let warnings = found.map(|(_, warning)| warning.warning(DURABILITY, &[]));
        let others = (self.other_warnings)(options, shape);
        warnings.chain(others).collect()
    }

    /// Returns one row, whose name is the culprit if the condition holds, and otherwise empty.
    pub(crate) fn checking(&self, options: &Options, check: &Check) -> Statement {
        self.selecting(options, check.culprit.unwrap_or("'x'"), &check.condition)
    }

    /// Returns one row, whose name is empty unless the condition holds.
    pub(crate) fn condition(&self, options: &Options, condition: &str) -> Statement {
        self.selecting(options, "'x'", condition)
    }

    fn selecting(&self, options: &Options, name: &str, condition: &str) -> Statement {
        let text = format!("SELECT CASE WHEN {condition} THEN {name} ELSE '' END");
        self.about_table(options, &text, &[Field::Name])
    }

    /// Cancels what this session of ours does, if it waits for a standby, and returns one row: [`CANCELLED`], [`GONE`] if
    /// there is no such session, or another text. `None` if the database has no such wait, or if the text is no session.
    pub(crate) fn cancelling(&self, session: &str) -> Option<Statement> {
        let is_session = session.bytes().all(|it| it.is_ascii_digit() || it == b' ');
        let text = self.cancels.filter(|_| is_session)?;
        let text = text.replace("{session}", session);
        Some(Statement::new(self.placeholders, &text, &[Field::Name]))
    }

    /// Returns one row, whose server's time is null unless this server follows another one: then it is the time there
    /// of the last transaction that is visible here. `None` if the database does not tell that to every user.
    pub(crate) fn written_until(&self) -> Option<Statement> {
        let text = self.written_until?;
        let fields = &[Field::ServerTime];
        Some(Statement::new(self.placeholders, text, fields))
    }

    /// Returns one row, with the name of a record that differs from `:name` in the case of letters only. `None` if the
    /// database finds that one by the name too.
    pub(crate) fn finding_spelling(&self, options: &Options) -> Option<Statement> {
        Some(self.about_table(options, self.spelling?, &[Field::Name]))
    }

    /// Returns one row, whose name is empty unless there is this schema.
    pub(crate) fn finding_schema(&self, options: &Options, schema: &Identifier) -> Statement {
        let named = self.schemas.replace("{schema}", schema.as_str());
        self.condition(options, &format!("EXISTS (SELECT 1 FROM {named})"))
    }

    /// Returns the schema and the name of each other lock table.
    pub(crate) fn finding_others(&self, options: &Options) -> Statement {
        let mut pieces = Pieces::of_table(self, options);
        let columns = options.columns.each_ref();
        let columns = columns.map(|it| format!("'{}'", it.as_str().to_ascii_lowercase()));
        pieces.set("columns", columns.join(", "));
        pieces.set("bare", options.table.name.as_str().to_owned());
        let text = format!("{} LIMIT {}", pieces.expand(self.others), Self::OTHERS + 1);
        Statement::new(self.placeholders, &text, &[Field::Text, Field::Text])
    }

    /// How many other tables are looked at.
    pub(crate) const OTHERS: usize = 5;

    /// Returns the name and the owner of a record that ShedLock for Java has taken within 35 days, if there is one. For the
    /// dialects that may misread it.
    pub(crate) fn taken_by_java(&self, options: &Options, shape: &Shape) -> Statement {
        let pieces = Pieces::of_step(self, options, shape, Step::Read);
        let text = format!(
            "{} {}, {{by}} FROM {{table}} WHERE {{by}} NOT LIKE '%/%/%' AND {{at_micros}} > {{server_micros}} - {} \
             ORDER BY {{at}} DESC LIMIT 1",
            self.select,
            self.readable,
            35_i64 * 86_400 * 1_000_000
        );
        let fields = &[Field::Name, Field::Owner];
        Statement::new(self.placeholders, &pieces.expand(&text), fields)
    }

    /// Returns one row with the time of the last acquisition.
    pub(crate) fn last_use(&self, options: &Options, shape: &Shape) -> Statement {
        let pieces = Pieces::of_step(self, options, shape, Step::Read);
        let text = format!("{} MAX({{at_micros}}) FROM {{table}}", self.select);
        Statement::new(self.placeholders, &pieces.expand(&text), &[Field::LockedAt])
    }

    /// Returns some of the names that are in both tables.
    pub(crate) fn names_in_both(&self, tables: [(&Options, &Shape); 2]) -> Statement {
        let [own, other] = tables.map(|(options, shape)| Pieces::of_shape(self, options, shape));
        let others = format!("SELECT {} FROM {{table}}", self.comparable);
        let text = format!(
            "SELECT {} FROM {{table}} WHERE {} IN ({}) ORDER BY {{name}} LIMIT 6",
            self.readable,
            self.comparable,
            other.expand(&others)
        );
        Statement::new(self.placeholders, &own.expand(&text), &[Field::Name])
    }

    /// Statements that need the same rights and the same server as those of a lock, and change nothing.
    pub(crate) fn rehearsals(&self, options: &Options, shape: &Shape) -> [Statement; 2] {
        let ours: &[&str] = if shape.is_complete { &COLUMNS } else { &[] };
        let columns = [&["{name}", "{until}", "{at}", "{by}"], ours].concat();
        let same: Vec<_> = columns[1..]
            .iter()
            .map(|it| format!("{it} = {it}"))
            .collect();
        let (columns, same) = (columns.join(", "), same.join(", "));
        let insert = format!(
            "INSERT INTO {{table}} ({columns}) SELECT {columns} FROM {{table}} WHERE 1 = 0"
        );
        let update = format!("UPDATE {{table}} SET {same} WHERE 1 = 0");
        let pieces = Pieces::of_shape(self, options, shape);
        [insert, update].map(|text| Statement::new(self.placeholders, &pieces.expand(&text), &[]))
    }

    pub(crate) fn statements(&self, options: &Options, shape: &Shape) -> Statements {
        let steps = Step::ALL.into_iter();
        let possible = steps.filter(|step| shape.is_complete || !step.is_about_slots());
        let statements = possible.filter_map(|step| {
            let pieces = Pieces::of_step(self, options, shape, step);
            let template = pieces.expand(pieces.get(step.word())?);
            let fields = step.fields(options.time.is_client(), self.returns_rows);
            let mut statement = Statement::new(self.placeholders, &template, fields);
            statement.prepared = options.prepares();
            statement.names_schema = shape.schema.is_some();
            Some((step, statement))
        });
        Statements(statements.collect())
    }
}

#[cfg(test)]
mod tests;

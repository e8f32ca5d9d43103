//! The provider over PostgreSQL.
//!
//! diesel-async sends statements in the extended protocol, each in a request of its own, and returns no rows of a text in
//! the simple protocol. So the proof that a statement is in no transaction but its own is a text before it, which fails in
//! a transaction. It is sent together with the statement, not awaited first. Where it fails:
//!
//! - It aborts the transaction that the application has left open, so the server refuses the statement. If the statement
//!   had come first, it would be undone, because nothing of a transaction that was aborted is ever committed.
//! - Nothing can come between the two: the connection is lent to this call alone, and what the application had sent
//!   before, also a `BEGIN` that it did not wait for, the server has executed before.
//! - If the session has a temporary table of the same name, the statement has changed that table, which ends with the
//!   session.
//!
//! In the simple protocol, `now()` is `statement_timestamp()`, unless a transaction was open before.

use diesel::pg::{Pg, PgValue};
use diesel::result::{DatabaseErrorKind, Error};
use diesel::row::{Field as _, Row};
use diesel::sql_types::Untyped;
use diesel::{QueryResult, deserialize};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection};
use futures_util::future::join;
use shedlock_provider::StoreProvider;
use shedlock_sql::SqlStore;
use shedlock_sql::driver::postgres::{self, POSTGRES};
use shedlock_sql::driver::{Class, Dialect, Failure, How, Proof, Reply, Statement, Values};

use crate::driver::{Database, DieselAsync};
use crate::failure::{Report, failed, report, unreported};
use crate::query::{Cell, Cells, run};

/// Stores locks in a table of PostgreSQL through connections of diesel-async. Statements, guarantees and tables are those
/// of the providers over other clients.
///
/// `builder` takes any [`ConnectionSource`](crate::ConnectionSource): diesel-async's pools of deadpool, bb8 or mobc, or
/// your own in a few lines.
pub type PostgresProvider = StoreProvider<SqlStore<DieselAsync<AsyncPgConnection>>>;

impl postgres::Postgres for DieselAsync<AsyncPgConnection> {}

impl Database for AsyncPgConnection {
    const STORE: &'static str = "postgres";

    const DIALECT: &'static Dialect = &POSTGRES;

    fn classify(report: &Report<'_>) -> Option<Class> {
        let code = code(report)?;
        Some(postgres::classify(code, report.message, report.constraint))
    }

    fn at_login(report: &Report<'_>) -> Option<Class> {
        postgres::at_login(code(report)?, report.message)
    }

    async fn answer<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: &'a Values<'a>,
        how: How<'a>,
    ) -> Result<Reply, Failure> {
        let guard = match how {
            How::Alone(proof) => Some(guard(proof)),
            How::Prepared | How::Plain => None,
        };
        let (alone, reply) = {
            let mut connection = &*self;
            let alone = passes(&*self, guard.as_deref());
            join(alone, run(&mut connection, statement, values)).await
        };
        match (alone, reply) {
            (Ok(()), Ok(reply)) => Ok(reply),
            (Ok(()), Err(error)) => Err(failure(self, error).await),
            (Err(error), reply) => match (reason(&error), reply) {
                (Some(reason), _) => Err(Failure::new(Class::Inside, reason)),
                // Whether the statement counts is not known.
                (None, Ok(_)) => Err(failed(Class::ReplyLost, error)),
                (None, Err(error)) => Err(failure(self, error).await),
            },
        }
    }
}

async fn passes(mut connection: &AsyncPgConnection, guard: Option<&str>) -> QueryResult<()> {
    match guard {
        Some(guard) => connection.batch_execute(guard).await,
        None => Ok(()),
    }
}

/// What the guard's error contains before the reason why the statement does not count.
const NOT_ALONE: &str = "not alone: ";

/// A text that fails if the proof does. It converts the reason to a number, so that the error contains it in every
/// language that the server may write its messages in.
fn guard(proof: &Proof) -> String {
    let proof = proof.after().trim_start_matches("; ");
    format!("SELECT CAST('{NOT_ALONE}' || NULLIF(({proof}), '') AS integer)")
}

/// Why the statement does not count.
fn reason(error: &Error) -> Option<String> {
    let report = report(error)?;
    if let Some((_, reason)) = report.message.split_once(NOT_ALONE) {
        let is_quote = |sign: char| !sign.is_alphanumeric();
        return Some(reason.trim_end_matches(is_quote).to_owned());
    }
    let is_inside = AsyncPgConnection::classify(&report) == Some(Class::Inside);
    is_inside.then(|| report.message.to_owned())
}

/// A failure of a statement. If its error is none of those that matter, the session shows whether the server has gone on:
/// then nothing was written.
async fn failure(connection: &mut AsyncPgConnection, error: Error) -> Failure {
    let class = match report(&error) {
        None => unreported(&error),
        Some(report) => match AsyncPgConnection::classify(&report) {
            Some(class) => class,
            None if connection.batch_execute("SELECT 1").await.is_ok() => Class::Other,
            None => Class::ReplyLost,
        },
    };
    failed(class, error)
}

/// The server's code for an error.
fn code(report: &Report<'_>) -> Option<&'static str> {
    Some(match report.kind {
        Some(DatabaseErrorKind::UniqueViolation) => "23505",
        Some(DatabaseErrorKind::ForeignKeyViolation) => "23503",
        Some(DatabaseErrorKind::NotNullViolation) => "23502",
        Some(DatabaseErrorKind::CheckViolation) => "23514",
        Some(DatabaseErrorKind::RestrictViolation) => "23001",
        Some(DatabaseErrorKind::ExclusionViolation) => "23P01",
        Some(DatabaseErrorKind::SerializationFailure) => "40001",
        Some(DatabaseErrorKind::ReadOnlyTransaction) => "25006",
        _ => {
            let is_code = |(_, texts): &&(_, &[&str])| {
                let mut texts = texts.iter();
                texts.any(|text| report.message.contains(text))
            };
            CODES.iter().find(is_code)?.0
        }
    })
}

/// Codes of the server, or of PgBouncer, each with texts of its messages.
const CODES: &[(&str, &[&str])] = &[
    ("22P02", &["the attempt came after its not-after: "]),
    (
        "08P01",
        &[
            "startup parameter",
            "no more connections allowed",
            "query_wait_timeout",
            "no such database",
            "no such user",
            "login rejected",
            "SASL authentication failed",
            "\"trust\" authentication failed",
            "server_login_retry",
            "client_login_timeout",
            "pgbouncer cannot connect to server",
        ],
    ),
    ("28P01", &["password authentication failed"]),
    ("28000", &["pg_hba.conf", "is not permitted to log in"]),
    (
        "26000",
        &["prepared statement \"", "unnamed prepared statement"],
    ),
    ("25P02", &["current transaction is aborted"]),
    ("40P01", &["deadlock detected"]),
    (
        "55P03",
        &["due to lock timeout", "could not obtain lock on"],
    ),
    (
        "57014",
        &[
            "due to statement timeout",
            "due to user request",
            "due to transaction timeout",
        ],
    ),
    ("57P03", &["the database system is "]),
    (
        "53300",
        &[
            "too many clients already",
            "too many connections for",
            "remaining connection slots",
        ],
    ),
    (
        "57P01",
        &[
            "terminating connection",
            "terminating walsender",
            "server closed the connection",
        ],
    ),
    (
        "42501",
        &[
            "permission denied",
            "must be owner of",
            "row-level security",
        ],
    ),
    ("22001", &["value too long for type"]),
    ("22008", &["out of range"]),
    ("53100", &["No space left on device"]),
    ("53200", &["out of memory"]),
    ("42P07", &["already exists"]),
    (
        "0A000",
        &["cached plan must not change", "command-line options"],
    ),
    ("3D000", &["database \""]),
    ("28000", &["role \""]),
    ("42P01", &["does not exist"]),
    ("42804", &["is of type ", "cannot be matched"]),
];

impl deserialize::FromSqlRow<Untyped, Pg> for Cells {
    fn build_from_row<'a>(row: &impl Row<'a, Pg>) -> deserialize::Result<Self> {
        let cell = |index| {
            row.get(index)
                .map_or(Cell::Other, |field| cell(field.value()))
        };
        Ok(Self((0..row.field_count()).map(cell).collect()))
    }
}

/// The type `bigint`.
const BIGINT: u32 = 20;

/// Texts arrive as they are, whatever their type is called.
fn cell(value: Option<PgValue<'_>>) -> Cell {
    let Some(value) = value else {
        return Cell::Null;
    };
    let bytes = value.as_bytes();
    if value.get_oid().get() == BIGINT {
        let number = bytes.try_into().map(i64::from_be_bytes);
        return number.map_or(Cell::Other, Cell::Number);
    }
    let text = std::str::from_utf8(bytes);
    text.map_or(Cell::Other, |text| Cell::Text(text.to_owned()))
}

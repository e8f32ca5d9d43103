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

use diesel::deserialize;
use diesel::pg::{Pg, PgValue};
use diesel::result::{DatabaseErrorKind, Error};
use diesel::row::{Field as _, Row};
use diesel::sql_types::Untyped;
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
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
        let mut connection = &*self;
        let How::Alone(proof) = how else {
            let reply = run(&mut connection, statement, values).await;
            return reply.map_err(failure);
        };
        let (guard, mut before) = (guard(proof), &*self);
        let alone = before.batch_execute(&guard);
        let (alone, reply) = join(alone, run(&mut connection, statement, values)).await;
        match (alone, reply) {
            (Ok(()), Ok(reply)) => Ok(reply),
            (Ok(()), Err(error)) => Err(failure(error)),
            (Err(error), reply) => match (reason(&error), reply) {
                (Some(reason), _) => Err(Failure::new(Class::Inside, reason)),
                // Whether the statement counts is not known.
                (None, Ok(_)) => Err(failed(Class::ReplyLost, error)),
                (None, Err(error)) => Err(failure(error)),
            },
        }
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

/// A failure of a statement. Where the message is none of those that matter (the server may write them in another
/// language, and poolers have their own), the statement may have taken effect.
fn failure(error: Error) -> Failure {
    let class = match report(&error) {
        None => unreported(&error),
        Some(report) => AsyncPgConnection::classify(&report).unwrap_or(Class::Failed),
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
            let is_text = |text: &str| report.message.contains(text);
            CODES.lines().find_map(|line| {
                let (code, texts) = line.split_once(": ")?;
                texts.split('|').any(is_text).then_some(code)
            })?
        }
    })
}

/// Codes of the server, or of PgBouncer, each with texts of its messages. The first one that fits counts. What fits none
/// but the last two is about tables, columns, schemas and functions.
const CODES: &str = r#"
22P02: invalid input syntax
26000: prepared statement "
25P02: current transaction is aborted
40P01: deadlock detected
55P03: due to lock timeout|could not obtain lock on
57014: canceling statement due to
42501: permission denied|must be owner of|row-level security
57P03: the database system is|not yet accepting connections
57P01: terminating connection
53300: too many clients already|too many connections for|remaining connection slots
53100: No space left on device
53200: out of memory
22001: value too long for type
22003: integer out of range|bigint out of range
22008: out of range
22021: invalid byte sequence for encoding|has no equivalent in encoding
42601: syntax error at
42804: but expression is of type
0A000: cached plan must not change|command-line options
28P01: password authentication failed
28000: pg_hba.conf|is not permitted to log in|client certificate
08P01: startup parameter|no more connections allowed|query_wait_timeout|no such database
08P01: no such user|login rejected|authentication failed|server_login_retry
08P01: client_login_timeout|pgbouncer cannot connect to server
3D000: database "
28000: role "
42P07: already exists
42P01: does not exist"#;

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

#[cfg(test)]
mod tests {
    use shedlock_sql::driver::Refusal;

    use super::*;

    fn unknown(message: &str) -> Report<'_> {
        Report {
            kind: Some(DatabaseErrorKind::Unknown),
            message,
            constraint: None,
        }
    }

    fn error(message: &str) -> Error {
        Error::DatabaseError(DatabaseErrorKind::Unknown, Box::new(message.to_owned()))
    }

    /// The quotation marks are those of the server's language.
    #[test]
    fn the_reason_of_the_guard_is_read_in_every_language() {
        for message in [
            "invalid input syntax for type integer: \"not alone: it is in a transaction\"",
            "ungültige Eingabesyntax für Typ integer: »not alone: it is in a transaction«",
        ] {
            let reason = reason(&error(message));
            assert_eq!(
                reason.as_deref(),
                Some("it is in a transaction"),
                "{message}"
            );
        }
        let aborted =
            "current transaction is aborted, commands ignored until end of transaction block";
        assert_eq!(reason(&error(aborted)).as_deref(), Some(aborted));
        assert_eq!(reason(&error("deadlock detected")), None);
    }

    #[test]
    fn messages_are_classified_as_their_codes() {
        for (message, class) in [
            (
                "invalid input syntax for type bigint: \"the attempt came after its not-after: job\"",
                Class::Held,
            ),
            ("relation \"shedlock\" does not exist", Class::Shape),
            (
                "column \"locked_by\" of relation \"shedlock\" does not exist",
                Class::Shape,
            ),
            ("cached plan must not change result type", Class::Shape),
            ("relation \"shedlock\" already exists", Class::Exists),
            ("prepared statement \"s7\" does not exist", Class::Prepared),
            ("prepared statement \"s7\" already exists", Class::Prepared),
            ("canceling statement due to lock timeout", Class::Waited),
            ("canceling statement due to user request", Class::Waited),
            ("deadlock detected", Class::Contention),
            ("permission denied for table shedlock", Class::Privilege),
            (
                "terminating connection due to administrator command",
                Class::ReplyLost,
            ),
            ("the database system is shutting down", Class::Busy),
            ("timestamp out of range", Class::OutOfRange),
            ("bigint out of range", Class::Other),
        ] {
            let found = AsyncPgConnection::classify(&unknown(message));
            assert_eq!(found, Some(class), "{message}");
        }
    }

    /// Another copy of a claim may only follow a reply that proves that nothing was executed.
    #[test]
    fn after_an_error_in_other_words_the_statement_may_have_taken_effect() {
        let denied = error("keine Berechtigung für Tabelle shedlock");
        assert_eq!(failure(denied).class, Class::Failed);
        let kind = DatabaseErrorKind::UnableToSendCommand;
        let closed = Error::DatabaseError(kind, Box::new("connection closed".to_owned()));
        assert_eq!(failure(closed).class, Class::ReplyLost);
    }

    #[test]
    fn a_rejected_connection_is_not_tried_again() {
        for (message, refusal) in [
            (
                "password authentication failed for user \"a\"",
                Refusal::Login,
            ),
            ("role \"a\" does not exist", Refusal::Login),
            ("database \"b\" does not exist", Refusal::Database),
            ("no such database: b", Refusal::Database),
            (
                "no pg_hba.conf entry for host \"::1\", user \"a\", database \"b\"",
                Refusal::Other,
            ),
        ] {
            let class = AsyncPgConnection::at_login(&unknown(message));
            assert_eq!(class, Some(Class::Refused(refusal)), "{message}");
        }
        let full = AsyncPgConnection::at_login(&unknown("sorry, too many clients already"));
        assert_eq!(full, Some(Class::NotSent));
    }
}

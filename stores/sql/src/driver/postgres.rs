//! PostgreSQL over sqlx.

use sqlx::Postgres;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgQueryResult, PgSslMode};

use super::{Backend, Class};
use crate::dialect::postgres::TOO_LATE;
use crate::dialect::{self, Dialect};

impl Backend for Postgres {
    const STORE: &'static str = "postgres";

    fn dialect() -> &'static dyn Dialect {
        &dialect::postgres::Postgres
    }

    fn classify(error: &dyn DatabaseError) -> Class {
        let code = error.code().unwrap_or_default();
        let constraint = || error.constraint().map(str::to_owned);
        match &*code {
            // Undefined table, column, schema; wrong type; a prepared plan that no longer fits.
            "42P01" | "42703" | "3F000" | "42804" | "42883" | "0A000" => Class::Shape,
            "42501" => Class::Privilege,
            "25006" => Class::ReadOnly,
            // Serialization failure, deadlock.
            "40001" | "40P01" => Class::Contention,
            // The time for a row lock, or for the statement, is over.
            "55P03" | "57014" => Class::Waited,
            "53300" | "57P03" | "53400" => Class::Busy,
            // The server shut down or dropped us: how far the statement came is not known.
            "57P01" | "57P02" | "57P05" => Class::ReplyLost,
            "22P02" if error.message().contains(TOO_LATE) => Class::Held,
            "22001" => Class::TooLong,
            "22008" => Class::OutOfRange,
            "42P07" | "42701" | "42710" => Class::Exists,
            // No such prepared statement, or one of this name already; a transaction that was
            // left open has failed.
            "26000" | "42P05" | "25P02" => Class::Prepared,
            // Two that make the table at once meet in the catalogue. The lock's own key never
            // comes here: an insert that meets it does nothing.
            "23505"
                if error
                    .constraint()
                    .is_some_and(|name| name.starts_with("pg_")) =>
            {
                Class::Exists
            }
            code if code.starts_with("23") => Class::Constraint(constraint()),
            code if code.starts_with("53") => Class::Busy,
            code if code.starts_with("08") => Class::ReplyLost,
            _ => Class::Other,
        }
    }

    fn unverified(options: &PgConnectOptions) -> Option<String> {
        let (host, mode) = (options.get_host(), options.get_ssl_mode());
        let is_verified = matches!(mode, PgSslMode::VerifyCa | PgSslMode::VerifyFull);
        if is_verified || options.get_socket().is_some() || shedlock_core::is_this_machine(host) {
            return None;
        }
        Some(format!(
            "connections to {host} do not verify the server (sslmode is {mode:?}): whoever can \
             intercept them can answer in its place; set sslmode=verify-full, with sslrootcert for a \
             certificate authority of your own"
        ))
    }

    /// The form with `E` is right whatever `standard_conforming_strings` is set to.
    fn quote(text: &str) -> String {
        let doubled = text.replace('\'', "''");
        if doubled.contains('\\') {
            format!("E'{}'", doubled.replace('\\', "\\\\"))
        } else {
            format!("'{doubled}'")
        }
    }

    /// Unless somebody has set another limit: no attempt waits long for a transaction that keeps
    /// its row locked, and a statement whose sender has gone does not go on waiting, to win the
    /// lock for nobody.
    fn greeting() -> Option<&'static str> {
        Some(
            "SELECT set_config('lock_timeout', '5s', false) \
             WHERE current_setting('lock_timeout') = '0'",
        )
    }

    fn affected(result: &PgQueryResult) -> u64 {
        result.rows_affected()
    }

    super::execution!(Postgres);
}

super::values!(Postgres);

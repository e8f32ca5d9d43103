//! PostgreSQL over sqlx.

use sqlx::Postgres;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::dialect::postgres::errors;
use crate::dialect::{self, Dialect};
use crate::driver::{Class, Driver};

impl Driver for Postgres {
    const STORE: &'static str = "postgres";

    const DIALECT: &'static Dialect = &dialect::postgres::POSTGRES;

    fn unverified(options: &PgConnectOptions) -> Option<String> {
        let (host, socket) = (options.get_host(), options.get_socket());
        let mode = match options.get_ssl_mode() {
            PgSslMode::VerifyCa | PgSslMode::VerifyFull => return None,
            mode => format!("sslmode is {mode:?}"),
        };
        let socket = socket.map(|socket| &**socket);
        super::unverified(host, socket, &mode, "sslmode=verify-full", "sslrootcert")
    }

    super::execution!(Postgres, |_| None);
}

fn classify(error: &dyn DatabaseError) -> Class {
    let code = error.code().unwrap_or_default();
    errors::classify(&code, error.message(), error.constraint())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::error::Error as StdError;
    use std::fmt;

    use sqlx::error::{DatabaseError, ErrorKind};

    use super::*;

    /// What a server says.
    #[derive(Debug)]
    struct Told(&'static str);

    impl fmt::Display for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Told {}

    impl DatabaseError for Told {
        fn message(&self) -> &str {
            self.0
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    fn connecting(code: &'static str) -> Class {
        let told = sqlx::Error::Database(Box::new(Told(code)));
        <sqlx::Postgres as crate::driver::Driver>::connecting(told).class
    }

    #[test]
    fn a_server_that_ends_while_it_lets_us_in_is_asked_again() {
        // Shut down, crashed, dropped while idle, starting, without connections to spare.
        for code in ["57P01", "57P02", "57P05", "57P03", "53300"] {
            assert_eq!(connecting(code), Class::NotSent, "{code}");
        }
        // No such user, wrong password, no such database.
        for code in ["28000", "28P01", "3D000"] {
            assert_eq!(connecting(code), Class::Refused, "{code}");
        }
    }
}

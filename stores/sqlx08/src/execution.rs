// A copy of stores/sqlx/src/execution.rs, made by `cargo xtask sqlx08 --update`.
//! sqlx, for each of its databases.

use std::io;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::path::Path;

#[cfg(any(feature = "postgres", feature = "mysql"))]
use shedlock_provider::Host;
use shedlock_provider::untrusted;
use sqlx::Error;
use sqlx::error::DatabaseError;

use shedlock_sql::driver::{Class, Failure, Refusal};

use crate::client;

type Classify = fn(&dyn DatabaseError) -> Class;

/// What an error of the server means while a connection is opened, if that differs from its meaning for a statement.
type AtLogin = fn(&dyn DatabaseError) -> Option<Class>;

/// A part of sqlx's error for a connection that requires TLS in a program without it. Whether the program has TLS is
/// visible only there, because another crate may have enabled it.
const WITHOUT_TLS: &str = "built without TLS support";

/// Classifies an error that occurred while a connection was being acquired: nothing was sent.
pub(crate) fn connecting(error: Error, classify: Classify, at_login: AtLogin) -> Failure {
    match &error {
        Error::Io(_) | Error::Tls(_) if untrusted(&error).is_some() => {
            Failure::new(Class::Untrusted, error)
        }
        Error::Tls(cause) if cause.to_string().contains(WITHOUT_TLS) => {
            Failure::new(Class::WithoutTls(client::CRATE), error)
        }
        Error::Tls(_) => Failure::new(Class::Refused(Refusal::Tls), error),
        Error::Configuration(_) => Failure::new(Class::Refused(Refusal::Other), error),
        Error::Database(reported) => {
            let special = at_login(&**reported);
            running(error, classify).while_connecting(special)
        }
        Error::Protocol(_) => Failure::new(Class::OtherProtocol, error),
        Error::Io(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
            Failure::new(Class::OtherProtocol, error)
        }
        Error::Io(_) => Failure::new(Class::Unreachable, error),
        Error::PoolClosed => Failure::new(Class::Closed, error),
        _ => Failure::new(Class::NotSent, error),
    }
}

/// An IPv6 address without the brackets that it has in a URL. sqlx leaves them, and then finds no such host.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn without_brackets(host: &str) -> Option<String> {
    let address = host.strip_prefix('[')?.strip_suffix(']')?;
    Some(address.to_owned())
}

/// The address of a server: its socket, or its host, port and database.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn address(
    host: &str,
    port: u16,
    socket: Option<&Path>,
    database: Option<&str>,
) -> Option<String> {
    if let Some(socket) = socket.or_else(|| host.starts_with('/').then_some(Path::new(host))) {
        return Some(socket.display().to_string());
    }
    let host = Host {
        name: host.to_owned(),
        port: Some(port),
    };
    let path = database.map_or_else(String::new, |database| format!("/{database}"));
    Some(format!("{}{path}", host.with_port(port)))
}

/// A warning if connections to this host leave this machine without verifying the server.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn unverified(host: &str, is_socket: bool, mode: &str, remedy: &str) -> Option<String> {
    if is_socket || shedlock_core::is_this_machine(host) {
        return None;
    }
    Some(format!(
        "connections to {host} do not verify the server ({mode}): an attacker on the network can \
         impersonate it (to verify it, set {remedy} for your own certificate authority)"
    ))
}

/// Classifies an error that occurred while a statement was running.
pub(crate) fn running(error: Error, classify: Classify) -> Failure {
    let class = match &error {
        Error::Database(error) => classify(&**error),
        Error::ColumnDecode { .. } | Error::Decode(_) => Class::Foreign,
        Error::Encode(_) | Error::InvalidArgument(_) => Class::Other,
        // I/O, protocol, a crashed worker: how far the statement got is unknown.
        _ => Class::ReplyLost,
    };
    let said = error
        .as_database_error()
        .map(|error| error.message().to_owned());
    Failure::new(class, error).said(said)
}

/// The methods of [`Driver`](shedlock_sql::driver::Driver) that are alike for all of sqlx's databases. It is a macro because sqlx's
/// own trait bounds do not carry over to generic code. `$last_insert_id` returns the reply's last insert ID.
macro_rules! execution {
    ($database:ty, $last_insert_id:expr) => {
        type Pool = sqlx::Pool<$database>;
        type Connection = <$database as sqlx::Database>::Connection;
        type Options = <Self::Connection as sqlx::Connection>::Options;
        type Pooled = sqlx::pool::PoolConnection<$database>;

        fn unverified_pool(pool: &Self::Pool) -> Option<String> {
            Self::unverified(&pool.connect_options())
        }

        async fn connect(
            options: &Self::Options,
        ) -> Result<Self::Connection, shedlock_sql::driver::Failure> {
            let connected = sqlx::ConnectOptions::connect(options).await;
            connected.map_err(|error| $crate::execution::connecting(error, classify, at_login))
        }

        async fn ping(connection: &mut Self::Connection) -> bool {
            sqlx::Connection::ping(connection).await.is_ok()
        }

        async fn close(connection: Self::Connection) {
            // A session that cannot be closed cleanly has ended anyway.
            let _ = sqlx::Connection::close(connection).await;
        }

        async fn acquire(pool: &Self::Pool) -> Result<Self::Pooled, shedlock_sql::driver::Failure> {
            let acquired = pool.acquire().await;
            acquired.map_err(|error| $crate::execution::connecting(error, classify, at_login))
        }

        fn discard(pooled: &mut Self::Pooled) {
            pooled.close_on_drop();
        }

        fn fill(pool: &Self::Pool) -> Option<shedlock_sql::driver::Fill> {
            Some(shedlock_sql::driver::Fill {
                open: pool.size(),
                idle: u32::try_from(pool.num_idle()).unwrap_or(u32::MAX),
                most: pool.options().get_max_connections(),
            })
        }

        fn spare(pool: &Self::Pool) -> Option<u32> {
            let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
            let lent = pool.size().saturating_sub(idle);
            let most = pool.options().get_max_connections();
            (!Self::DIALECT.has_one_writer()).then(|| most.saturating_sub(lent))
        }

        async fn run<'a>(
            connection: &'a mut Self::Connection,
            statement: &'a shedlock_sql::driver::Statement,
            values: &'a shedlock_sql::driver::Values<'a>,
            how: shedlock_sql::driver::How<'a>,
        ) -> Result<shedlock_sql::driver::Reply, shedlock_sql::driver::Failure> {
            use futures_util::TryStreamExt as _;
            use sqlx::{Executor as _, Row as _};
            let mut reply = shedlock_sql::driver::Reply::default();
            let (is_prepared, before, after) = match how {
                shedlock_sql::driver::How::Prepared => (true, "", ""),
                shedlock_sql::driver::How::Plain => (false, "", ""),
                shedlock_sql::driver::How::Alone(proof) => (false, proof.before(), proof.after()),
            };
            let plain;
            let results = if is_prepared {
                let mut query = sqlx::query($crate::client::prepared(statement));
                for value in statement.bound(values) {
                    query = match value {
                        shedlock_sql::driver::Value::Text(text) => query.bind(text),
                        shedlock_sql::driver::Value::Integer(integer) => query.bind(integer),
                    };
                }
                connection.fetch_many(query)
            } else {
                let text = statement.inlined(values, Self::DIALECT);
                plain = format!("{before}{text}{after}");
                sqlx::raw_sql($crate::client::plain(&plain)).fetch_many(connection)
            };
            let mut results = results.map_err(|error| $crate::execution::running(error, classify));
            let mut replies = Vec::new();
            let mut rows = Vec::new();
            while let Some(result) = results.try_next().await? {
                match result {
                    sqlx::Either::Left(done) => replies.push((std::mem::take(&mut rows), done)),
                    sqlx::Either::Right(row) => rows.push(row),
                }
            }
            if !after.is_empty() {
                let proof = replies.pop().and_then(|(rows, _)| rows.into_iter().next());
                let said: Option<String> = proof.and_then(|row| row.try_get(0).ok());
                shedlock_sql::driver::check_proof(said.as_deref())?;
            }
            for (rows, done) in replies {
                // If a text contains several statements, the last one counts. For each statement that only reads,
                // SQLite repeats the number of the previous one.
                reply.affected = done.rows_affected();
                reply.last_insert_id = $last_insert_id(&done);
                for row in rows {
                    let text = |index| row.try_get(index);
                    reply.add(statement, text, |index| row.try_get(index));
                }
            }
            Ok(reply)
        }
    };
}

pub(crate) use execution;

#[cfg(all(test, feature = "postgres", feature = "mysql"))]
mod tests {
    use shedlock_sql::driver::Driver as _;
    use sqlx::mysql::MySqlConnectOptions;
    use sqlx::postgres::PgConnectOptions;

    use crate::{MySql, Postgres};

    fn postgres(url: &str) -> Option<String> {
        let options: PgConnectOptions = url.parse().expect("a URL");
        Postgres::unverified(&options)
    }

    fn mysql(url: &str) -> Option<String> {
        let options: MySqlConnectOptions = url.parse().expect("a URL");
        MySql::unverified(&options)
    }

    #[test]
    fn a_remote_server_that_is_not_verified_brings_a_warning() {
        for url in [
            "postgres://db/app",
            "postgres://10.0.0.7/app?sslmode=require",
        ] {
            let warning = postgres(url).expect("it is not verified");
            assert!(warning.contains("sslmode=verify-full"), "{warning}");
        }
        let warning = postgres("postgres://db/app?sslmode=require").expect("it is not verified");
        assert!(warning.contains("(sslmode=require)"), "{warning}");
        for url in ["mysql://db/app", "mysql://[fd00::7]/app?ssl-mode=REQUIRED"] {
            let warning = mysql(url).expect("it is not verified");
            assert!(warning.contains("ssl-mode=VERIFY_IDENTITY"), "{warning}");
        }
    }

    #[test]
    fn a_verified_server_and_this_machine_bring_none() {
        for url in [
            "postgres://db/app?sslmode=verify-full",
            "postgres://db/app?sslmode=verify-ca",
            "postgres://localhost/app",
            "postgres://127.0.0.1/app",
            "postgres://[::1]/app",
            "postgres://%2Fvar%2Frun%2Fpostgresql/app",
        ] {
            assert_eq!(postgres(url), None, "{url}");
        }
        for url in [
            "mysql://db/app?ssl-mode=VERIFY_IDENTITY",
            "mysql://db/app?ssl-mode=VERIFY_CA",
            "mysql://localhost/app",
            "mysql://db/app?socket=/run/mysqld.sock",
        ] {
            assert_eq!(mysql(url), None, "{url}");
        }
    }
}

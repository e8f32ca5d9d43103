//! Execution over sqlx: the only place that talks to a database.

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

mod connections;
mod failure;

use std::future::Future;

pub(crate) use connections::{Connections, Wanted};
pub(crate) use failure::{Class, Failure};
use sqlx::Database;

use crate::dialect::Dialect;
use crate::shape::Column;
use crate::statement::{Reply, Statement, Values};

/// What differs between sqlx's drivers. The methods that run statements are alike in all of them
/// and are written by [`execution!`], since sqlx's own bounds do not carry over to generic code.
pub(crate) trait Backend: Database {
    /// The store's name in messages.
    const STORE: &'static str;

    /// Its statements.
    fn dialect() -> &'static dyn Dialect;

    /// What an error that the server sent means.
    fn classify(error: &dyn sqlx::error::DatabaseError) -> Class;

    /// A text as a literal of this dialect.
    fn quote(text: &str) -> String;

    /// A warning where connections with these options do not check who answers them, and leave this
    /// machine.
    fn unverified(options: &<Self::Connection as sqlx::Connection>::Options) -> Option<String> {
        let _ = options;
        None
    }

    /// How many rows a statement changed.
    fn affected(result: &Self::QueryResult) -> u64;

    /// What `LAST_INSERT_ID(…)` was set to, where there is such a thing.
    fn last_insert_id(result: &Self::QueryResult) -> Option<u64> {
        let _ = result;
        None
    }

    /// What a new connection of ours is told first; nothing unless there is something to say.
    fn greeting() -> Option<&'static str> {
        None
    }

    /// Says it.
    fn greet(
        connection: &mut Self::Connection,
        greeting: &'static str,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Runs a statement to the end of its answer.
    fn run<'a>(
        connection: &'a mut Self::Connection,
        statement: &'a Statement,
        values: &'a Values<'a>,
        prepared: bool,
    ) -> impl Future<Output = Result<Reply, sqlx::Error>> + Send + 'a;

    /// Runs a probe.
    fn columns<'a>(
        connection: &'a mut Self::Connection,
        statement: &'a Statement,
        prepared: bool,
    ) -> impl Future<Output = Result<Vec<Column>, sqlx::Error>> + Send + 'a;

    /// Runs a statement that changes the schema: no values, no rows, never prepared.
    fn define<'a>(
        connection: &'a mut Self::Connection,
        statement: &'a Statement,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send + 'a;
}

/// The methods of [`Backend`] that run statements, for one of sqlx's databases.
macro_rules! execution {
    ($database:ty) => {
        async fn greet(
            connection: &mut Self::Connection,
            greeting: &'static str,
        ) -> Result<(), sqlx::Error> {
            sqlx::raw_sql(greeting).execute(connection).await.map(drop)
        }

        async fn run<'a>(
            connection: &'a mut Self::Connection,
            statement: &'a $crate::statement::Statement,
            values: &'a $crate::statement::Values<'a>,
            prepared: bool,
        ) -> Result<$crate::statement::Reply, sqlx::Error> {
            use futures_util::TryStreamExt as _;
            use sqlx::Executor as _;
            let mut reply = $crate::statement::Reply::default();
            let mut results = if prepared {
                connection.fetch_many(bound(statement, values))
            } else {
                let text = statement.inlined(values, <$database as Backend>::quote);
                sqlx::raw_sql(text).fetch_many(connection)
            };
            while let Some(result) = results.try_next().await? {
                match result {
                    sqlx::Either::Left(done) => {
                        // Of several statements in one text the last one counts; SQLite repeats the
                        // number of the one before for each that only reads.
                        reply.affected = <$database as Backend>::affected(&done);
                        reply.last_insert_id = <$database as Backend>::last_insert_id(&done);
                    }
                    sqlx::Either::Right(row) => match decode(&row, statement.fields()) {
                        Ok(row) => reply.rows.push(row),
                        Err(error) => {
                            use sqlx::Row as _;
                            reply.unreadable.push((row.try_get(0).ok(), error));
                        }
                    },
                }
            }
            Ok(reply)
        }

        async fn columns<'a>(
            connection: &'a mut Self::Connection,
            statement: &'a $crate::statement::Statement,
            prepared: bool,
        ) -> Result<Vec<$crate::shape::Column>, sqlx::Error> {
            use sqlx::Row as _;
            let rows = if prepared {
                sqlx::query(statement.sql()).fetch_all(connection).await?
            } else {
                sqlx::raw_sql(statement.sql()).fetch_all(connection).await?
            };
            rows.iter()
                .map(|row| {
                    Ok($crate::shape::Column {
                        name: row.try_get(0)?,
                        type_name: row.try_get(1)?,
                        digits: row.try_get(2)?,
                        length: row.try_get(3)?,
                        collation: row.try_get(4)?,
                        unique: row.try_get::<i64, _>(5)? != 0,
                        required: row.try_get::<i64, _>(6)? != 0,
                        server: row.try_get(7)?,
                        server_time: row.try_get(8)?,
                    })
                })
                .collect()
        }

        async fn define<'a>(
            connection: &'a mut Self::Connection,
            statement: &'a $crate::statement::Statement,
        ) -> Result<(), sqlx::Error> {
            sqlx::raw_sql(statement.sql())
                .execute(connection)
                .await
                .map(drop)
        }
    };
}

/// The two functions that [`execution!`] needs beside it: binding and decoding.
macro_rules! values {
    ($database:ty) => {
        fn bound<'q>(
            statement: &$crate::statement::Statement,
            values: &$crate::statement::Values<'_>,
        ) -> sqlx::query::Query<'q, $database, <$database as sqlx::Database>::Arguments> {
            let mut query = sqlx::query(statement.sql());
            for bind in statement.binds() {
                query = match values.get(*bind) {
                    $crate::statement::Value::Text(text) => query.bind(text),
                    $crate::statement::Value::Integer(integer) => query.bind(integer),
                };
            }
            query
        }

        fn decode(
            row: &<$database as sqlx::Database>::Row,
            fields: &[$crate::statement::Field],
        ) -> Result<$crate::statement::Row, sqlx::Error> {
            use sqlx::Row as _;
            use $crate::statement::Field;
            let mut decoded = $crate::statement::Row::default();
            for (index, field) in fields.iter().enumerate() {
                match field {
                    Field::Name => decoded.name = row.try_get(index)?,
                    Field::Owner => decoded.owner = row.try_get(index)?,
                    Field::LockedAt => decoded.locked_at = row.try_get(index)?,
                    Field::LockUntil => decoded.lock_until = row.try_get(index)?,
                    Field::Token => decoded.token = row.try_get(index)?,
                    Field::Slot => decoded.slot = row.try_get(index)?,
                    Field::SlotDone => decoded.slot_done = row.try_get(index)?,
                    Field::SlotAttempts => decoded.slot_attempts = row.try_get(index)?,
                    Field::Now => decoded.now = row.try_get(index)?,
                    Field::ServerTime => decoded.server_time = row.try_get(index)?,
                }
            }
            Ok(decoded)
        }
    };
}

pub(crate) use {execution, values};

#[cfg(all(test, feature = "postgres", feature = "mysql"))]
mod tests {
    use sqlx::mysql::MySqlConnectOptions;
    use sqlx::postgres::PgConnectOptions;
    use sqlx::{MySql, Postgres};

    use super::*;

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

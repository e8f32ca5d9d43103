//! Bare statements on databases: the same for all, except for the names of parameters and the
//! storage of an instant.

use sqlx::types::time::{OffsetDateTime, PrimitiveDateTime};
use sqlx::{MySqlConnection, PgConnection, SqliteConnection};

use super::{Client, Values, Written};

/// An instant long ago that every column can hold.
const LONG_AGO: i64 = 1_000;

/// A statement with all fields of a taken lock, by name.
macro_rules! whole {
    ($text:expr, $instant:path, $values:expr) => {
        sqlx::query($text)
            .bind($instant($values.end_millis()))
            .bind($instant($values.millis()))
            .bind(&$values.owner)
            .bind($values.token())
            .bind($values.name)
    };
}

macro_rules! written {
    ($connection:expr, $query:expr) => {
        Box::pin(async move { Ok($query.execute($connection).await?.rows_affected() == 1) })
    };
}

macro_rules! client {
    ($connection:ty, $instant:path, $a:literal, $b:literal, $c:literal, $d:literal, $e:literal, $f:literal) => {
        impl Client for $connection {
            fn create<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
                const TEXT: &str = concat!(
                    "INSERT INTO shedlock (lock_until, locked_at, locked_by, \
                     shedlock_fencing_token, name) VALUES (",
                    $a,
                    ", ",
                    $b,
                    ", ",
                    $c,
                    ", ",
                    $d,
                    ", ",
                    $e,
                    ")"
                );
                written!(self, whole!(TEXT, $instant, values))
            }

            fn take<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
                const TEXT: &str = concat!(
                    "UPDATE shedlock SET lock_until = ",
                    $a,
                    ", locked_at = ",
                    $b,
                    ", locked_by = ",
                    $c,
                    ", shedlock_fencing_token = ",
                    $d,
                    " WHERE name = ",
                    $e
                );
                written!(self, whole!(TEXT, $instant, values))
            }

            fn free<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
                const TEXT: &str = concat!(
                    "UPDATE shedlock SET lock_until = ",
                    $a,
                    " WHERE name = ",
                    $b
                );
                let query = sqlx::query(TEXT).bind($instant(values.millis()));
                written!(self, query.bind(values.name))
            }

            fn miss<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
                const TEXT: &str = concat!(
                    "UPDATE shedlock SET lock_until = ",
                    $a,
                    ", locked_at = ",
                    $b,
                    ", locked_by = ",
                    $c,
                    ", shedlock_fencing_token = ",
                    $d,
                    " WHERE name = ",
                    $e,
                    " AND lock_until <= ",
                    $f
                );
                let query = whole!(TEXT, $instant, values);
                written!(self, query.bind($instant(LONG_AGO)))
            }
        }
    };
}

client!(PgConnection, wall, "$1", "$2", "$3", "$4", "$5", "$6");
client!(MySqlConnection, wall, "?", "?", "?", "?", "?", "?");
client!(SqliteConnection, number, "?", "?", "?", "?", "?", "?");

fn wall(millis: i64) -> PrimitiveDateTime {
    let instant =
        OffsetDateTime::UNIX_EPOCH + std::time::Duration::from_millis(millis.unsigned_abs());
    PrimitiveDateTime::new(instant.date(), instant.time())
}

fn number(millis: i64) -> i64 {
    millis
}

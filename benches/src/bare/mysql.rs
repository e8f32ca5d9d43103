//! Bare statements on MySQL and MariaDB.

use sqlx::MySqlConnection;
use sqlx::types::time::{OffsetDateTime, PrimitiveDateTime};

use super::Values;

type Changed = Result<u64, sqlx::Error>;

pub(super) async fn create(connection: &mut MySqlConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query(
        "INSERT INTO shedlock (lock_until, locked_at, locked_by, shedlock_fencing_token, name) \
         VALUES (?, ?, ?, ?, ?)",
    )
    .bind(instant(values.end_millis()))
    .bind(instant(values.millis()))
    .bind(&values.owner)
    .bind(values.token())
    .bind(values.name)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(super) async fn take(connection: &mut MySqlConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query(
        "UPDATE shedlock SET lock_until = ?, locked_at = ?, locked_by = ?, \
         shedlock_fencing_token = ? WHERE name = ?",
    )
    .bind(instant(values.end_millis()))
    .bind(instant(values.millis()))
    .bind(&values.owner)
    .bind(values.token())
    .bind(values.name)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(super) async fn free(connection: &mut MySqlConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query("UPDATE shedlock SET lock_until = ? WHERE name = ?")
        .bind(instant(values.millis()))
        .bind(values.name)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

pub(super) async fn miss(connection: &mut MySqlConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query(
        "UPDATE shedlock SET lock_until = ?, locked_at = ?, locked_by = ?, \
         shedlock_fencing_token = ? WHERE name = ? AND lock_until <= ?",
    )
    .bind(instant(values.end_millis()))
    .bind(instant(values.millis()))
    .bind(&values.owner)
    .bind(values.token())
    .bind(values.name)
    .bind(instant(1_000))
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

fn instant(millis: i64) -> PrimitiveDateTime {
    let instant =
        OffsetDateTime::UNIX_EPOCH + std::time::Duration::from_millis(millis.unsigned_abs());
    PrimitiveDateTime::new(instant.date(), instant.time())
}

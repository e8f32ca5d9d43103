//! Bare statements on PostgreSQL.

use sqlx::PgConnection;
use sqlx::types::time::{OffsetDateTime, PrimitiveDateTime};

use super::Values;

type Changed = Result<u64, sqlx::Error>;

pub(super) async fn create(connection: &mut PgConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query(
        "INSERT INTO shedlock (lock_until, locked_at, locked_by, shedlock_fencing_token, name) \
         VALUES ($1, $2, $3, $4, $5)",
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

pub(super) async fn take(connection: &mut PgConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query(
        "UPDATE shedlock SET lock_until = $1, locked_at = $2, locked_by = $3, \
         shedlock_fencing_token = $4 WHERE name = $5",
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

pub(super) async fn free(connection: &mut PgConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query("UPDATE shedlock SET lock_until = $1 WHERE name = $2")
        .bind(instant(values.millis()))
        .bind(values.name)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

pub(super) async fn miss(connection: &mut PgConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query(
        "UPDATE shedlock SET lock_until = $1, locked_at = $2, locked_by = $3, \
         shedlock_fencing_token = $4 WHERE name = $5 AND lock_until <= $6",
    )
    .bind(instant(values.end_millis()))
    .bind(instant(values.millis()))
    .bind(&values.owner)
    .bind(values.token())
    .bind(values.name)
    .bind(instant(0))
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

fn instant(millis: i64) -> PrimitiveDateTime {
    let instant =
        OffsetDateTime::UNIX_EPOCH + std::time::Duration::from_millis(millis.unsigned_abs());
    PrimitiveDateTime::new(instant.date(), instant.time())
}

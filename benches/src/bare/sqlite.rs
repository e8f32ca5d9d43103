//! Bare statements on SQLite.

use sqlx::SqliteConnection;

use super::Values;

type Changed = Result<u64, sqlx::Error>;

pub(super) async fn create(connection: &mut SqliteConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query(
        "INSERT INTO shedlock (lock_until, locked_at, locked_by, shedlock_fencing_token, name) \
         VALUES (?, ?, ?, ?, ?)",
    )
    .bind(values.end_millis())
    .bind(values.millis())
    .bind(&values.owner)
    .bind(values.token())
    .bind(values.name)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(super) async fn take(connection: &mut SqliteConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query(
        "UPDATE shedlock SET lock_until = ?, locked_at = ?, locked_by = ?, \
         shedlock_fencing_token = ? WHERE name = ?",
    )
    .bind(values.end_millis())
    .bind(values.millis())
    .bind(&values.owner)
    .bind(values.token())
    .bind(values.name)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(super) async fn free(connection: &mut SqliteConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query("UPDATE shedlock SET lock_until = ? WHERE name = ?")
        .bind(values.millis())
        .bind(values.name)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

pub(super) async fn miss(connection: &mut SqliteConnection, values: &Values<'_>) -> Changed {
    let done = sqlx::query(
        "UPDATE shedlock SET lock_until = ?, locked_at = ?, locked_by = ?, \
         shedlock_fencing_token = ? WHERE name = ? AND lock_until <= ?",
    )
    .bind(values.end_millis())
    .bind(values.millis())
    .bind(&values.owner)
    .bind(values.token())
    .bind(values.name)
    .bind(0_i64)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

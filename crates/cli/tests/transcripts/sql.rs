//! `sql STATEMENT` changes the file of `$SHEDLOCK_STORE` as no command does.

use sqlx::{AssertSqlSafe, Connection as _};

pub(crate) fn main() {
    let statement = std::env::args().nth(1).unwrap();
    let store = std::env::var("SHEDLOCK_STORE").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::SqliteConnection::connect(&store).await.unwrap();
        let statement = sqlx::raw_sql(AssertSqlSafe(statement));
        statement.execute(&mut connection).await.unwrap();
    });
}

//! What changes the file of `$SHEDLOCK_STORE` as no command does.

use sqlx::{AssertSqlSafe, Connection as _};

/// `sql STATEMENT` executes the statement.
pub(crate) fn sql() {
    execute(std::env::args().nth(1).unwrap());
}

/// `age PATTERN 100d` makes the records of these names look as if they had been used so many days earlier.
pub(crate) fn age() {
    let mut arguments = std::env::args().skip(1);
    let (names, days) = (arguments.next().unwrap(), arguments.next().unwrap());
    let days: u64 = days.strip_suffix('d').unwrap().parse().unwrap();
    let micros = days * 86_400_000_000;
    let millis = micros / 1_000;
    execute(format!(
        "UPDATE shedlock SET lock_until = lock_until - {millis}, locked_at = locked_at - {millis}, \
         shedlock_fencing_token = shedlock_fencing_token - {micros}, \
         shedlock_slot = shedlock_slot - {micros}, \
         shedlock_slot_done = shedlock_slot_done - {micros} WHERE name GLOB '{names}'"
    ));
}

fn execute(statement: String) {
    let store = std::env::var("SHEDLOCK_STORE").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::SqliteConnection::connect(&store).await.unwrap();
        let statement = sqlx::raw_sql(AssertSqlSafe(statement));
        statement.execute(&mut connection).await.unwrap();
    });
}

//! A lock that is freed by force while its command writes to a table. The next run gets a larger
//! token, and the table's guard (see the manual, "Fencing") refuses what the first one writes then.

use std::env;
use std::fs;
use std::io::Write as _;

use shedlock_conformance::support::unique;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use tokio::runtime::Runtime;

use crate::common::{Sandbox, all_gone, done, end};
use crate::places::Place;

/// The database and its table, for this program as the command of a run.
const DATABASE: &str = "SHEDLOCK_TEST_GUARDED";
const TABLE: &str = "SHEDLOCK_TEST_GUARDED_TABLE";
const BODY: &str = "SHEDLOCK_TEST_GUARDED_BODY";

/// Extended after a third of it. Until then the first run does not know that it lost the lock.
const LEASE: &str = "30s";

/// Whether this process is the command of a run.
pub(crate) fn writes() -> bool {
    env::var_os(DATABASE).is_some()
}

/// One guarded write, and a line in the log that shows whether it took effect.
pub(crate) fn write() {
    let [database, table, body] = [DATABASE, TABLE, BODY].map(|name| env::var(name).unwrap());
    let token: i64 = env::var("SHEDLOCK_FENCING_TOKEN").unwrap().parse().unwrap();
    let statement = format!(
        "UPDATE {table} SET body = '{body}', token = {token} WHERE id = 1 AND token <= {token}"
    );
    let updated = execute(&database, &[statement]);
    let what = if updated == 1 { "written" } else { "refused" };
    let mut log = fs::OpenOptions::new();
    let mut log = log.create(true).append(true).open(&body).unwrap();
    writeln!(log, "{what} {token}").unwrap();
}

/// Executes these statements. Returns how many rows the last one changed.
fn execute(database: &str, statements: &[String]) -> u64 {
    Runtime::new().unwrap().block_on(async {
        let mut changed = 0;
        for statement in statements {
            let text = AssertSqlSafe(statement.clone());
            changed = if database.starts_with("sqlite:") {
                let mut connection = SqliteConnection::connect(database).await.unwrap();
                let done = sqlx::raw_sql(text).execute(&mut connection).await;
                done.unwrap().rows_affected()
            } else {
                let mut connection = PgConnection::connect(database).await.unwrap();
                let done = sqlx::raw_sql(text).execute(&mut connection).await;
                done.unwrap().rows_affected()
            };
        }
        changed
    })
}

/// Who wrote the row last, and with which token.
fn row(database: &str, table: &str) -> (String, i64) {
    let text = AssertSqlSafe(format!("SELECT body, token FROM {table}"));
    Runtime::new().unwrap().block_on(async {
        if database.starts_with("sqlite:") {
            let mut connection = SqliteConnection::connect(database).await.unwrap();
            let row = sqlx::query_as(text).fetch_one(&mut connection).await;
            row.unwrap()
        } else {
            let mut connection = PgConnection::connect(database).await.unwrap();
            let row = sqlx::query_as(text).fetch_one(&mut connection).await;
            row.unwrap()
        }
    })
}

/// The words and tokens of a log.
fn log(sandbox: &Sandbox, body: &str) -> Vec<(String, i64)> {
    let text = sandbox.read(body);
    let entries = text.lines().map(|line| line.split_once(' ').unwrap());
    entries
        .map(|(what, token)| (what.to_owned(), token.parse().unwrap()))
        .collect()
}

pub(crate) fn a_holder_that_lost_its_lock_writes_no_more(place: &Place) -> Result<(), String> {
    let sandbox = Sandbox::new();
    let locks = place.locks(&sandbox.path(""))?;
    let (database, table) = match place.name {
        "sqlite" => (
            format!("sqlite:{}", sandbox.path("data.db").display()),
            unique("report"),
        ),
        _ => (place.server()?, unique("report")),
    };
    if place.name == "sqlite" {
        fs::write(sandbox.path("data.db"), "").unwrap();
    }
    let creation = format!("CREATE TABLE {table} (id INTEGER, body TEXT, token BIGINT)");
    let row_of_its_own = format!("INSERT INTO {table} VALUES (1, '', 0)");
    execute(&database, &[creation, row_of_its_own]);
    let migrated = done(&mut sandbox.bare(&["migrate", "--store", &locks.url]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);

    let run = |body: &str, script: &str| {
        let script = script.replace("WRITE", &env::current_exe().unwrap().to_string_lossy());
        let mut command = sandbox.run_with("report", LEASE, &["--keep-alive"], &script);
        command.env("SHEDLOCK_STORE", &locks.url);
        command
            .env(DATABASE, &database)
            .env(TABLE, &table)
            .env(BODY, body);
        command.spawn().unwrap()
    };
    // It writes even when it is asked to stop.
    let script = "echo $$ >> pids; trap 'WRITE; exit' TERM; while :; do WRITE; sleep 0.1; done";
    let first = run("first", script);
    sandbox.await_lines("first", 1);
    let freed = done(&mut sandbox.bare(&["unlock", "report", "--force", "--store", &locks.url]));
    assert_eq!(freed.code, 0, "{}", freed.stderr);
    let second = run("second", "WRITE; until [ -e go ]; do sleep 0.05; done");
    sandbox.await_lines("second", 1);

    let ended = end(first);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    let said = "its lease was lost (the lock was freed by force";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(all_gone(&sandbox.pids("pids")));
    let (first, others) = (log(&sandbox, "first"), log(&sandbox, "second"));
    let [(what, token)] = &others[..] else {
        panic!("{others:?}")
    };
    assert_eq!(what, "written");
    assert!(*token > first[0].1, "{token} after {first:?}");
    let refused = first.iter().position(|(what, _)| what == "refused");
    let refused = refused.expect("it wrote after the second one");
    assert!(refused > 0, "{first:?}");
    assert!(
        first[refused..].iter().all(|(what, _)| what == "refused"),
        "{first:?}"
    );
    assert_eq!(row(&database, &table), ("second".to_owned(), *token));

    fs::write(sandbox.path("go"), "").unwrap();
    let ended = end(second);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    execute(&database, &[format!("DROP TABLE {table}")]);
    Ok(())
}

//! A journal that hangs or may not be written, while the locks beside it work.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::runtime::Runtime;

use crate::common::{Sandbox, done};
use crate::places::Place;

pub(crate) fn a_journal_that_fails_does_not_fail_an_operator(place: &Place) -> Result<(), String> {
    let sandbox = Sandbox::new();
    let locks = place.locks(&sandbox.path(""))?;
    let audit = format!("{}_audit", locks.name);
    let server = place.server()?;
    let command = |arguments: &[&str]| {
        let mut command = sandbox.bare(arguments);
        done(command.env("SHEDLOCK_STORE", &locks.url).env("USER", "ann"))
    };
    let migrated = command(&["migrate"]);
    assert_eq!(migrated.code, 0, "{migrated:?}");
    let paused = command(&["pause", "a", "--create", "--reason", "moving"]);
    assert_eq!((paused.code, &*paused.stderr), (0, ""), "{paused:?}");

    Runtime::new().unwrap().block_on(async {
        let mut other = PgConnection::connect(&server).await.unwrap();
        let mut run = async |statement: String| {
            let text = AssertSqlSafe(statement);
            sqlx::raw_sql(text).execute(&mut other).await.unwrap();
        };
        run("BEGIN".to_owned()).await;
        run(format!("LOCK TABLE {audit}")).await;
        let resumed = command(&["resume", "a"]);
        let said = "shedlock: a: done, so do not repeat it; its record in the journal may be missing: no reply within 2s\n";
        assert_eq!((resumed.code, &*resumed.stderr), (0, said), "{resumed:?}");
        assert!(
            resumed.stdout.starts_with("a: resumed by ann@"),
            "{resumed:?}"
        );
        run("ROLLBACK".to_owned()).await;
        run(format!("ALTER TABLE {audit} RENAME TO {audit}_away")).await;
        let paused = command(&["pause", "a"]);
        assert_eq!(paused.code, 0, "{paused:?}");
        let said = "create it with `shedlock migrate`\n";
        assert!(paused.stderr.contains(said), "{paused:?}");
        run(format!("ALTER TABLE {audit}_away RENAME TO {audit}")).await;
    });
    let history = command(&["history", "a"]);
    let last = history.stdout.lines().last().unwrap();
    assert!(last.contains("  paused  "), "{history:?}");
    assert!(last.ends_with("(moving)"), "{history:?}");
    Ok(())
}

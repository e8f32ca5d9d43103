//! Jobs that ShedLock for Java runs too, on the same table.

use shedlock_rig::given::server_if_any;

use super::common::{Done, done};
use super::migrate::Database;

/// An empty database of PostgreSQL with a lock table and a journal, if the run has one.
async fn migrated() -> Option<Database> {
    let database = Database::on(&server_if_any("postgres")?).await;
    database.migrate(&database.url, &[]);
    Some(database)
}

impl Database {
    /// Takes a lock as ShedLock's JDBC provider does with the database's time, this many seconds ago.
    async fn java_takes(&mut self, name: &str, ago: i64, for_seconds: i64) {
        let now = "timezone('utc', CURRENT_TIMESTAMP)";
        let at = format!("{now} - interval '{ago} seconds'");
        let until = format!("{at} + interval '{for_seconds} seconds'");
        self.run(&format!(
            "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('{name}', {until}, {at}, 'web-2') \
             ON CONFLICT (name) DO UPDATE SET lock_until = {until}, locked_at = {at}, locked_by = 'web-2'"
        ))
        .await;
    }

    fn shedlock(&self, arguments: &[&str]) -> Done {
        let store = ["--store", &self.url];
        done(&mut self.sandbox.bare(&[arguments, &store].concat()))
    }
}

#[tokio::test]
async fn a_lock_of_shedlock_is_taken_and_not_held() {
    let Some(mut database) = migrated().await else {
        return;
    };
    database.java_takes("sendMails", 60, 600).await;
    let words = "its task runs, or has ended and lockAtLeastFor keeps it";

    let listed = database.shedlock(&["list", "--state", "taken", "-o", "json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let json: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(json["locks"][0]["state"], "taken", "{}", listed.stdout);
    assert_eq!(json["locks"][0]["owner"], "web-2");
    let held = database.shedlock(&["list", "--state", "held"]).stdout;
    assert_eq!(held, "no lock matches\n");
    // It cannot be taken now, so it is among those.
    let held = database.shedlock(&["list", "--held"]).stdout;
    assert!(held.contains("taken"), "{held}");

    let shown = database.shedlock(&["show", "sendMails"]).stdout;
    assert!(
        shown.contains("taken by ShedLock on web-2 until 2"),
        "{shown}"
    );
    assert!(shown.contains(words), "{shown}");
    assert!(!shown.contains("held"), "{shown}");

    let pause = ["pause", "sendMails", "--wait", "0s", "--reason", "a test"];
    let paused = database.shedlock(&pause);
    assert_eq!(paused.code, 1, "{}", paused.stderr);
    let refusal = "sendMails: not paused: taken by ShedLock on web-2 until 2";
    assert!(paused.stderr.contains(refusal), "{}", paused.stderr);
    assert!(paused.stderr.contains(words), "{}", paused.stderr);

    let metrics = database.shedlock(&["metrics"]).stdout;
    assert!(
        metrics.contains("shedlock_locks{state=\"held\"} 0\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("shedlock_locks{state=\"taken\"} 1\n"),
        "{metrics}"
    );

    let doctor = database.shedlock(&["doctor"]).stdout;
    assert!(
        doctor.contains("taken now: 1, whose tasks run, or have ended"),
        "{doctor}"
    );

    let run = ["run", "-n", "sendMails", "--lock-at-most-for", "1m"];
    let run = [&run[..], &["--store", &database.url, "--", "true"]].concat();
    let skipped = done(&mut database.sandbox.bare(&run));
    assert!(
        skipped
            .stderr
            .contains("taken by ShedLock on web-2 until 2"),
        "{}",
        skipped.stderr
    );

    let paused = database.shedlock(&["pause", "sendMails", "--now", "--reason", "a test"]);
    let was = "it was taken by ShedLock on web-2, whose task may still be running";
    assert!(paused.stdout.contains(was), "{}", paused.stdout);
}

#[tokio::test]
async fn a_job_whose_lock_shedlock_has_does_not_run() {
    let Some(mut database) = migrated().await else {
        return;
    };
    let run = ["run", "-q", "-n", "sendMails", "--lock-at-most-for", "1m"];
    let run = [&run[..], &["--store", &database.url, "--", "true"]].concat();
    assert_eq!(done(&mut database.sandbox.bare(&run)).code, 0);
    database.java_takes("sendMails", 60, 600).await;

    let jobs = database.shedlock(&["jobs"]).stdout;
    assert!(jobs.contains("taken"), "{jobs}");
    let jobs = database.shedlock(&["jobs", "-o", "json"]).stdout;
    let jobs: serde_json::Value = serde_json::from_str(&jobs).unwrap();
    assert_eq!(jobs["jobs"][0]["state"], "taken");
}

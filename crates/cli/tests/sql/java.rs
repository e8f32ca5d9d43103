//! Jobs that ShedLock for Java runs too, on the same table.

use serde_json::Value;
use shedlock_rig::given::server_if_any;

use super::common::{Done, done, end, eventually};
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

/// The options of a job with a slot in every second, which a run may still succeed at for over a minute.
const EVERY_SECOND: [&str; 7] = [
    "run",
    "-q",
    "-n",
    "mail",
    "--every",
    "1s",
    "--lock-at-most-for",
];

impl Database {
    /// An attempt at the current slot.
    fn attempts(&self) -> Done {
        let options = ["10s", "--store", &self.url, "--", "true"];
        done(&mut self.sandbox.bare(&[&EVERY_SECOND[..], &options].concat()))
    }

    fn job(&self) -> Value {
        let jobs = self.shedlock(&["jobs", "-o", "json"]);
        assert_eq!(jobs.code, 0, "{}", jobs.stderr);
        let jobs: Value = serde_json::from_str(&jobs.stdout).unwrap();
        jobs["jobs"][0].clone()
    }

    /// Java takes slots until an attempt has found this many of them.
    async fn java_takes_slots(&mut self, slots: u64) {
        while self.job()["taken_elsewhere"]["slots_without_outcome"].as_u64() < Some(slots) {
            self.java_takes("mail", 0, 600).await;
            let attempt = self.attempts();
            assert_eq!(
                (attempt.code, &*attempt.stdout),
                (0, ""),
                "{}",
                attempt.stderr
            );
        }
    }

    /// Moves the time by which the job must have succeeded into the past, and returns the job.
    async fn late(&mut self) -> Value {
        self.run("UPDATE shedlock_job SET deadline_us = deadline_us - 3600000000")
            .await;
        self.job()
    }
}

#[tokio::test]
async fn slots_that_java_takes_are_unverified_until_someone_watches_them() {
    let Some(mut database) = migrated().await else {
        return;
    };
    database.java_takes_slots(1).await;
    let job = database.job();
    assert_eq!(
        (&job["state"], &job["is_overdue"]),
        (&"unverified".into(), &false.into()),
        "{job}"
    );
    assert_eq!(job["taken_elsewhere"]["by"], "web-2", "{job}");
    assert_eq!(job["last_started"], Value::Null, "{job}");
    assert!(job["deadline"].is_string(), "{job}");
    assert_eq!(
        job["missed_slots"]["elsewhere"], 0,
        "not overdue yet: {job}"
    );
    let doctor = database.shedlock(&["doctor"]).stdout;
    assert!(doctor.contains("ok       unverified"), "{doctor}");

    database.java_takes_slots(3).await;
    let doctor = database.shedlock(&["doctor"]).stdout;
    assert!(doctor.contains("warning  unverified"), "{doctor}");
    assert!(
        doctor.contains("taken by ShedLock on web-2 at 2"),
        "{doctor}"
    );
    let jobs = database.shedlock(&["jobs"]).stdout;
    assert!(jobs.contains("unverified"), "{jobs}");
    assert!(jobs.contains("how its task ended is not known"), "{jobs}");
    let history = database.shedlock(&["history", "mail"]).stdout;
    assert!(history.contains("elsewhere"), "{history}");
    assert!(history.contains("taken by ShedLock on web-2"), "{history}");
    let metrics = database.shedlock(&["metrics"]).stdout;
    let value = |metrics: &str, metric: &str| {
        let start = format!("shedlock_job_{metric}{{job_name=\"mail\",store=\"");
        let line = metrics.lines().find(|line| line.starts_with(&start))?;
        line.rsplit_once(' ')?.1.parse::<u64>().ok()
    };
    assert!(value(&metrics, "unverified_slots") >= Some(3), "{metrics}");
    assert_eq!(value(&metrics, "watched_elsewhere"), Some(0), "{metrics}");

    let declared = database.shedlock(&["jobs", "--watched-by-java", "mail"]);
    assert_eq!(declared.code, 0, "{}", declared.stderr);
    // A registration does not take it back.
    database.java_takes_slots(4).await;
    assert_eq!(database.job()["is_watched_elsewhere"], true);
    assert_eq!(database.job()["state"], "unverified");
    let doctor = database.shedlock(&["doctor"]).stdout;
    assert!(doctor.contains("ok       unverified"), "{doctor}");
    let metrics = database.shedlock(&["metrics"]).stdout;
    assert_eq!(value(&metrics, "watched_elsewhere"), Some(1), "{metrics}");
    let history = database.shedlock(&["history", "mail"]).stdout;
    assert!(history.contains("watched elsewhere"), "{history}");
    let taken_back = database.shedlock(&["jobs", "--not-watched-by-java", "mail"]);
    assert_eq!(taken_back.code, 0, "{}", taken_back.stderr);
    assert_eq!(database.job()["is_watched_elsewhere"], false);
    let unknown = database.shedlock(&["jobs", "--watched-by-java", "other"]);
    assert_eq!(unknown.code, 1, "{}", unknown.stdout);
    assert!(
        unknown
            .stderr
            .contains("other: not changed: there is no such job"),
        "{}",
        unknown.stderr
    );

    // Both stop.
    let job = database.late().await;
    assert_eq!(
        (&job["state"], &job["is_overdue"]),
        (&"overdue".into(), &true.into()),
        "{job}"
    );
}

#[tokio::test]
async fn a_lock_that_java_holds_past_its_slot_moves_no_deadline() {
    let Some(mut database) = migrated().await else {
        return;
    };
    database.java_takes_slots(1).await;
    database.java_takes("mail", 10, 3_600).await;
    let before = database.job();
    for _ in 0..3 {
        assert_eq!(database.attempts().code, 0);
    }
    assert_eq!(database.job()["deadline"], before["deadline"]);
    assert_eq!(database.job()["taken_elsewhere"], before["taken_elsewhere"]);
    assert_eq!(database.late().await["state"], "overdue");
}

#[tokio::test]
async fn an_acquisition_of_java_that_is_a_day_ahead_takes_no_slot() {
    let Some(mut database) = migrated().await else {
        return;
    };
    assert_eq!(database.attempts().code, 0);
    let before = database.job();
    assert!(before["last_succeeded"].is_string(), "{before}");
    database.java_takes("mail", -86_400, 600).await;
    for _ in 0..3 {
        assert_eq!(database.attempts().code, 0);
    }
    let job = database.job();
    assert_eq!(job["taken_elsewhere"], Value::Null, "{job}");
    assert_eq!(job["deadline"], before["deadline"]);
    assert_eq!(database.late().await["state"], "overdue");
}

#[tokio::test]
async fn a_pause_that_took_a_lock_from_java_looks_again() {
    let Some(mut database) = migrated().await else {
        return;
    };
    database.java_takes("mail", 1, 3_600).await;
    let client = format!("{}?time=client", database.url);
    let pause = [
        "pause", "mail", "--now", "--reason", "a test", "--store", &client,
    ];
    // Java does nothing meanwhile.
    let stays = done(&mut database.sandbox.bare(&pause));
    assert_eq!(stays.code, 0, "{}", stays.stderr);
    assert!(
        stays.stderr.contains("mail: still paused 5s later"),
        "{}",
        stays.stderr
    );
    let warning =
        "Java's end or next extension may end this pause if it uses the provider for plain JDBC";
    assert!(stays.stderr.contains(warning), "{}", stays.stderr);
    assert_eq!(database.shedlock(&["resume", "mail"]).code, 0);

    // Its unlock by name frees the lock.
    database.java_takes("mail", 1, 3_600).await;
    let running = database.sandbox.bare(&pause).spawn().unwrap();
    let state = || database.sandbox.lock_in(&database.url, "mail")["state"].clone();
    eventually("the pause", || state() == "paused");
    database
        .run("UPDATE shedlock SET lock_until = timezone('utc', CURRENT_TIMESTAMP) WHERE name = 'mail'")
        .await;
    let ended = end(running);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("mail: the pause has ended"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("now it is free"), "{}", ended.stderr);

    // So does its extension, which takes the lock over.
    database.java_takes("mail", 1, 3_600).await;
    let running = database.sandbox.bare(&pause).spawn().unwrap();
    let state = || database.sandbox.lock_in(&database.url, "mail")["state"].clone();
    eventually("the pause", || state() == "paused");
    database.java_takes("mail", 0, 3_600).await;
    let ended = end(running);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("now taken by ShedLock on web-2 until 2"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn a_job_that_only_java_runs_is_named_as_such() {
    let Some(mut database) = migrated().await else {
        return;
    };
    database.java_takes("idle", 3_600, 60).await;
    let by = "run by ShedLock for Java on web-2 (last at 2";
    let here = "its runs are not recorded here";
    let history = database.shedlock(&["history", "idle"]);
    assert_eq!(history.code, 1, "{}", history.stdout);
    assert!(
        history.stderr.contains(&format!("idle: {by}")),
        "{}",
        history.stderr
    );
    assert!(history.stderr.contains(here), "{}", history.stderr);
    let jobs = database.shedlock(&["jobs"]);
    assert_eq!(jobs.stdout, "no jobs\n");
    assert!(
        jobs.stderr.contains(&format!("idle: {by}")),
        "{}",
        jobs.stderr
    );
    let other = database.shedlock(&["jobs", "--filter", "other"]);
    assert_eq!(other.stderr, "");

    assert_eq!(database.attempts().code, 0);
    database.java_takes("busy", 1, 600).await;
    let jobs = database.shedlock(&["jobs"]);
    assert!(jobs.stdout.contains("mail"), "{}", jobs.stdout);
    assert!(
        jobs.stderr.contains(&format!("busy: {by}")),
        "{}",
        jobs.stderr
    );
    assert!(!jobs.stderr.contains("mail"), "{}", jobs.stderr);
    let ours = database.shedlock(&["history", "mail"]);
    assert_eq!((ours.code, &*ours.stderr), (0, ""));
}

/// A running ShedLock never inserts a row again that it has seen: its job stops. `doctor` led there for two tenants.
#[tokio::test]
async fn a_row_that_a_running_shedlock_remembers_comes_back_with_a_pause() {
    let Some(mut database) = migrated().await else {
        return;
    };
    for name in ["tenant-Acme", "tenant-acme"] {
        database.java_takes(name, 90_000, 60).await;
    }
    let doctor = database.shedlock(&["doctor"]).stdout;
    for words in [
        "if they are two jobs",
        "shedlock pause NAME --create",
        "shedlock resume NAME",
    ] {
        assert!(doctor.contains(words), "{doctor}");
    }
    database
        .run("DELETE FROM shedlock WHERE name = 'tenant-Acme'")
        .await;
    let pause = ["pause", "tenant-Acme", "--create", "--reason", "a test"];
    assert_eq!(database.shedlock(&pause).code, 0);
    assert_eq!(database.shedlock(&["resume", "tenant-Acme"]).code, 0);
    let lock = database.sandbox.lock_in(&database.url, "tenant-Acme");
    assert_eq!(lock["state"], "free", "{lock}");
}

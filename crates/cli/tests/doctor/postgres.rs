//! PostgreSQL.

use std::process::{Command, Stdio};

use shedlock_conformance::support::unique;
use shedlock_rig::given::server_if_any;
use shedlock_rig::host::find_program;
use shedlock_rig::{OwnServer, PostgresServer};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use url::Url;

use super::common::{Sandbox, done, eventually};
use super::{cannot_run, doctor};

/// A schema with a lock table, and a user of its own, whose privileges and settings the test may change.
pub(super) struct Room {
    connection: PgConnection,
    name: String,
    pub(super) url: String,
}

impl Room {
    pub(super) async fn in_server(server: &str) -> Self {
        let name = unique("doctor");
        let connection = PgConnection::connect(server).await.unwrap();
        let url = format!("{server}?schema={name}");
        let url = url.replacen("postgres@", &format!("{name}@"), 1);
        let mut room = Self {
            connection,
            name,
            url,
        };
        room.run("CREATE ROLE {user} LOGIN; CREATE SCHEMA {user} AUTHORIZATION {user}")
            .await;
        let arguments = ["migrate", "--no-journal", "--store", &room.url];
        let migrated = done(&mut Sandbox::new().bare(&arguments));
        assert_eq!(migrated.code, 0, "{}", migrated.stderr);
        room
    }

    /// None if the run is restricted to other stores.
    pub(super) async fn new() -> Option<Self> {
        Some(Self::in_server(&server_if_any("postgres")?).await)
    }

    /// Runs these statements as the administrator. `{user}` is the user, and also the schema.
    pub(super) async fn run(&mut self, statements: &str) {
        let text = AssertSqlSafe(statements.replace("{user}", &self.name));
        let ran = sqlx::raw_sql(text).execute(&mut self.connection).await;
        ran.unwrap_or_else(|error| panic!("{statements}: {error}"));
    }
}

#[tokio::test]
async fn a_healthy_server_has_no_faults() {
    let Some(room) = Room::new().await else {
        return;
    };
    doctor(&room.url).is_healthy();
}

#[tokio::test]
async fn no_fault_in_a_setting_a_right_or_the_table_is_missed() {
    for (statements, check, level, words) in [
        (
            "ALTER ROLE {user} SET synchronous_commit = off",
            "synchronous-commit",
            "warning",
            "synchronous_commit=on",
        ),
        (
            "ALTER TABLE {user}.shedlock SET UNLOGGED",
            "durability",
            "warning",
            "SET LOGGED",
        ),
        (
            "ALTER ROLE {user} SET default_transaction_read_only = on",
            "privileges",
            "error",
            "primary",
        ),
        (
            "ALTER TABLE {user}.shedlock OWNER TO CURRENT_USER; \
             GRANT SELECT, INSERT ON {user}.shedlock TO {user}",
            "privileges",
            "error",
            "lacks a privilege",
        ),
        (
            "ALTER TABLE {user}.shedlock OWNER TO CURRENT_USER; \
             GRANT SELECT, INSERT, UPDATE ON {user}.shedlock TO {user}; \
             ALTER TABLE {user}.shedlock ENABLE ROW LEVEL SECURITY",
            "row-security",
            "warning",
            "BYPASSRLS",
        ),
        (
            "CREATE TRIGGER t BEFORE UPDATE ON {user}.shedlock FOR EACH ROW \
             EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "triggers",
            "warning",
            "drop them",
        ),
        (
            "ALTER TABLE {user}.shedlock DROP CONSTRAINT shedlock_pkey",
            "setup",
            "error",
            "primary key",
        ),
        (
            "ALTER TABLE {user}.shedlock ALTER locked_at TYPE date",
            "setup",
            "error",
            "timestamp",
        ),
        (
            "ALTER TABLE {user}.shedlock DROP COLUMN shedlock_fencing_token",
            "setup",
            "error",
            "shedlock migrate",
        ),
        (
            "ALTER TABLE {user}.shedlock ALTER lock_until DROP NOT NULL; \
             INSERT INTO {user}.shedlock VALUES ('a', NULL, now(), 'web-3')",
            "end",
            "error",
            "\"a\" (no end)",
        ),
        (
            "INSERT INTO {user}.shedlock VALUES ('a', 'infinity', now(), 'web-3')",
            "end",
            "error",
            "\"a\"",
        ),
        (
            "INSERT INTO {user}.shedlock VALUES \
             ('a', now() + interval '3h', now() + interval '2h', 'web-3')",
            "acquired",
            "error",
            "usingDbTime()",
        ),
    ] {
        let Some(mut room) = Room::new().await else {
            return;
        };
        room.run(statements).await;
        doctor(&room.url).has_only(check, level, words);
        if words.contains("no end") {
            cannot_run(&room.url, "a", "can never be taken");
        }
    }
}

/// As when a console is left open. Each attempt then reads all versions of the lock since.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_keeps_old_versions_of_locks_is_named() {
    if server_if_any("postgres").is_none() {
        return;
    }
    // A server that no other test's transaction is on.
    let server = OwnServer::start("postgres", &[]).unwrap();
    let mut room = Room::in_server(server.url()).await;
    room.run(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL application_name = 'console'; \
         SELECT count(*) FROM {user}.shedlock",
    )
    .await;
    let mut other = PgConnection::connect(server.url()).await.unwrap();
    let table = format!("{}.shedlock", room.name);
    for statement in [
        format!("INSERT INTO {table} VALUES ('hot', now(), now(), 'web-3')"),
        "SET synchronous_commit = off".to_owned(),
        format!(
            "DO $$ BEGIN FOR i IN 1..11000 LOOP UPDATE {table} SET locked_at = now(); COMMIT; END LOOP; END $$"
        ),
    ] {
        let ran = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut other);
        ran.await.unwrap();
    }
    // The server counts what a session has done when it ends.
    other.close().await.unwrap();
    eventually("the dead rows are counted", || {
        !doctor(&room.url).faults().is_empty()
    });
    doctor(&room.url).has_only(
        "old-versions",
        "warning",
        "of postgres (console) may still read them",
    );
    room.run("COMMIT").await;
    room.run("VACUUM {user}.shedlock").await;
    eventually("nothing is found", || doctor(&room.url).faults().is_empty());
}

/// Settings of the whole server.
#[tokio::test(flavor = "multi_thread")]
async fn no_fault_in_a_setting_of_the_server_is_missed() {
    if server_if_any("postgres").is_none() {
        return;
    }
    let server = OwnServer::start("postgres", &["-c", "fsync=off"]).unwrap();
    let room = Room::in_server(server.url()).await;
    doctor(&room.url).has_only("durability", "warning", "fsync=on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_is_not_missed() {
    if server_if_any("postgres").is_none() {
        return;
    }
    let start = || PostgresServer::start(&["-csynchronous_commit=on"]).unwrap();
    let (old, new) = (start(), start());
    let room = Room::in_server(old.url()).await;
    new.stop().unwrap();
    new.follow(&old).unwrap();
    let sandbox = Sandbox::new();
    let journal = format!("sqlite:{}", sandbox.path("journal.db").display());
    let shedlock = |store: &str, arguments: &[&str]| {
        let mut command = sandbox.bare(arguments);
        command.env("SHEDLOCK_STORE", store);
        done(command.env("SHEDLOCK_JOURNAL_STORE", &journal))
    };
    assert_eq!(shedlock(&room.url, &["migrate"]).code, 0);
    let slot = [
        "--lock-at-most-for",
        "1m",
        "--every",
        "1d",
        "--slot-tolerance",
        "1m",
    ];
    let run = |name: &str| {
        let run = [&["run", "-n", name], &slot[..], &["--", "true"]].concat();
        let ran = shedlock(&room.url, &run);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    };
    run("a");
    new.catch_up_with(&old).unwrap();
    old.stop().unwrap();
    let _ = new.sql("SELECT pg_promote()").unwrap();
    let port = |server: &PostgresServer| Url::parse(server.url()).unwrap().port().unwrap();
    let [from, to] = [&old, &new].map(|server| format!(":{}/", port(server)));
    let url = room.url.replace(&from, &to);
    let promoted = doctor(&url);
    assert!(promoted.has("promotion", "former primary"), "{promoted:?}");
    // A host that still uses it: the journal elsewhere has the runs of both sides.
    let here = || super::report(&shedlock(&url, &["doctor", "-o", "json"]));
    assert!(!here().has("lost-state", ""), "{:?}", here());
    old.start_again().unwrap();
    run("b");
    let report = here();
    assert!(report.has("lost-state", "the last slot of b"), "{report:?}");
    assert!(report.has("lost-state", "a former primary"), "{report:?}");
    new.stop().unwrap();
    new.start_again().unwrap();
    let later = doctor(&url);
    assert!(!later.has("promotion", ""), "{later:?}");
}

/// A server that follows another one, and one that another one follows.
#[tokio::test(flavor = "multi_thread")]
async fn no_standby_is_missed() {
    if server_if_any("postgres").is_none() {
        return;
    }
    let settings = ["-c", "wal_level=replica", "-c", "max_wal_senders=4"];
    let server = OwnServer::start("postgres", &settings).unwrap();
    let mut room = Room::in_server(server.url()).await;
    doctor(&room.url).is_healthy();

    let rest = server.url().split("://").nth(1).unwrap();
    let (user, address) = rest.split('/').next().unwrap().split_once('@').unwrap();
    let (host, port) = address.split_once(':').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let receiver = find_program("pg_receivewal").or_else(|| {
        let mut versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let folder = versions.next()?.ok()?.path();
        Some(folder.join("bin/pg_receivewal"))
    });
    let mut follower = Command::new(receiver.expect("it comes with the server"))
        .args(["-h", host, "-p", port, "-U", user, "-D"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("a follower", || {
        doctor(&room.url).faults() == [("replicas", "warning")]
    });
    doctor(&room.url).has_only("replicas", "warning", "synchronous_standby_names");
    follower.kill().unwrap();
    follower.wait().unwrap();
    eventually("no follower", || doctor(&room.url).faults().is_empty());

    let query = sqlx::query_scalar("SHOW data_directory");
    let folder: String = query.fetch_one(&mut room.connection).await.unwrap();
    server.kill().unwrap();
    std::fs::write(format!("{folder}/standby.signal"), "").unwrap();
    server.start_again().unwrap();
    doctor(&room.url).has_only("privileges", "error", "primary");
}

//! A file, and the faults that a record can have in every store.

use std::os::unix::fs::PermissionsExt as _;

use sqlx::{AssertSqlSafe, Connection as _};

use super::common::{Sandbox, done};
use super::{cannot_run, doctor, doctor_with, report};

async fn run(sandbox: &Sandbox, statements: &str) {
    let url = sandbox.store();
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let text = AssertSqlSafe(statements.to_owned());
    sqlx::raw_sql(text).execute(&mut connection).await.unwrap();
}

/// A row whose times are given in seconds from now. The rest are the columns that shedlock adds.
fn row(name: &str, owner: &str, at: i64, until: i64, ours: &str) -> String {
    let time = |seconds| format!("unixepoch() * 1000 + {seconds} * 1000");
    format!(
        "INSERT INTO shedlock (name, lock_until, locked_at, locked_by, shedlock_fencing_token, \
         shedlock_slot, shedlock_slot_done, shedlock_slot_attempts) VALUES ('{name}', {}, {}, '{owner}', {ours});",
        time(until),
        time(at)
    )
}

const OURS: &str = "host/1/0123456789abcdef";
const NONE: &str = "NULL, NULL, NULL, NULL";

#[tokio::test]
async fn a_healthy_file_has_no_faults() {
    let sandbox = Sandbox::new();
    assert_eq!(done(&mut sandbox.shedlock(&["migrate"])).code, 0);
    doctor(&sandbox.store()).is_healthy();
    let ran = done(&mut sandbox.run("a", "1m", "true"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    run(&sandbox, &row("java", "web-3", -10, 600, NONE)).await;
    let report = doctor_with(&sandbox.store(), &["--strict"]);
    report.is_healthy();
    let java = report.findings.iter().find(|found| found.check == "java");
    assert!(java.unwrap().message.contains("1 of 2"), "{report:?}");
}

#[tokio::test]
async fn no_fault_in_a_record_is_missed() {
    const HOUR: i64 = 3_600;
    let slot = "7, (unixepoch() + 3600) * 1000000, NULL, NULL";
    let open = "7, (unixepoch() - 9000) * 1000000, NULL, 5";
    for (rows, check, level, words) in [
        (
            row("Job", OURS, -HOUR, -HOUR, NONE) + &row("job", OURS, -HOUR, -HOUR, NONE),
            "names",
            "warning",
            "\"Job\" and \"job\"",
        ),
        (
            row("a", OURS, 0, 20_000 * HOUR, NONE),
            "end",
            "error",
            "shedlock unlock --force",
        ),
        (
            row("a", "web-3", 2 * HOUR, 3 * HOUR, NONE),
            "acquired",
            "error",
            "\"web-3\"",
        ),
        (
            row("a", OURS, -HOUR, -HOUR, slot),
            "slots",
            "error",
            "shedlock slot reset",
        ),
        (
            row("a", OURS, -2 * HOUR, -2 * HOUR, open),
            "open-slots",
            "warning",
            "attempts: 5",
        ),
    ] {
        let sandbox = Sandbox::migrated();
        run(&sandbox, &rows).await;
        doctor(&sandbox.store()).has_only(check, level, words);
    }
}

/// A JVM west of UTC writes its own time.
#[tokio::test]
async fn a_clock_that_is_behind_is_not_missed() {
    let sandbox = Sandbox::migrated();
    run(&sandbox, &row("a", "web-3", -18_000, -17_990, NONE)).await;
    // Nothing acquires it, so its age shows nothing.
    doctor(&sandbox.store()).is_healthy();
    let store = sandbox.store();
    let doctor = tokio::task::spawn_blocking(move || doctor(&store));
    while !doctor.is_finished() {
        let next = "UPDATE shedlock SET locked_at = locked_at + 1";
        run(&sandbox, next).await;
    }
    let report = doctor.await.unwrap();
    report.has_only("other-clock", "error", "\"web-3\"");
    let found = report.findings.iter().find(|it| it.check == "other-clock");
    assert!(found.unwrap().message.contains("\"a\" (at "), "{report:?}");
}

#[test]
fn a_forgotten_pause_is_not_missed() {
    let sandbox = Sandbox::migrated();
    let paused = done(&mut sandbox.shedlock(&["pause", "a", "--create", "--reason", "moving"]));
    assert_eq!(paused.code, 0, "{}", paused.stderr);
    doctor(&sandbox.store()).has_only("paused", "warning", "(moving)");
    let strict = doctor_with(&sandbox.store(), &["--strict"]);
    assert_eq!(strict.code, 1, "{strict:?}");
}

#[tokio::test]
async fn no_fault_in_the_table_is_missed() {
    for (statements, check, level, words) in [
        ("DROP TABLE shedlock", "setup", "error", "shedlock migrate"),
        (
            "ALTER TABLE shedlock DROP COLUMN shedlock_slot",
            "setup",
            "error",
            "shedlock_slot",
        ),
        // ShedLock's own table.
        (
            "ALTER TABLE shedlock DROP COLUMN shedlock_fencing_token; \
             ALTER TABLE shedlock DROP COLUMN shedlock_slot; \
             ALTER TABLE shedlock DROP COLUMN shedlock_slot_done; \
             ALTER TABLE shedlock DROP COLUMN shedlock_slot_attempts; \
             ALTER TABLE shedlock DROP COLUMN shedlock_skip_from; \
             ALTER TABLE shedlock DROP COLUMN shedlock_skip_until",
            "columns",
            "warning",
            "shedlock_slot",
        ),
        (
            "ALTER TABLE shedlock RENAME TO old; CREATE TABLE shedlock AS SELECT * FROM old",
            "setup",
            "error",
            "primary key",
        ),
    ] {
        let sandbox = Sandbox::migrated();
        run(&sandbox, statements).await;
        doctor(&sandbox.store()).has_only(check, level, words);
    }
}

#[tokio::test]
async fn a_record_without_an_end_is_not_missed() {
    let sandbox = Sandbox::migrated();
    let table = "DROP TABLE shedlock; CREATE TABLE shedlock (name VARCHAR(64) NOT NULL PRIMARY KEY, \
        lock_until BIGINT, locked_at BIGINT, locked_by VARCHAR(255), shedlock_fencing_token BIGINT, \
        shedlock_slot BIGINT, shedlock_slot_done BIGINT, shedlock_slot_attempts BIGINT, \
        shedlock_skip_from BIGINT, shedlock_skip_until BIGINT); \
        INSERT INTO shedlock (name) VALUES ('a')";
    run(&sandbox, table).await;
    doctor(&sandbox.store()).has_only("end", "error", "\"a\" (no end)");
    cannot_run(&sandbox.store(), "a", "can never be taken");
    let freed = done(&mut sandbox.shedlock(&["unlock", "a", "--force"]));
    assert_eq!(freed.code, 69, "{freed:?}");
    assert!(
        freed.stderr.contains("; delete it or set lock_until"),
        "{freed:?}"
    );
}

/// SQLite stores a text in a column of integers.
#[tokio::test]
async fn a_text_in_a_column_of_times_is_named() {
    let sandbox = Sandbox::migrated();
    for name in ["a", "b"] {
        let ran = done(&mut sandbox.run(name, "1m", "true"));
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let wrong = "UPDATE shedlock SET lock_until = 'abc' WHERE name = 'a'";
    run(&sandbox, wrong).await;
    let what = "the record in table \"shedlock\" holds a value that neither shedlock nor ShedLock \
        writes: column \"lock_until\" holds \"abc\"";
    let remedy = "check what wrote it, then correct it or delete the record";
    cannot_run(&sandbox.store(), "a", &format!("sqlite: {what}; {remedy}"));
    let shown = done(&mut sandbox.shedlock(&["show", "a"]));
    assert_eq!(shown.code, 69, "{shown:?}");
    let listed = done(&mut sandbox.shedlock(&["list"]));
    assert_eq!(listed.code, 0, "{listed:?}");
    let warning =
        format!("shedlock: warning: lock \"a\" in sqlite is left out: {what}; {remedy}\n");
    assert_eq!(listed.stderr, warning);
    let report = doctor(&sandbox.store());
    report.has_only("records", "error", &format!("never run: \"a\" ({what})"));
    let found = report
        .findings
        .iter()
        .find(|it| it.check == "records")
        .unwrap();
    let advice = "check what wrote them, then fix or delete them";
    assert_eq!(found.remedy.as_deref(), Some(advice));
}

/// As a user without a right to write: root has one that it has to give up.
#[test]
fn a_file_and_a_folder_without_a_right_to_write_are_not_missed() {
    let folder = Sandbox::new();
    std::fs::create_dir(folder.path("locks")).unwrap();
    let store = format!("sqlite:{}", folder.path("locks/locks.db").display());
    let bare = |arguments: &[&str]| {
        let mut command = folder.bare(&[]);
        if rustix::process::geteuid().is_root() {
            command = std::process::Command::new("setpriv");
            command
                .arg("--bounding-set=-dac_override,-dac_read_search")
                .arg(env!("CARGO_BIN_EXE_shedlock"));
        }
        done(command.args(arguments).env("SHEDLOCK_STORE", &store))
    };
    let migrated = bare(&["migrate", "--no-journal"]);
    assert_eq!(migrated.code, 0, "{migrated:?}");
    let set = |path: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.path(path), mode).unwrap();
    };
    for (path, closed, open, words) in [
        (
            "locks/locks.db",
            0o400,
            0o600,
            "cannot be opened for writing",
        ),
        (
            "locks",
            0o500,
            0o700,
            "cannot create files in the directory",
        ),
    ] {
        set(path, closed);
        let found = report(&bare(&["doctor", "-o", "json"]));
        let run = ["run", "-n", "a", "--lock-at-most-for", "1m", "--", "true"];
        let ran = bare(&run);
        set(path, open);
        found.has_only("setup", "error", words);
        assert_eq!(ran.code, 69, "{ran:?}");
        let start = "shedlock: a: the command was not started: sqlite: ";
        assert!(ran.stderr.starts_with(start), "{ran:?}");
        for words in [words, ": Permission denied", "run as a user who may"] {
            assert!(ran.stderr.contains(words), "{ran:?}");
        }
        report(&bare(&["doctor", "-o", "json"])).is_healthy();
    }
}

#[test]
fn a_missing_file_is_found_and_not_created() {
    let sandbox = Sandbox::new();
    doctor(&sandbox.store()).has_only("setup", "error", "locks.db");
    assert!(!sandbox.path("locks.db").exists());
}

#[test]
fn people_get_one_line_per_check_and_a_summary() {
    let sandbox = Sandbox::migrated();
    done(&mut sandbox.shedlock(&["pause", "a", "--create"]));
    let shown = done(&mut sandbox.shedlock(&["doctor"]));
    assert_eq!((shown.code, &*shown.stderr), (0, ""));
    let lines: Vec<_> = shown.stdout.lines().collect();
    assert!(lines[0].starts_with("ok       setup"), "{}", shown.stdout);
    let paused = lines
        .iter()
        .position(|line| line.starts_with("warning  paused"));
    let remedy = lines[paused.unwrap() + 1].trim_start();
    assert!(remedy.starts_with("-> run `shedlock resume"), "{remedy}");
    assert!(lines.last().unwrap().ends_with("2 warnings, 0 errors"));
    assert_eq!(done(&mut sandbox.shedlock(&["doctor", "--strict"])).code, 1);
    let wrong = sandbox.bare(&["doctor", "--store", "nosuch://h"]).output();
    assert_eq!(wrong.unwrap().status.code(), Some(2));
}

/// Nothing listens on port 1.
#[test]
fn a_store_that_is_unreachable_is_a_finding() {
    let report = doctor("postgres://127.0.0.1:1/x");
    report.has_only("reachable", "error", "127.0.0.1:1");
}

//! A lock table that was dropped beside its journal: what it contained is missed, not forgotten.

use super::common::{Done, Sandbox, done, sql};
use super::ui::Server;

const SLOT: [&str; 2] = ["--every", "1d"];

fn shedlock(sandbox: &Sandbox, arguments: &[&str]) -> Done {
    done(&mut sandbox.shedlock(arguments))
}

/// The finding of `doctor` about lost state: its level and its text.
fn finding(sandbox: &Sandbox) -> (String, String) {
    let shown = shedlock(sandbox, &["doctor", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let found = findings.iter().find(|it| it["check"] == "lost-state");
    let text = |field: &str| found.unwrap()[field].as_str().unwrap().to_owned();
    (text("level"), text("message"))
}

#[test]
fn a_dropped_lock_table_is_missed_by_migrate_and_doctor() {
    let sandbox = Sandbox::new();
    assert_eq!(shedlock(&sandbox, &["migrate"]).code, 0);
    for name in ["ran", "other"] {
        let ran = done(&mut sandbox.run_with(name, "1m", &SLOT, "true"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let paused = sandbox.run("payroll", "1m", "true").output().unwrap();
    assert!(paused.status.success());
    assert_eq!(shedlock(&sandbox, &["pause", "payroll"]).code, 0);
    let healthy = (
        "ok".to_owned(),
        "the locks have the slots and pauses of the journal".to_owned(),
    );
    assert_eq!(finding(&sandbox), healthy);
    // A pause that an operator ended, and a slot that one has set, are meant so.
    assert_eq!(shedlock(&sandbox, &["pause", "other"]).code, 0);
    assert_eq!(shedlock(&sandbox, &["resume", "other"]).code, 0);
    let reset = ["slot", "reset", "other", "--to", "2026-01-01T00:00:00Z"];
    assert_eq!(shedlock(&sandbox, &reset).code, 0);
    assert_eq!(finding(&sandbox), healthy);

    sql(&sandbox, "DROP TABLE shedlock");
    let migrated = shedlock(&sandbox, &["migrate"]);
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let lost = "the journal has what the locks have lost: the last slot of ran (";
    let start = format!("shedlock: {lost}");
    assert!(migrated.stderr.starts_with(&start), "{}", migrated.stderr);
    let (level, text) = finding(&sandbox);
    assert_eq!(level, "warning");
    assert!(text.starts_with(lost), "{text}");
    assert!(text.contains("), the pause of payroll by "), "{text}");
    assert!(text.ends_with("(until it is resumed)"), "{text}");
    // What the operator does about it ends the finding.
    for name in ["payroll", "ran"] {
        assert_eq!(shedlock(&sandbox, &["pause", name, "--create"]).code, 0);
    }
    let ran = done(&mut sandbox.run_with("ran", "1m", &SLOT, "echo again"));
    assert_eq!((ran.code, &*ran.stdout), (0, ""));
    assert_eq!(shedlock(&sandbox, &["resume", "ran"]).code, 0);
}

/// What is not known is not shown as zero, nor a store that cannot be read as one that is well.
#[test]
fn the_dashboard_of_a_store_that_cannot_be_read_shows_no_zeros() {
    let sandbox = Sandbox::new();
    assert_eq!(shedlock(&sandbox, &["migrate"]).code, 0);
    let ran = done(&mut sandbox.run("a", "1m", "true"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let server = Server::start(&sandbox, &[]);
    let now = server.get("/now", "");
    assert!(now.contains("<dt>overdue</dt><dd>0</dd>"), "{now}");
    assert!(now.contains("Nothing needs your attention."), "{now}");
    assert_eq!(server.stop().code, 0);

    sql(&sandbox, "DROP TABLE shedlock");
    let server = Server::start(&sandbox, &[]);
    let now = server.get("/now", "");
    for title in ["running", "overdue", "failed in 24 h", "paused"] {
        let tile = format!("<dt>{title}</dt><dd>–</dd>");
        assert!(now.contains(&tile), "{title}: {now}");
    }
    assert!(now.contains("the store cannot be read: "), "{now}");
    assert!(now.contains("Which locks are held is not known."), "{now}");
    assert!(!now.contains("Nothing needs your attention."), "{now}");
    assert_eq!(server.stop().code, 0);
}

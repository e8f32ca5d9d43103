//! A lock table that was dropped beside its journal: what it contained is missed, not forgotten.

use super::common::{Done, Sandbox, done, sql};
use super::server::Server;

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

const LOST: &str = "the journal has what the locks have lost: ";

#[test]
fn what_a_dropped_lock_table_contained_is_missed_and_restored() {
    let sandbox = Sandbox::new();
    assert_eq!(shedlock(&sandbox, &["migrate"]).code, 0);
    let slot = |name: &str, script: &str| done(&mut sandbox.run_with(name, "1m", &SLOT, script));
    for name in ["ran", "other"] {
        let ran = slot(name, "true");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let payroll = |script: &str| done(&mut sandbox.run("payroll", "1m", script));
    assert_eq!(payroll("true").code, 0);
    let open = [
        "--must-not-be-lost",
        "--max-attempts",
        "3",
        "--retry-backoff",
        "50ms",
    ];
    let open = [&SLOT[..], &open].concat();
    let unfinished = done(&mut sandbox.run_with("unfinished", "1m", &open, "exit 1"));
    assert_eq!(unfinished.code, 1, "{}", unfinished.stderr);
    let often = |script: &str| {
        let often = ["--every", "1s", "--must-not-be-lost"];
        done(&mut sandbox.run_with("often", "1m", &often, script))
    };
    assert_eq!(often("true").code, 0);
    let paused = shedlock(&sandbox, &["pause", "payroll", "--reason", "year end"]);
    assert_eq!(paused.code, 0, "{}", paused.stderr);
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

    let day = sandbox.lock("ran")["last_slot"]
        .as_str()
        .unwrap()
        .to_owned();
    sql(&sandbox, "DROP TABLE shedlock");
    let migrated = shedlock(&sandbox, &["migrate"]);
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let said =
        "shedlock: this lock store has no identity, and the journal has the last slot of often (";
    assert!(migrated.stderr.starts_with(said), "{}", migrated.stderr);
    assert!(!migrated.stdout.contains("identity"), "{}", migrated.stdout);
    let (level, text) = finding(&sandbox);
    assert_eq!(level, "warning");
    assert!(text.starts_with(LOST), "{text}");
    assert!(text.contains(", the pause of payroll by "), "{text}");
    assert!(text.contains(" (until it is resumed)"), "{text}");

    // Until someone has looked at it, neither runs, and what has lost nothing does.
    for refused in [payroll("echo again"), slot("ran", "echo again")] {
        assert_eq!(
            (refused.code, &*refused.stdout),
            (69, ""),
            "{}",
            refused.stderr
        );
        let advice = "run `shedlock migrate --restore-from-journal --yes";
        assert!(refused.stderr.contains(advice), "{}", refused.stderr);
    }
    assert_eq!(slot("new", "echo new").stdout, "new\n");
    let again = often("echo again");
    assert_eq!(again.stdout, "again\n", "{}", again.stderr);

    let restore = ["migrate", "--restore-from-journal"];
    let printed = shedlock(&sandbox, &restore);
    let lines = format!(
        "payroll: paused until it is resumed\n\
         ran: slot {day}, which is done\n\
         unfinished: slot {day}, open after 3 attempts\n"
    );
    assert_eq!(printed.stdout, lines, "{}", printed.stderr);
    let said = "shedlock: nothing was changed; to put this back, add --yes\n";
    assert_eq!(printed.stderr, said);
    assert_eq!(finding(&sandbox).0, "warning");
    let restored = shedlock(&sandbox, &[&restore[..], &["--yes"]].concat());
    assert_eq!(restored.stdout, lines.replace('\n', ": restored\n"));
    assert_eq!((restored.code, &*restored.stderr), (0, ""));
    assert_eq!(finding(&sandbox), healthy);
    let skipped = payroll("echo again");
    assert_eq!((skipped.code, &*skipped.stdout), (0, ""));
    assert!(skipped.stderr.contains("(year end)"), "{}", skipped.stderr);
    assert_eq!(slot("ran", "echo again").stdout, "");
    let record = sandbox.lock("unfinished");
    assert_eq!(record["slot_attempts"], 3, "{record}");
    // It is not done twice, and the audit has it.
    let again = shedlock(&sandbox, &[&restore[..], &["--yes"]].concat());
    assert_eq!((again.code, &*again.stdout), (0, ""), "{}", again.stderr);
    let history = shedlock(&sandbox, &["history", "ran", "-o", "json"]).stdout;
    let history: serde_json::Value = serde_json::from_str(&history).unwrap();
    assert_eq!(history["actions"][0]["action"], "restore", "{history}");
}

/// A slot that is later than the one in the journal stays, whatever was restored before it.
#[test]
fn nothing_is_restored_backwards_or_from_another_store() {
    let sandbox = Sandbox::new();
    assert_eq!(shedlock(&sandbox, &["migrate"]).code, 0);
    for name in ["later", "elsewhere"] {
        let ran = done(&mut sandbox.run_with(name, "1m", &SLOT, "true"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    assert_eq!(shedlock(&sandbox, &["pause", "elsewhere"]).code, 0);
    // As if another environment had recorded it.
    sql(
        &sandbox,
        "UPDATE shedlock_job SET last_lock_store = 'x/1/2' WHERE job = 'elsewhere'",
    );
    sql(&sandbox, "UPDATE shedlock_audit SET lock_store = 'x/1/2'");
    sql(&sandbox, "DELETE FROM shedlock WHERE name = 'elsewhere'");
    // The journal is older than the lock.
    sql(
        &sandbox,
        "UPDATE shedlock_job SET last_slot_us = last_slot_us - 86400000000 WHERE job = 'later'",
    );
    assert_eq!(finding(&sandbox).0, "ok");
    let restore = ["migrate", "--restore-from-journal", "--yes"];
    let restored = shedlock(&sandbox, &restore);
    assert_eq!((restored.code, &*restored.stdout), (0, ""), "{restored:?}");
    let of_other = ["migrate", "--restore-from-journal=x/1/2"];
    let refused = shedlock(&sandbox, &of_other);
    assert_eq!((refused.code, &*refused.stdout), (2, ""));
    assert!(
        refused
            .stderr
            .contains("the records of another store are not restored here"),
        "{}",
        refused.stderr
    );
    // An emptied store beside the records of two must be told which it was.
    sql(&sandbox, "DELETE FROM shedlock");
    let refused = shedlock(&sandbox, &restore);
    assert_eq!((refused.code, &*refused.stdout), (2, ""));
    assert!(refused.stderr.contains("x/1/2"), "{}", refused.stderr);
    let own = shedlock(&sandbox, &["migrate", "--new-identity"]);
    assert_eq!(
        own.stdout, "sqlite: gave the lock store an identity\n",
        "{}",
        own.stderr
    );
    assert_eq!(shedlock(&sandbox, &restore).stdout, "");
    assert_eq!(
        done(&mut sandbox.run("elsewhere", "1m", "echo ran")).stdout,
        "ran\n"
    );
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

//! Removing the records of locks that are no longer used.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _};

use super::common::{Done, Sandbox, done, end};

fn pruned(sandbox: &Sandbox, arguments: &[&str]) -> Done {
    let mut command = sandbox.shedlock(&["prune", "--idle-for", "90d"]);
    done(command.args(arguments))
}

fn ran(sandbox: &Sandbox, name: &str) {
    let done = done(&mut sandbox.run(name, "60s", "true"));
    assert_eq!(done.code, 0, "{done:?}");
}

fn sql(sandbox: &Sandbox, sql: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::SqliteConnection::connect(&sandbox.store())
            .await
            .unwrap();
        let query = sqlx::query(AssertSqlSafe(sql.to_owned()));
        query.execute(&mut connection).await.unwrap();
    });
}

/// Makes the records of these names look as if they had been used this many days ago.
fn age(sandbox: &Sandbox, names: &str, days: u64) {
    let micros = days * 86_400_000_000;
    let millis = micros / 1_000;
    sql(
        sandbox,
        &format!(
            "UPDATE shedlock SET lock_until = lock_until - {millis}, locked_at = locked_at - {millis}, \
             shedlock_fencing_token = shedlock_fencing_token - {micros}, \
             shedlock_slot = shedlock_slot - {micros}, \
             shedlock_slot_done = shedlock_slot_done - {micros} WHERE name GLOB '{names}'"
        ),
    );
}

fn names(sandbox: &Sandbox) -> Vec<String> {
    let listed = done(&mut sandbox.shedlock(&["list", "-o", "json"]));
    let json: Value = serde_json::from_str(&listed.stdout).unwrap();
    let locks = json["locks"].as_array().unwrap().iter();
    locks
        .map(|lock| lock["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Two records that were used 100 days ago, and one that was used now.
fn with_old_records() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in ["expire-acme", "expire-wayne", "mail"] {
        ran(&sandbox, name);
    }
    age(&sandbox, "expire-*", 100);
    sandbox
}

#[test]
fn it_shows_what_it_would_remove_and_removes_it_only_if_told_to() {
    let sandbox = with_old_records();
    let shown = pruned(&sandbox, &[]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let lines: Vec<_> = shown.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{shown:?}");
    assert!(
        lines[0].starts_with("expire-acme: would be removed; idle for 100d (since 20"),
        "{shown:?}"
    );
    assert!(
        lines[1].starts_with("expire-wayne: would be removed; "),
        "{shown:?}"
    );
    assert_eq!(
        shown.stderr,
        "shedlock: would remove 2 of 3 records: nothing was changed; to remove them, add --yes\n"
    );
    assert_eq!(names(&sandbox), ["expire-acme", "expire-wayne", "mail"]);

    let before = sandbox.lock("expire-acme");
    let removed = pruned(&sandbox, &["--yes"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert!(
        removed
            .stdout
            .starts_with("expire-acme: removed; idle for 100d (since "),
        "{removed:?}"
    );
    assert_eq!(removed.stdout.lines().count(), 2, "{removed:?}");
    assert_eq!(removed.stderr, "shedlock: removed 2 of 3 records\n");
    assert_eq!(names(&sandbox), ["mail"]);
    let again = pruned(&sandbox, &["--yes"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, ""), "{again:?}");
    assert_eq!(
        again.stderr,
        "shedlock: no record to remove: 1 seen, none of them idle for 90d\n"
    );

    ran(&sandbox, "expire-acme");
    let after = sandbox.lock("expire-acme");
    let token = |lock: &Value| lock["fencing_token"].as_u64().unwrap();
    assert!(token(&after) > token(&before), "{before} {after}");
}

#[test]
fn patterns_and_names_choose_the_locks() {
    let sandbox = with_old_records();
    age(&sandbox, "mail", 100);
    ran(&sandbox, "expire-*");
    let exact = pruned(&sandbox, &["expire-*"]);
    assert_eq!((exact.code, exact.stdout.as_str()), (1, ""), "{exact:?}");
    assert!(
        exact
            .stderr
            .contains("expire-*: not removed: it was last used at 20"),
        "{exact:?}"
    );
    sql(&sandbox, "DELETE FROM shedlock WHERE name = 'expire-*'");
    let matching = pruned(&sandbox, &["expire-*", "--yes"]);
    assert_eq!(matching.code, 0, "{matching:?}");
    assert_eq!(matching.stdout.lines().count(), 2, "{matching:?}");
    assert_eq!(names(&sandbox), ["mail"]);
    let none = pruned(&sandbox, &["expire-*", "--yes"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""), "{none:?}");
    let named = pruned(&sandbox, &["mail", "mail", "--yes"]);
    assert_eq!(named.code, 0, "{named:?}");
    assert!(named.stdout.starts_with("mail: removed; "), "{named:?}");
    let gone = pruned(&sandbox, &["mail", "--yes"]);
    assert_eq!(gone.code, 1, "{gone:?}");
    assert!(gone.stderr.contains("mail: not removed: "), "{gone:?}");
}

#[test]
fn a_named_lock_that_is_kept_is_reported_with_the_reason() {
    let sandbox = Sandbox::new();
    let slots = ["--every", "1h", "--must-not-be-lost", "--max-attempts", "1"];
    let failed = done(&mut sandbox.run_with("open", "60s", &slots, "exit 3"));
    assert_ne!(failed.code, 0, "{failed:?}");
    age(&sandbox, "open", 100);
    let said = "shedlock: no record to remove: 1 seen, 1 of them idle for 90d but kept; give a name to see \
                why\n";
    let all = pruned(&sandbox, &[]);
    assert_eq!((all.code, all.stderr.as_str()), (0, said), "{all:?}");
    let kept = pruned(&sandbox, &["open", "--yes"]);
    assert_eq!((kept.code, kept.stdout.as_str()), (1, ""), "{kept:?}");
    assert!(
        kept.stderr.contains("open: not removed: its slot 20")
            && kept
                .stderr
                .contains("run `shedlock slot reset open --to 20"),
        "{kept:?}"
    );

    let script = "echo up > up; until [ -e go ]; do sleep 0.02; done";
    let running = sandbox.run("held", "60s", script).spawn().unwrap();
    sandbox.await_lines("up", 1);
    let kept = pruned(&sandbox, &["held", "--yes"]);
    assert_eq!(kept.code, 1, "{kept:?}");
    assert!(
        kept.stderr.contains("held: not removed: it is held"),
        "{kept:?}"
    );
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(running).code, 0);

    ran(&sandbox, "poisoned");
    age(&sandbox, "poisoned", 100);
    let token =
        "UPDATE shedlock SET shedlock_fencing_token = 9000000000000000 WHERE name = 'poisoned'";
    sql(&sandbox, token);
    let kept = pruned(&sandbox, &["poisoned", "--yes"]);
    assert_eq!(kept.code, 1, "{kept:?}");
    assert!(
        kept.stderr
            .contains("its fencing token is ahead of the store's clock"),
        "{kept:?}"
    );
    assert_eq!(names(&sandbox), ["held", "open", "poisoned"]);
}

#[test]
fn a_job_whose_last_slot_is_still_the_newest_is_kept_if_the_journal_shows_its_schedule() {
    let sandbox = Sandbox::migrated();
    let migrated = done(&mut sandbox.shedlock(&["migrate", "--journal"]));
    assert_eq!(migrated.code, 0, "{migrated:?}");
    for name in ["yearly", "retired"] {
        let schedule = ["--schedule", "0 0 1 1 *"];
        let ran = done(&mut sandbox.run_with(name, "60s", &schedule, "true"));
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    age(&sandbox, "*", 400);
    let retired = format!(
        "UPDATE shedlock_job SET next_slot_us = next_slot_us - {} WHERE job = 'retired'",
        400 * 86_400_000_000_u64
    );
    sql(&sandbox, &retired);
    let removed = pruned(&sandbox, &["--yes"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert!(
        removed.stdout.starts_with("retired: removed; "),
        "{removed:?}"
    );
    assert_eq!(names(&sandbox), ["yearly"]);
    let kept = pruned(&sandbox, &["yearly", "--yes"]);
    assert_eq!(kept.code, 1, "{kept:?}");
    assert!(
        kept.stderr
            .contains("yearly: not removed: its job has a schedule whose next slot is 20"),
        "{kept:?}"
    );
}

#[test]
fn a_record_of_shedlock_is_removed_too() {
    let sandbox = Sandbox::migrated();
    let old = "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
               VALUES ('java', 1700000060000, 1700000000000, 'web-3')";
    sql(&sandbox, old);
    let removed = pruned(&sandbox, &["--yes"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert!(
        removed.stdout.starts_with("java: removed; idle for ")
            && removed
                .stdout
                .ends_with(" (since 2023-11-14T22:14:20Z), last owner web-3\n"),
        "{removed:?}"
    );
    assert!(names(&sandbox).is_empty());
}

#[test]
fn many_records_are_removed_page_by_page() {
    let sandbox = Sandbox::migrated();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2345) \
                INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
                SELECT 'expire-' || i, 1700000060000, 1700000000000, 'web-3' FROM n";
    sql(&sandbox, many);
    ran(&sandbox, "mail");
    let removed = pruned(&sandbox, &["--yes", "-o", "json"]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    assert_eq!(removed.stderr, "shedlock: removed 2345 of 2346 records\n");
    let json: Value = serde_json::from_str(&removed.stdout).unwrap();
    assert_eq!(json["locks"].as_array().unwrap().len(), 2345);
    assert_eq!(names(&sandbox), ["mail"]);
}

#[test]
fn json_says_whether_the_records_are_gone() {
    let sandbox = with_old_records();
    for (arguments, dry_run, count) in [
        (&["-o", "json"][..], true, 2),
        (&["-o", "json", "--yes", "--quiet"], false, 2),
        (&["-o", "json"], true, 0),
    ] {
        let done = pruned(&sandbox, arguments);
        assert_eq!(done.code, 0, "{done:?}");
        let json: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(
            (&json["version"], &json["store"]),
            (&1.into(), &"sqlite".into())
        );
        assert_eq!(json["dry_run"], dry_run);
        let locks = json["locks"].as_array().unwrap();
        assert_eq!(locks.len(), count, "{json}");
        if let Some(first) = locks.first() {
            assert_eq!(
                (&first["name"], &first["state"]),
                (&"expire-acme".into(), &"free".into())
            );
        }
        assert_eq!(
            done.stderr.is_empty(),
            arguments.contains(&"--quiet"),
            "{done:?}"
        );
    }
}

#[test]
fn a_wrong_idle_time_is_refused() {
    let sandbox = with_old_records();
    for (idle, why) in [
        ("23h", "it must be at least 1d: "),
        ("90", "write it with its unit"),
        ("-90d", "it must not be negative"),
    ] {
        let refused = done(&mut sandbox.shedlock(&["prune", "--yes", "--idle-for", idle]));
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (2, ""),
            "{refused:?}"
        );
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
    let missing = done(&mut sandbox.shedlock(&["prune", "--yes"]));
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.stderr.contains("--idle-for"), "{missing:?}");
    assert_eq!(names(&sandbox).len(), 3);
}

#[test]
fn a_removal_is_recorded_in_the_journal() {
    let sandbox = with_old_records();
    let journal = done(&mut sandbox.shedlock(&["migrate", "--journal"]));
    assert_eq!(journal.code, 0, "{journal:?}");
    // What is only shown is not recorded.
    for yes in [&[][..], &["--yes"]] {
        assert_eq!(pruned(&sandbox, yes).code, 0);
    }
    let shown = done(&mut sandbox.shedlock(&["history", "expire-acme", "-o", "json"]));
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let actions = shown["actions"].as_array().unwrap();
    assert_eq!(actions.len(), 1, "{shown}");
    assert_eq!(actions[0]["action"], "prune");
    let detail = actions[0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("not used since 20"), "{detail}");
}

#[test]
fn a_pattern_that_matches_nothing_is_reported() {
    let sandbox = with_old_records();
    let done = pruned(&sandbox, &["zz*"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("matches \"zz*\"\n"), "{done:?}");
}

//! Slots that must not be lost, and slots that are repaired by hand.

use std::io::{BufRead as _, BufReader};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::common::{Sandbox, calendar, done, end, signal, sql};

const UTC: [&str; 2] = ["--schedule", "0 0 1 1 *"];
/// The same local time, nine hours earlier.
const SEOUL: [&str; 4] = ["--schedule", "0 0 1 1 *", "--zone", "Asia/Seoul"];
const NOT_LOST: [&str; 3] = ["--must-not-be-lost", "--retry-backoff", "100ms"];

fn run(sandbox: &Sandbox, at_most: &str, options: &[&[&str]], script: &str) -> Command {
    sandbox.run_with("a", at_most, &options.concat(), script)
}

fn slots() -> [String; 2] {
    let now = jiff::Timestamp::try_from(calendar()).unwrap();
    let year = now.to_zoned(jiff::tz::TimeZone::UTC).year();
    [
        format!("{}-12-31T15:00:00Z", year - 1),
        format!("{year}-01-01T00:00:00Z"),
    ]
}

#[test]
fn a_failure_is_tried_again_until_it_succeeds() {
    let sandbox = Sandbox::new();
    let script = "echo $SHEDLOCK_SLOT_ATTEMPT; exit $((3 - SHEDLOCK_SLOT_ATTEMPT))";
    let first = done(&mut run(&sandbox, "60s", &[&UTC, &NOT_LOST], script));
    assert_eq!((first.code, first.stdout.as_str()), (0, "1\n2\n3\n"));
    let lock = sandbox.lock("a");
    let [_, slot] = slots();
    assert_eq!(lock["last_slot"], slot);
    assert_eq!(lock["last_slot_done"], slot);
    assert!(lock["slot_attempts"].is_null());

    let second = done(&mut run(&sandbox, "60s", &[&UTC, &NOT_LOST], script));
    let said = format!("shedlock: a: skipped slot {slot}: already taken\n");
    assert_eq!((second.code, second.stderr), (0, said));
}

#[test]
fn a_store_that_fails_between_two_attempts_does_not_deny_the_first() {
    let sandbox = Sandbox::new();
    let options = [&UTC[..], &["--must-not-be-lost", "--retry-backoff", "10s"]];
    let mut child = run(&sandbox, "60s", &options, "exit 7").spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("attempt 1 of 5 at slot"), "{first}");
    // A view in the table's place, because a new connection would create a missing table.
    // In one transaction: an attempt in between would create the table.
    let statements = "BEGIN IMMEDIATE; ALTER TABLE shedlock RENAME TO away; \
        CREATE VIEW shedlock AS SELECT 1 AS x; COMMIT";
    sql(&sandbox, statements);
    let last = lines.last().unwrap().unwrap();
    assert_eq!(end(child).code, 69, "{last}");
    let start = "shedlock: a: the command was not started again: sqlite: ";
    assert!(last.starts_with(start), "{last}");
}

#[test]
fn the_last_failure_is_the_answer_and_the_slot_is_given_up() {
    let sandbox = Sandbox::new();
    let options = [&UTC[..], &NOT_LOST, &["--max-attempts", "2"]];
    let failed = done(&mut run(&sandbox, "60s", &options, "echo x; exit 7"));
    assert_eq!((failed.code, failed.stdout.as_str()), (7, "x\nx\n"));
    assert!(failed.stderr.contains("given up"), "{}", failed.stderr);
    assert!(sandbox.lock("a")["last_slot_done"].is_null());
    // The backoff still keeps the lock. Waiting for it succeeds.
    let options = [&options[..], &[&["--lock-wait", "20s"]]].concat();
    let skipped = done(&mut run(&sandbox, "60s", &options, "echo ran"));
    assert_eq!((skipped.code, skipped.stdout.as_str()), (76, ""));
    let lines = skipped.stderr.lines();
    let said: Vec<&str> = lines.filter(|line| line.contains("given up")).collect();
    assert_eq!(said.len(), 1, "{}", skipped.stderr);
    assert!(
        said[0].starts_with("shedlock: a: not run: slot ")
            && said[0].contains("`shedlock slot reset a --to "),
        "{}",
        skipped.stderr
    );
}

#[test]
fn the_slot_of_one_that_died_is_taken_over() {
    let sandbox = Sandbox::new();
    let script = "echo $$ >> pids; exec sleep 60";
    let mut first = run(&sandbox, "6s", &[&UTC, &NOT_LOST], script)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    let options = [&UTC[..], &NOT_LOST, &["--lock-wait", "60s"]];
    let second = run(&sandbox, "6s", &options, "echo $SHEDLOCK_SLOT_ATTEMPT")
        .spawn()
        .unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    let ended = end(second);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (0, "2\n"),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_slot_of_a_killed_run_does_not_wait_for_its_lease() {
    let sandbox = Sandbox::new();
    let script = "echo $$ >> pids; exec sleep 60";
    let mut first = run(&sandbox, "10m", &[&UTC, &NOT_LOST], script)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    first.kill().unwrap();
    let ended = end(first);
    assert!(
        ended.stderr.contains("released the lock"),
        "{}",
        ended.stderr
    );
    let lock = sandbox.lock("a");
    let [_, slot] = slots();
    assert_eq!(lock["last_slot"], slot);
    assert_eq!(lock["slot_attempts"], 1, "as if its host had died");
    assert!(lock["last_slot_done"].is_null());
    let second = done(&mut run(
        &sandbox,
        "60s",
        &[&UTC, &NOT_LOST],
        "echo $SHEDLOCK_SLOT_ATTEMPT",
    ));
    assert_eq!(second.stdout, "2\n", "{}", second.stderr);
}

#[test]
fn the_slot_of_a_killed_run_stays_used_up() {
    let sandbox = Sandbox::new();
    let script = "echo $$ >> pids; exec sleep 60";
    let mut first = run(&sandbox, "10m", &[&UTC], script).spawn().unwrap();
    sandbox.await_lines("pids", 1);
    first.kill().unwrap();
    end(first);
    assert_eq!(sandbox.lock("a")["state"], "free");
    let second = done(&mut run(&sandbox, "60s", &[&UTC], "echo ran"));
    assert_eq!(second.stdout, "", "{}", second.stderr);
    assert!(second.stderr.contains("already taken"), "{}", second.stderr);
}

/// Runs the earlier slot and sends TERM.
fn leave_earlier_slot_open(sandbox: &Sandbox) {
    let script = "echo x >> started; exec sleep 60";
    let told = run(sandbox, "60s", &[&SEOUL, &NOT_LOST], script)
        .spawn()
        .unwrap();
    sandbox.await_lines("started", 1);
    signal(told.id(), Signal::TERM);
    let ended = end(told);
    assert_eq!(ended.code, 143, "not tried again: {}", ended.stderr);
}

#[test]
fn an_open_slot_is_run_before_a_later_one() {
    let sandbox = Sandbox::new();
    leave_earlier_slot_open(&sandbox);
    let [earlier, later] = slots();
    assert_eq!(sandbox.lock("a")["last_slot"], earlier);
    assert_eq!(sandbox.lock("a")["slot_attempts"], 0);

    let script = "echo $SHEDLOCK_SLOT $SHEDLOCK_SLOT_ATTEMPT";
    let both = done(&mut run(&sandbox, "60s", &[&UTC, &NOT_LOST], script));
    assert_eq!(
        both.stdout,
        format!("{earlier} 1\n{later} 1\n"),
        "{}",
        both.stderr
    );
    assert_eq!(both.code, 0);
}

#[test]
fn a_slot_is_run_after_an_earlier_one_was_given_up() {
    let sandbox = Sandbox::new();
    leave_earlier_slot_open(&sandbox);
    let [earlier, later] = slots();
    let script = format!("echo $SHEDLOCK_SLOT; test $SHEDLOCK_SLOT = {later}");
    let options = ["--must-not-be-lost", "--retry-backoff", "2s"];
    let options = [&UTC[..], &options, &["--max-attempts", "1"]];
    let both = done(&mut run(&sandbox, "60s", &options, &script));
    let said = &both.stderr;
    assert!(said.contains("given up"), "{said}");
    assert_eq!(both.stdout, format!("{earlier}\n{later}\n"), "{said}");
    assert_eq!(both.code, 0);
}

#[test]
fn a_slot_is_used_up_by_a_failure_unless_it_must_not_be_lost() {
    let sandbox = Sandbox::new();
    let script = "echo x; exit ${SHEDLOCK_SLOT_ATTEMPT-7}";
    let failed = done(&mut run(&sandbox, "60s", &[&UTC], script));
    assert_eq!((failed.code, failed.stdout.as_str()), (7, "x\n"));
    let skipped = done(&mut run(&sandbox, "60s", &[&UTC], script));
    assert_eq!((skipped.code, skipped.stdout.as_str()), (0, ""));
    assert!(sandbox.lock("a")["last_slot_done"].is_null());
}

#[test]
fn a_poisoned_slot_is_reset() {
    let sandbox = Sandbox::new();
    // The slot that a host takes if its clock shows the year 2052.
    let far = ["--every", "30000d", "--slot-tolerance", "30000d"];
    assert_eq!(done(&mut run(&sandbox, "60s", &[&far], "true")).code, 0);
    let poisoned = "2052-02-20T00:00:00Z";
    for options in [&[&UTC[..]][..], &[&UTC, &NOT_LOST]] {
        let silenced = done(&mut run(&sandbox, "60s", options, "echo ran"));
        assert_eq!((silenced.code, silenced.stdout.as_str()), (76, ""));
        assert!(
            silenced.stderr.contains("`shedlock slot reset a`"),
            "{}",
            silenced.stderr
        );
    }

    let lock = sandbox.lock("a");
    assert_eq!(lock["last_slot_ahead"], true, "{lock}");
    for arguments in [&["show", "a"][..], &["list"]] {
        let shown = done(&mut sandbox.shedlock(arguments)).stdout;
        assert!(
            shown.contains(&format!("{poisoned} (ahead of the clock)")),
            "{shown}"
        );
    }

    let reset = |arguments: &[&str]| {
        let mut command = sandbox.shedlock(&["slot", "reset"]);
        done(command.args(arguments))
    };
    let repaired = reset(&["a"]);
    assert_eq!(repaired.code, 0, "{}", repaired.stderr);
    let said = format!("; it was {poisoned} (ahead of the clock)\n");
    assert!(repaired.stdout.ends_with(&said), "{}", repaired.stdout);
    let last: jiff::Timestamp = sandbox.lock("a")["last_slot"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(std::time::SystemTime::from(last) <= calendar());

    assert_eq!(sandbox.lock("a")["last_slot_ahead"], false);

    let again = reset(&["a", "-o", "json"]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("is not ahead"), "{}", again.stderr);
    let json: Value = serde_json::from_str(&again.stdout).unwrap();
    assert!(json["last_slot"].is_null());
    assert_eq!(json["lock"]["name"], "a");

    let earlier = reset(&["a", "--to", "2020-01-01T00:00:00Z"]);
    assert_eq!(earlier.code, 0, "{}", earlier.stderr);
    let said = "a: the last slot is now 2020-01-01T00:00:00Z; it was ";
    assert!(earlier.stdout.starts_with(said), "{}", earlier.stdout);
    let ran = done(&mut run(&sandbox, "60s", &[&UTC], "echo ran"));
    assert_eq!(ran.stdout, "ran\n", "{}", ran.stderr);

    let absent = reset(&["b"]);
    assert_eq!((absent.code, absent.stdout.as_str()), (1, ""));
    assert!(absent.stderr.contains("no such lock"), "{}", absent.stderr);
    assert_eq!(done(&mut sandbox.run("c", "60s", "true")).code, 0);
    let without = reset(&["c"]);
    assert_eq!((without.code, without.stdout.as_str()), (1, ""));
    assert!(without.stderr.contains("ever taken"), "{}", without.stderr);
}

#[test]
fn a_mistyped_reset_does_not_silence_a_job_for_years() {
    let sandbox = Sandbox::new();
    let ran = done(&mut run(&sandbox, "60s", &[&UTC], "true"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let reset = |arguments: &[&str]| {
        let mut command = sandbox.shedlock(&["slot", "reset", "a", "--to"]);
        done(command.args(arguments))
    };
    let far = "9999-01-01T00:00:00Z";
    let before = sandbox.lock("a")["last_slot"].clone();
    let refused = reset(&[far]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    let said = "shedlock: a: the last slot was not changed: 9999-01-01T00:00:00Z is more than a day \
                ahead of the store's clock, and no slot before it would run; check the time, or \
                confirm it with --force\n";
    assert_eq!(refused.stderr, said);
    assert_eq!(sandbox.lock("a")["last_slot"], before);
    let soon =
        jiff::Timestamp::try_from(calendar()).unwrap() + jiff::SignedDuration::from_hours(23);
    let set = reset(&[&soon.to_string()]);
    assert_eq!(set.code, 0, "{}", set.stderr);
    let set = reset(&[far, "--force"]);
    assert_eq!(set.code, 0, "{}", set.stderr);
    let lock = sandbox.lock("a");
    assert_eq!(
        (&lock["last_slot"], &lock["last_slot_ahead"]),
        (&far.into(), &true.into())
    );
}

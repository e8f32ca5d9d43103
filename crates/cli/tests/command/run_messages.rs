//! What `run` prints when something goes wrong: one line for each event, with its cause, and advice that works.

use rustix::process::Signal;
use sqlx::{Connection, Executor, SqliteConnection};

use super::common::{
    Done, Sandbox, calendar, done, end, eventually, gave_up_after, is_alive, now, signal,
};
use super::release::Writer;

const LEASE: &str = "6s";
const SLOT: [&str; 3] = ["--schedule", "0 0 1 1 *", "--must-not-be-lost"];
/// Until `go` exists.
const UNTIL_GO: &str = "echo $$ > pids; until [ -e go ]; do sleep 0.05; done; exit ${CODE-0}";

fn lines(done: &Done) -> Vec<&str> {
    done.stderr.lines().collect()
}

/// A run whose command has ended while the store's file is locked by another program, for longer than the lease.
fn released_too_late(sandbox: &Sandbox, busy_timeout: &str, options: &[&str], code: &str) -> Done {
    let store = format!("{}?busy_timeout={busy_timeout}", sandbox.store());
    let child = sandbox
        .run_with("a", LEASE, options, UNTIL_GO)
        .env("SHEDLOCK_STORE", store)
        .env("CODE", code)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    let until = sandbox.locked_until("a");
    let writer = Writer::of(sandbox);
    std::fs::write(sandbox.path("go"), "").unwrap();
    let pids = sandbox.pids("pids");
    eventually("the end of the command", || !is_alive(pids[0]));
    assert!(calendar() < until, "the machine is too slow for this test");
    eventually("the end of the lease", || calendar() > until);
    if busy_timeout == "20s" {
        writer.end();
        return end(child);
    }
    let done = end(child);
    writer.end();
    done
}

#[test]
fn a_failed_release_does_not_promise_that_the_lock_stays_taken_until_a_time_that_has_passed() {
    let sandbox = Sandbox::new();
    let ended = released_too_late(&sandbox, "7s", &[], "5");
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    let lines = lines(&ended);
    assert_eq!(lines.len(), 2, "{}", ended.stderr);
    let start = "shedlock: a: the lock was not released: sqlite";
    assert!(lines[1].starts_with(start), "{}", ended.stderr);
    let part = "; its lease has ended by itself, at 20";
    assert!(lines[1].contains(part), "{}", ended.stderr);
    for untrue in ["stays taken", "retry later", "unlock"] {
        assert!(!lines[1].contains(untrue), "{}", ended.stderr);
    }
}

#[test]
fn a_release_that_comes_after_the_lease_is_not_reported_as_an_overlap() {
    let sandbox = Sandbox::new();
    let ended = released_too_late(&sandbox, "20s", &[], "5");
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    let said = "shedlock: a: the lock was not released: the store did not reply in time; its \
                lease has ended by itself, at 20";
    let last = *lines(&ended).last().unwrap();
    assert!(last.starts_with(said), "{}", ended.stderr);
}

#[test]
fn a_success_that_is_not_recorded_does_not_pass_for_a_slot_that_is_done() {
    let sandbox = Sandbox::new();
    let ended = released_too_late(&sandbox, "7s", &SLOT, "0");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lock = sandbox.lock("a");
    assert!(lock["last_slot_done"].is_null(), "{lock}");
    let slot = lock["last_slot"].as_str().unwrap();
    let said = format!(
        "; slot {slot} is not recorded as done: the next start that gets the lock runs it again"
    );
    assert!(ended.stderr.trim_end().ends_with(&said), "{}", ended.stderr);
    let again = done(&mut sandbox.run_with("a", LEASE, &SLOT, "echo $SHEDLOCK_SLOT_ATTEMPT"));
    assert_eq!(again.stdout, "2\n", "{}", again.stderr);
}

#[test]
fn a_last_success_that_is_not_recorded_does_not_promise_another_run() {
    let sandbox = Sandbox::new();
    let options = [&SLOT[..], &["--max-attempts", "1"]].concat();
    let ended = released_too_late(&sandbox, "7s", &options, "0");
    let said = "is not recorded as done: it counts as given up, since it was the last attempt";
    assert!(ended.stderr.trim_end().ends_with(said), "{}", ended.stderr);
    let again = done(&mut sandbox.run_with("a", LEASE, &options, "echo ran"));
    assert_eq!((again.code, again.stdout.as_str()), (76, ""));
}

#[test]
fn an_extension_that_is_refused_is_reported_once_with_its_cause() {
    let sandbox = Sandbox::new();
    let child = sandbox
        .run_with("a", LEASE, &["--keep-alive"], UNTIL_GO)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut connection = SqliteConnection::connect(&sandbox.store()).await.unwrap();
        connection.execute("DROP TABLE shedlock").await.unwrap();
    });
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    let lines = lines(&ended);
    assert_eq!(lines.len(), 3, "{}", ended.stderr);
    let start = "shedlock: a: cannot extend the lease yet, retrying: sqlite: table \"shedlock\" is missing; create it";
    assert!(lines[0].starts_with(start), "{}", ended.stderr);
    assert_eq!(
        lines[1],
        "shedlock: a: the command was stopped: its lease could not be extended in time: table \"shedlock\" is missing"
    );
    let said = "shedlock: a: the lock was not released: table \"shedlock\" is missing; it becomes free by itself at 20";
    assert!(lines[2].starts_with(said), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("shedlock migrate").count(), 1);
}

#[test]
fn an_extension_that_is_retried_does_not_advise_its_user_to_retry() {
    let sandbox = Sandbox::new();
    let store = format!("{}?busy_timeout=30s", sandbox.store());
    let child = sandbox
        .run_with("a", LEASE, &["--keep-alive"], UNTIL_GO)
        .env("SHEDLOCK_STORE", store)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    let writer = Writer::of(&sandbox);
    let pids = sandbox.pids("pids");
    eventually("the end of the command", || !is_alive(pids[0]));
    writer.end();
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    let lines = lines(&ended);
    // Its worker may be waiting for the file still.
    let is_why = |line: &str| {
        line.contains("no reply from the store within ")
            || line.contains("cannot get a connection to the file in time")
    };
    let retrying = "shedlock: a: cannot extend the lease yet, retrying: ";
    assert!(lines[0].starts_with(retrying), "{}", ended.stderr);
    assert!(is_why(lines[0]), "{}", ended.stderr);
    let stopped = "shedlock: a: the command was stopped: its lease could not be extended in time: ";
    assert!(lines[1].starts_with(stopped), "{}", ended.stderr);
    assert!(is_why(lines[1]), "{}", ended.stderr);
    assert!(!ended.stderr.contains("same owner"), "{}", ended.stderr);
}

#[test]
fn a_lease_that_ends_while_run_is_suspended_is_not_blamed_on_the_store_alone() {
    let sandbox = Sandbox::new();
    let child = sandbox
        .run_with("a", LEASE, &["--keep-alive"], UNTIL_GO)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    signal(child.id(), Signal::STOP);
    let pids = sandbox.pids("pids");
    eventually("the end of the command", || !is_alive(pids[0]));
    signal(child.id(), Signal::CONT);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    let said = "shedlock: a: the command was stopped: its lease could not be extended in time: the \
                store did not reply, or this process was suspended; check the store and the load \
                of this host\n";
    assert!(ended.stderr.ends_with(said), "{}", ended.stderr);
}

#[test]
fn a_lost_lease_is_reported_once_with_all_its_causes() {
    let sandbox = Sandbox::new();
    let child = sandbox
        .run_with("a", LEASE, &["--keep-alive"], UNTIL_GO)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    let freed = done(&mut sandbox.shedlock(&["unlock", "--force", "a"]));
    assert_eq!(freed.code, 0, "{}", freed.stderr);
    let ended = end(child);
    let said = "shedlock: a: the command was stopped: its lease was lost (the lock was freed by \
                force or paused with --now, taken over while this process was suspended, or its record was changed)\n";
    assert_eq!(ended.stderr, said);
}

#[test]
fn a_lock_that_another_owner_has_taken_is_reported_before_the_lease_would_have_ended() {
    let sandbox = Sandbox::new();
    // The record is read when two thirds of the lease are left.
    let child = sandbox.run("a", "15s", UNTIL_GO).spawn().unwrap();
    sandbox.await_lines("pids", 1);
    let paused = done(&mut sandbox.shedlock(&["pause", "--now", "--reason", "disk full", "a"]));
    assert_eq!(paused.code, 0, "{}", paused.stderr);
    let extended = done(&mut sandbox.shedlock(&["extend", "a", "--for", "1h"]));
    let advice = "run `shedlock pause a --until TIME --reason 'disk full'`; to end it, run";
    assert!(extended.stderr.contains(advice), "{}", extended.stderr);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    assert_eq!(
        lines(&ended),
        [
            "shedlock: a: the command was stopped: its lease was lost (the lock was freed by force or paused with \
             --now, taken over while this process was suspended, or its record was changed)"
        ]
    );
}

#[test]
fn a_file_that_stays_locked_is_named_as_the_cause() {
    let sandbox = Sandbox::new();
    assert_eq!(done(&mut sandbox.run("a", LEASE, "true")).code, 0);
    let writer = Writer::of(&sandbox);
    let store = format!("{}?busy_timeout=30s&timeout=500ms", sandbox.store());
    let ran = done(sandbox.run("a", LEASE, "true").env("SHEDLOCK_STORE", store));
    writer.end();
    assert_eq!(ran.code, 69, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("kept the file locked"),
        "{}",
        ran.stderr
    );
    let given_up = "error: cannot withdraw an attempt";
    assert_eq!(ran.stderr.matches(given_up).count(), 1, "{}", ran.stderr);
    for wrong in ["server", "same owner", "disk failed while"] {
        assert!(!ran.stderr.contains(wrong), "{}", ran.stderr);
    }
}

#[test]
fn a_failed_attempt_is_reported_once_and_the_advice_after_the_last_one_works() {
    let sandbox = Sandbox::new();
    let more = ["--retry-backoff", "3s", "--max-attempts", "2"];
    let options = [&SLOT[..], &more].concat();
    let failed = done(&mut sandbox.run_with("a", LEASE, &options, "exit 4"));
    assert_eq!(failed.code, 4, "{}", failed.stderr);
    let slot = sandbox.lock("a")["last_slot"].as_str().unwrap().to_owned();
    let reported = lines(&failed);
    assert_eq!(reported.len(), 2, "{}", failed.stderr);
    assert_eq!(
        reported[0],
        format!(
            "shedlock: a: attempt 1 of 2 at slot {slot} failed (exit code 4); the next attempt is in \
             3s at the earliest"
        )
    );
    let start = format!(
        "shedlock: a: the last attempt at slot {slot} failed (attempt 2 of 2, exit code 4), and \
         the slot is given up; to try this slot again before the next one is due, run `shedlock \
         slot reset a "
    );
    assert!(reported[1].starts_with(&start), "{}", failed.stderr);

    // The pause after the last attempt keeps the lock.
    let refused = done(&mut sandbox.run_with("a", LEASE, &options, "echo ran"));
    assert_eq!(refused.code, 76, "{}", refused.stderr);
    let start =
        format!("shedlock: a: not run: slot {slot} was given up: all its attempts failed; to try");
    assert!(refused.stderr.starts_with(&start), "{}", refused.stderr);
    let advice = |text: &str| {
        let (_, rest) = text.split_once("; to try this slot again").unwrap();
        rest.trim_end().to_owned()
    };
    assert_eq!(advice(reported[1]), advice(&refused.stderr));

    let advice = advice(&refused.stderr);
    let (_, rest) = advice.split_once("`shedlock ").unwrap();
    let (reset, rest) = rest.split_once("`").unwrap();
    let reset: Vec<&str> = reset.split(' ').collect();
    // The part after `--store` hides passwords.
    let reset: Vec<&str> = reset
        .into_iter()
        .take_while(|word| *word != "--store")
        .collect();
    let reset = done(&mut sandbox.shedlock(&reset));
    assert_eq!(reset.code, 0, "{}", reset.stderr);
    let skipped = done(&mut sandbox.run_with("a", LEASE, &options, "echo ran"));
    let said = format!("shedlock: a: skipped slot {slot}: the lock stays taken until 20");
    assert!(skipped.stderr.starts_with(&said), "{}", skipped.stderr);
    let said = " although the run of ";
    assert!(skipped.stderr.contains(said), "{}", skipped.stderr);
    let said = " has ended (--lock-at-least-for, or --retry-backoff after a failure)\n";
    assert!(skipped.stderr.ends_with(said), "{}", skipped.stderr);
    let (_, wait) = rest
        .split_once("start this command again with --lock-wait ")
        .unwrap();
    let options = [&options[..], &["--lock-wait", wait]].concat();
    let ran = done(&mut sandbox.run_with("a", LEASE, &options, "echo ran"));
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "ran\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_wait_for_a_slow_store_is_not_reported_as_shorter_than_it_was() {
    let sandbox = Sandbox::new();
    // Without a table, which the command creates when it opens the store.
    std::fs::write(sandbox.path("locks.db"), "").unwrap();
    let writer = Writer::of(&sandbox);
    let store = format!("{}?busy_timeout=1500ms", sandbox.store());
    let mut run = sandbox.run_with("a", LEASE, &["--lock-wait", "200ms"], "echo ran");
    let began = now();
    let failed = done(run.env("SHEDLOCK_STORE", store));
    let took = now() - began;
    writer.end();
    assert_eq!(failed.code, 69, "{}", failed.stderr);
    let reported = gave_up_after(&failed.stderr);
    let said = " (--lock-wait 200ms): ";
    assert!(failed.stderr.contains(said), "{}", failed.stderr);
    assert!(reported <= took, "{reported:?} of {took:?}");
    // A connection has a second, however short the wait is.
    assert!(reported.as_millis() >= 1_000, "{reported:?} of {took:?}");
}

#[test]
fn a_missing_time_limit_is_not_called_a_limit_of_the_command_under_keep_alive() {
    let sandbox = Sandbox::new();
    let run = |options: &[&str]| {
        let mut run = sandbox.shedlock(&["run", "-n", "a"]);
        done(run.args(options).args(["--", "true"])).stderr
    };
    assert_eq!(
        run(&[]),
        "shedlock: a: --lock-at-most-for is not set: set it longer than the command can take, like \
         10m or 1h30m; the command is stopped before this time has passed, and if this host dies, \
         the lock stays taken until it has passed\n"
    );
    assert_eq!(
        run(&["--keep-alive"]),
        "shedlock: a: --lock-at-most-for is not set: set it to the time that the lock may stay \
         taken if this host dies, like 5m; with --keep-alive, the command may run longer\n"
    );
}

#[test]
fn the_help_does_not_promise_the_commands_own_code_or_one_run_where_these_can_fail() {
    let sandbox = Sandbox::new();
    let help = done(&mut sandbox.bare(&["run", "--help"])).stdout;
    let words: Vec<&str> = help.split_whitespace().collect();
    let help = words.join(" ");
    for part in [
        "(the run that makes the last attempt exits with the command's own code, or with 75 if the \
         command was stopped)",
        "A command that succeeded may run again if that could not be recorded (its host died, or \
         the store failed): it must be idempotent.",
    ] {
        assert!(help.contains(part), "{part}");
    }
}

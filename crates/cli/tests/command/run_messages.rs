//! What `run` prints when something goes wrong: one line for each event, with its cause, and advice that works.

use super::common::{Sandbox, done, now};
use super::release::Writer;

const LEASE: &str = "6s";

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
    let (_, reported) = failed.stderr.rsplit_once("; gave up after ").unwrap();
    let reported = reported.trim_end().strip_suffix(" (--lock-wait 200ms)");
    let reported: jiff::SignedDuration = reported.unwrap().parse().unwrap();
    let reported = std::time::Duration::try_from(reported).unwrap();
    assert!(reported <= took, "{reported:?} of {took:?}");
    assert!(reported.as_millis() >= 1_400, "{reported:?} of {took:?}");
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
        "(the start whose last attempt fails exits with the command's own code, or with 75 if the \
         command was stopped)",
        "A command that succeeded may run again if that could not be recorded (its host died, or \
         the store failed): it must be idempotent.",
    ] {
        assert!(help.contains(part), "{part}");
    }
}

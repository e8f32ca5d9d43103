//! Commands whose lease is extended while they run, and the bounds that still apply.

use std::process::Child;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use super::common::{
    FAMILY, Sandbox, all_gone, all_gone_before, calendar, done, end, eventually, is_alive, now,
    signal, watchdog_of,
};

/// Long enough for a busy machine: a third of it may pass between two extensions without any
/// effect.
const LEASE: &str = "6s";

/// Starts the script under a lease with keep-alive, and lets it run past the first end of its
/// lease.
fn run_past_the_first_lease(
    sandbox: &Sandbox,
    script: &str,
    processes: usize,
) -> (Child, Vec<u32>) {
    let child = sandbox
        .run_with("a", LEASE, &["--keep-alive"], script)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", processes);
    let first_end = sandbox.locked_until("a");
    eventually("the end of the first lease", || calendar() > first_end);
    let pids = sandbox.pids("pids");
    assert!(pids.iter().all(|pid| is_alive(*pid)), "the lease goes on");
    assert_eq!(sandbox.lock("a")["state"], "held");
    (child, pids)
}

/// Waits for the end of a job whose holder can do nothing more, and checks that it came in time.
fn gone_before_the_lease_ends(sandbox: &Sandbox, pids: &[u32]) -> SystemTime {
    let until = sandbox.locked_until("a");
    all_gone_before(until, pids);
    until
}

#[test]
fn a_command_may_take_longer_than_its_lease() {
    let sandbox = Sandbox::new();
    let script = "echo $$ >> pids; while [ ! -e go ]; do sleep 0.05; done; echo done; exit 7";
    let (child, _) = run_past_the_first_lease(&sandbox, script, 1);
    std::fs::write(sandbox.path("go"), "").unwrap();
    let done = end(child);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (7, "done\n"),
        "{}",
        done.stderr
    );
    assert_eq!(done.stderr, "");
    assert_eq!(sandbox.lock("a")["state"], "free");
}

#[test]
fn a_run_that_is_stopped_while_it_extends_has_no_command_left_when_the_lease_ends() {
    let sandbox = Sandbox::new();
    let (child, pids) = run_past_the_first_lease(&sandbox, FAMILY, 3);
    // Just after an extension: a process that is stopped inside a transaction of SQLite's keeps
    // the whole file locked.
    let before = sandbox.locked_until("a");
    eventually("an extension", || sandbox.locked_until("a") > before);
    signal(child.id(), Signal::STOP);
    let until = gone_before_the_lease_ends(&sandbox, &pids);
    eventually("the end of the lease", || calendar() > until);

    // Another owner has the lock now. A process that wakes up late extends and frees nothing.
    let other = sandbox
        .run("a", "60s", "echo x > other; sleep 30")
        .spawn()
        .unwrap();
    sandbox.await_lines("other", 1);
    let lock = sandbox.lock("a");
    signal(child.id(), Signal::CONT);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    assert_eq!(sandbox.lock("a")["owner"], lock["owner"]);
    assert_eq!(sandbox.lock("a")["locked_until"], lock["locked_until"]);
    signal(other.id(), Signal::TERM);
    end(other);
}

#[test]
fn a_run_that_is_killed_while_it_extends_has_no_command_left_when_the_lease_ends() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.05; done";
    let (mut child, pids) = run_past_the_first_lease(&sandbox, script, 1);
    child.kill().unwrap();
    child.wait().unwrap();
    gone_before_the_lease_ends(&sandbox, &pids);
}

#[test]
fn a_run_that_wakes_in_time_does_not_call_a_stopping_command_back() {
    let sandbox = Sandbox::new();
    // Reports when it gets TERM, and continues.
    let script = "trap 'echo term >> asked' TERM; echo $$ >> pids; \
                  while :; do sleep 0.05; done";
    let child = sandbox
        .run_with("a", "9s", &["--keep-alive"], script)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    signal(child.id(), Signal::STOP);
    sandbox.await_lines("asked", 1);
    // The lease still runs, so this process extends it again.
    signal(child.id(), Signal::CONT);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    assert!(all_gone(&sandbox.pids("pids")));
    assert_eq!(sandbox.lock("a")["state"], "free");
}

#[test]
fn a_lock_that_is_freed_by_force_ends_its_command() {
    let sandbox = Sandbox::new();
    let child = sandbox
        .run_with("a", LEASE, &["--keep-alive"], FAMILY)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 3);
    let freed = done(&mut sandbox.shedlock(&["unlock", "--force", "a"]));
    assert_eq!(freed.code, 0, "{}", freed.stderr);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    let said = "its lease was lost (the lock was freed by force";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(all_gone(&sandbox.pids("pids")));
}

#[test]
fn the_longest_run_ends_a_command_whose_lease_goes_on() {
    let sandbox = Sandbox::new();
    for options in [
        &["--max-run-time", "3s"][..],
        &["--max-run-time", "3s", "--keep-alive"],
    ] {
        let began = now();
        let script = "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.05; done";
        let done = done(&mut sandbox.run_with("a", "60s", options, script));
        assert_eq!((done.code, done.stdout.as_str()), (75, "cleaned\n"));
        let said = "shedlock: a: the command was stopped: it ran longer than --max-run-time\n";
        assert!(done.stderr.ends_with(said), "{}", done.stderr);
        assert!(now() - began < Duration::from_secs(20));
        assert_eq!(sandbox.lock("a")["state"], "free");
    }
}

#[test]
fn the_longest_run_holds_where_the_watchdog_is_stopped() {
    let sandbox = Sandbox::new();
    let options = ["--keep-alive", "--max-run-time", "5s"];
    let child = sandbox
        .run_with("a", LEASE, &options, FAMILY)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 3);
    let pids = sandbox.pids("pids");
    signal(watchdog_of(&pids), Signal::STOP);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    assert!(ended.stderr.contains("--max-run-time"), "{}", ended.stderr);
    assert!(all_gone(&pids));
}

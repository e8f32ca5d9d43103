//! Waiting for a lock.

use std::process::Child;
use std::time::Duration;

use rustix::process::Signal;

use super::common::{
    Sandbox, await_said, closed_port, done, end, gave_up_after, now, pause, signal,
};

/// Holds the lock until the file `go` exists.
fn holder(sandbox: &Sandbox) -> Child {
    let script = "echo x > started; while [ ! -e go ]; do sleep 0.01; done";
    let holder = sandbox.run("a", "60s", script).spawn().unwrap();
    sandbox.await_lines("started", 1);
    holder
}

#[test]
fn a_lock_that_comes_free_in_time_is_won() {
    let sandbox = Sandbox::new();
    let holder = holder(&sandbox);
    let patient = sandbox
        .run_with("a", "60s", &["--lock-wait", "30s"], "echo ran")
        .spawn()
        .unwrap();
    // With -v too, the log does not repeat what is printed.
    let mut waiting = sandbox.run_with("a", "60s", &["-v", "--lock-wait", "5s"], "echo ran");
    let began = now();
    let skipped = done(&mut waiting);
    assert!(now() - began >= Duration::from_secs(5));
    assert_eq!((skipped.code, skipped.stdout.as_str()), (0, ""));
    let lines = skipped.stderr.lines();
    let lines: Vec<&str> = lines.filter(|line| line.contains("held by")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains(" a: waiting: held by "));
    assert!(lines[1].contains(" a: skipped: held by "));

    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(holder).code, 0);
    let done = end(patient);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, "ran\n"),
        "{}",
        done.stderr
    );
}

/// A line for each change of the holder would be lines by the square.
#[test]
fn many_that_wait_print_a_line_each() {
    const WAITERS: usize = 8;
    let sandbox = Sandbox::new();
    let holder = holder(&sandbox);
    let wait = ["--lock-wait", "60s"];
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let script = "echo x >> ran; sleep 0.3";
            let mut waiter = sandbox.run_with("a", "60s", &wait, script);
            waiter.spawn().unwrap()
        })
        .collect();
    pause(Duration::from_secs(1));
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(holder).code, 0);
    for waiter in waiters {
        let ended = end(waiter);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let lines: Vec<_> = ended.stderr.lines().collect();
        let waiting = lines
            .iter()
            .filter(|it| it.contains(" a: waiting: held by "));
        assert!(waiting.count() <= 1, "{lines:?}");
        assert!(lines.len() <= 1, "{lines:?}");
    }
    sandbox.await_lines("ran", WAITERS);
}

#[test]
fn a_slot_that_was_taken_is_not_waited_for() {
    let sandbox = Sandbox::new();
    let options = ["--every", "30000d", "--lock-wait", "1h"];
    let run = || done(&mut sandbox.run_with("a", "60s", &options, "echo ran"));
    assert_eq!(run().stdout, "ran\n");
    let skipped = run();
    assert_eq!((skipped.code, skipped.stdout.as_str()), (0, ""));
    assert!(
        skipped.stderr.contains("already taken"),
        "{}",
        skipped.stderr
    );
}

#[test]
fn a_store_that_cannot_be_reached_is_waited_for_too() {
    let sandbox = Sandbox::new();
    let (_closed, place) = closed_port();
    let store = format!("postgres://u@{place}/d");
    let began = now();
    let options = ["--lock-wait", "1500ms", "--store", &store];
    let done = done(&mut sandbox.run_with("a", "60s", &options, "echo ran"));
    assert_eq!((done.code, done.stdout.as_str()), (69, ""));
    let took = now() - began;
    let waited = gave_up_after(&done.stderr);
    let is_true = (Duration::from_millis(1_500)..=took).contains(&waited);
    assert!(is_true, "{waited:?} of {took:?}");
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{}", done.stderr);
    let said = "shedlock: a: waiting, and retrying until 1.5s have passed (--lock-wait): postgres";
    assert!(lines[0].starts_with(said), "{}", done.stderr);
    assert!(!lines[0].contains("then retry"), "{}", done.stderr);
    let said = "shedlock: a: the command was not started: gave up after ";
    assert!(lines[1].starts_with(said), "{}", lines[1]);
    let said = " (--lock-wait 1s500ms): postgres at ";
    assert!(lines[1].contains(said), "{}", lines[1]);
    let said = "; check that the server is up, and that the host and the port in the URL are right";
    assert!(lines[1].ends_with(said), "{}", lines[1]);
}

#[test]
fn a_run_that_waits_responds_to_signals() {
    let sandbox = Sandbox::new();
    let holder = holder(&sandbox);
    let mut patient = sandbox.run_with("a", "60s", &["--lock-wait", "1h"], "echo ran");
    let mut patient = patient.spawn().unwrap();
    let owner = sandbox.lock("a")["owner"].clone();
    await_said(&mut patient, " a: waiting: held by ");
    let sent = now();
    signal(patient.id(), Signal::TERM);
    let ended = end(patient);
    assert_eq!((ended.code, ended.stdout.as_str()), (143, ""));
    let said =
        "shedlock: a: stopped by SIGTERM before it got the lock; the command was not started\n";
    assert!(ended.stderr.ends_with(said), "{}", ended.stderr);
    assert!(now() - sent < Duration::from_secs(30));
    assert_eq!(sandbox.lock("a")["owner"], owner);
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(holder).code, 0);
}

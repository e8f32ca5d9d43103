//! No command outlives its lease, whatever happens to the processes that guard it.

use std::time::Duration;

use rustix::process::Signal;

use super::common::{
    FAMILY, Sandbox, all_gone, calendar, done, end, eventually, is_watched, now, signal,
    watchdog_of,
};

#[test]
fn a_command_that_ignores_term_is_killed_before_the_lease_ends() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.05; done";
    let child = sandbox.run("a", "3s", script).spawn().unwrap();
    sandbox.await_lines("pids", 1);
    let until = sandbox.locked_until("a");
    let pids = sandbox.pids("pids");
    eventually("the end of the command", || all_gone(&pids));
    assert!(calendar() < until, "gone only after the lease");
    assert_eq!(end(child).code, 75);
}

#[test]
fn a_command_that_handles_term_has_its_grace_period() {
    let sandbox = Sandbox::new();
    let script = "trap 'sleep 0.3; echo saved > state; exit 0' TERM; echo x > started; \
                  while :; do sleep 0.05; done";
    let done = done(&mut sandbox.run("a", "3s", script));
    assert_eq!(done.code, 75, "{}", done.stderr);
    assert_eq!(sandbox.read("state"), "saved\n");
    // It was certainly gone in time, so the lock was given back.
    assert_eq!(sandbox.lock("a")["state"], "free");
}

#[test]
fn a_command_that_is_stopped_is_ended_too() {
    let sandbox = Sandbox::new();
    let child = sandbox
        .run("a", "2s", "echo $$ >> pids; kill -STOP $$; echo y > late")
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    assert_eq!(end(child).code, 75);
    assert!(all_gone(&sandbox.pids("pids")));
}

#[test]
fn kill_9_of_run_stops_the_whole_job_at_once() {
    let sandbox = Sandbox::new();
    let mut child = sandbox.run("a", "60s", FAMILY).spawn().unwrap();
    sandbox.await_lines("pids", 3);
    let pids = sandbox.pids("pids");
    let killed = now();
    child.kill().unwrap();
    eventually("the end of the job", || all_gone(&pids));
    assert!(now() - killed < Duration::from_secs(2));
    let lock = sandbox.lock("a");
    assert_eq!(lock["state"], "held", "no process could unlock it: {lock}");
    let ended = end(child);
    let said = "shedlock: a: `shedlock run` was killed; the watchdog stopped its command; the lock \
                stays taken until about 20";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn kill_9_of_run_kills_what_ignores_term_before_the_lease_ends() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.05; done";
    let mut child = sandbox.run("a", "6s", script).spawn().unwrap();
    sandbox.await_lines("pids", 1);
    let pids = sandbox.pids("pids");
    child.kill().unwrap();
    child.wait().unwrap();
    let until = sandbox.locked_until("a");
    eventually("the end of the command", || all_gone(&pids));
    assert!(calendar() < until);
}

#[test]
fn a_run_that_is_stopped_past_its_deadline_has_no_command_left() {
    let sandbox = Sandbox::new();
    let child = sandbox.run("a", "3s", FAMILY).spawn().unwrap();
    sandbox.await_lines("pids", 3);
    let until = sandbox.locked_until("a");
    let pids = sandbox.pids("pids");
    signal(child.id(), Signal::STOP);
    eventually("the end of the job", || all_gone(&pids));
    assert!(calendar() < until, "gone only after the lease");
    eventually("the end of the lease", || calendar() > until);

    // Another owner has the lock now. A process that wakes up late changes nothing.
    let other = sandbox
        .run("a", "60s", "echo x > other; sleep 30")
        .spawn()
        .unwrap();
    sandbox.await_lines("other", 1);
    let owner = sandbox.lock("a")["owner"].clone();
    signal(child.id(), Signal::CONT);
    assert_eq!(end(child).code, 75);
    assert_eq!(sandbox.lock("a")["owner"], owner);
    assert_eq!(sandbox.lock("a")["state"], "held");
    signal(other.id(), Signal::TERM);
    end(other);
}

#[test]
fn kill_9_of_the_watchdog_stops_the_job_and_is_reported() {
    let sandbox = Sandbox::new();
    let child = sandbox.run("a", "60s", FAMILY).spawn().unwrap();
    sandbox.await_lines("pids", 3);
    let pids = sandbox.pids("pids");
    signal(watchdog_of(&pids), Signal::KILL);
    let done = end(child);
    assert_eq!(done.code, 70, "{}", done.stderr);
    assert!(
        done.stderr.contains("watchdog was killed"),
        "{}",
        done.stderr
    );
    assert!(all_gone(&pids));
    assert_eq!(sandbox.lock("a")["state"], "free");
}

#[test]
fn a_watchdog_that_is_stopped_does_not_save_the_command() {
    let sandbox = Sandbox::new();
    let child = sandbox.run("a", "2s", FAMILY).spawn().unwrap();
    sandbox.await_lines("pids", 3);
    let until = sandbox.locked_until("a");
    let pids = sandbox.pids("pids");
    signal(watchdog_of(&pids), Signal::STOP);
    eventually("the end of the job", || all_gone(&pids));
    assert!(calendar() < until);
    assert_eq!(end(child).code, 75);
}

#[test]
fn the_watchdog_has_another_name_in_the_process_list() {
    let sandbox = Sandbox::new();
    let child = sandbox.run("a", "60s", FAMILY).spawn().unwrap();
    sandbox.await_lines("pids", 3);
    let pids = sandbox.pids("pids");
    assert!(pids.iter().any(|pid| is_watched(*pid)));
    let run = std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
    assert_eq!(run, "shedlock\n");
    signal(child.id(), Signal::TERM);
    end(child);
    eventually("the end of the job", || all_gone(&pids));
}

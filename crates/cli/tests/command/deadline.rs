//! No command outlives its lease, whatever happens to the processes that guard it.

use std::time::Duration;

use rustix::process::Signal;

use super::common::{
    FAMILY, Sandbox, all_gone, all_gone_before, calendar, done, end, eventually, is_watched, now,
    signal, watchdog_of,
};

/// Long enough for a busy machine to start a command and look at it before it is stopped.
const LEASE: &str = "9s";

#[test]
fn a_command_that_ignores_term_is_killed_before_the_lease_ends() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.05; done";
    // The shortest lease with the longest time between KILL and its end: a second.
    let child = sandbox.run("a", "12s", script).spawn().unwrap();
    sandbox.await_lines("pids", 1);
    let until = sandbox.locked_until("a");
    all_gone_before(until, &sandbox.pids("pids"));
    assert_eq!(end(child).code, 75);
}

#[test]
fn a_command_that_handles_term_has_its_grace_period() {
    let sandbox = Sandbox::new();
    let script = "trap 'sleep 0.3; echo saved > state; exit 0' TERM; echo x > started; \
                  while :; do sleep 0.05; done";
    let done = done(&mut sandbox.run("a", LEASE, script));
    assert_eq!(done.code, 75, "{}", done.stderr);
    assert_eq!(sandbox.read("state"), "saved\n");
    // It was certainly gone in time, so the lock was given back.
    assert_eq!(sandbox.lock("a")["state"], "free");
}

#[test]
fn a_command_that_is_stopped_is_ended_too() {
    let sandbox = Sandbox::new();
    let child = sandbox
        .run("a", LEASE, "echo $$ >> pids; kill -STOP $$; echo y > late")
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
    let took = now() - killed;
    assert!(took < Duration::from_secs(8), "{took:?}: not by TERM");
    end(child);
}

#[test]
fn kill_9_of_run_does_not_keep_the_lock_until_the_lease_ends() {
    let sandbox = Sandbox::new();
    let mut child = sandbox.run("a", "10m", FAMILY).spawn().unwrap();
    sandbox.await_lines("pids", 3);
    let pids = sandbox.pids("pids");
    child.kill().unwrap();
    eventually("a free lock", || sandbox.lock("a")["state"] == "free");
    assert!(all_gone(&pids), "free only when the command is gone");
    let said = "shedlock: a: `shedlock run` was killed; the watchdog stopped its command and \
                released the lock\n";
    assert_eq!(end(child).stderr, said);
}

#[test]
fn kill_9_of_run_does_not_shorten_lock_at_least_for() {
    let sandbox = Sandbox::new();
    let options = ["--lock-at-least-for", "5m"];
    let mut child = sandbox
        .run_with("a", "10m", &options, "echo $$ > pids; exec sleep 60")
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    let acquired = calendar();
    child.kill().unwrap();
    eventually("an unlock", || sandbox.lock("a")["state"] == "at-least");
    let kept = sandbox.locked_until("a").duration_since(acquired).unwrap();
    let five_minutes = Duration::from_secs(300);
    assert!(kept <= five_minutes && kept > five_minutes - Duration::from_secs(30));
    let ended = end(child);
    let said = "released the lock; --lock-at-least-for keeps it taken until 20";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn kill_9_of_run_does_not_free_a_lock_that_another_owner_has() {
    let sandbox = Sandbox::new();
    let script = "trap 'until [ -e go ]; do sleep 0.05; done; exit 0' TERM; echo x > up; \
                  while :; do sleep 0.05; done";
    let mut child = sandbox.run("a", "10m", script).spawn().unwrap();
    sandbox.await_lines("up", 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let freed = done(&mut sandbox.shedlock(&["unlock", "--force", "a"]));
    assert_eq!(freed.code, 0, "{}", freed.stderr);
    let other = sandbox
        .run("a", "60s", "echo x > other; sleep 30")
        .spawn()
        .unwrap();
    sandbox.await_lines("other", 1);
    let owner = sandbox.lock("a")["owner"].clone();
    std::fs::write(sandbox.path("go"), "").unwrap();
    let ended = end(child);
    let said = "the lock was no longer held by it\n";
    assert!(ended.stderr.ends_with(said), "{}", ended.stderr);
    let lock = sandbox.lock("a");
    assert_eq!((&lock["owner"], &lock["state"]), (&owner, &"held".into()));
    signal(other.id(), Signal::TERM);
    end(other);
}

#[test]
fn kill_9_of_run_names_the_remedy_if_the_store_is_away() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("db")).unwrap();
    let store = format!("sqlite:{}", sandbox.path("db/locks.db").display());
    let mut child = sandbox
        .run("a", "10m", "echo $$ > pids; exec sleep 60")
        .env("SHEDLOCK_STORE", &store)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    let pids = sandbox.pids("pids");
    std::fs::rename(sandbox.path("db"), sandbox.path("away")).unwrap();
    std::fs::write(sandbox.path("db"), "in its place").unwrap();
    child.kill().unwrap();
    let ended = end(child);
    assert!(all_gone(&pids));
    let said = "shedlock: a: `shedlock run` was killed; the watchdog stopped its command, but the \
                lock was not released: ";
    assert!(ended.stderr.starts_with(said), "{}", ended.stderr);
    for part in [
        "; it stays taken until about 20",
        "; to free it sooner, run `shedlock unlock a --force --owner ",
    ] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}

#[test]
fn kill_9_of_run_kills_what_ignores_term_before_the_lease_ends() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.05; done";
    let mut child = sandbox.run("a", LEASE, script).spawn().unwrap();
    sandbox.await_lines("pids", 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let until = sandbox.locked_until("a");
    all_gone_before(until, &sandbox.pids("pids"));
}

#[test]
fn a_run_that_is_stopped_past_its_deadline_has_no_command_left() {
    let sandbox = Sandbox::new();
    let child = sandbox.run("a", LEASE, FAMILY).spawn().unwrap();
    sandbox.await_lines("pids", 3);
    let until = sandbox.locked_until("a");
    signal(child.id(), Signal::STOP);
    all_gone_before(until, &sandbox.pids("pids"));
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
    let child = sandbox.run("a", "12s", FAMILY).spawn().unwrap();
    sandbox.await_lines("pids", 3);
    let until = sandbox.locked_until("a");
    let pids = sandbox.pids("pids");
    signal(watchdog_of(&pids), Signal::STOP);
    all_gone_before(until, &pids);
    assert_eq!(end(child).code, 75);
}

#[test]
fn the_watchdog_does_not_show_the_store_to_other_users() {
    let sandbox = Sandbox::new();
    let store = sandbox.store();
    let mut run = sandbox.bare(&["run", "-n", "a", "--lock-at-most-for", "60s"]);
    run.args(["--store", &store, "--", "sh", "-c", FAMILY]);
    let child = run.spawn().unwrap();
    sandbox.await_lines("pids", 3);
    let watchdog = watchdog_of(&sandbox.pids("pids"));
    for file in ["cmdline", "environ"] {
        let shown = std::fs::read(format!("/proc/{watchdog}/{file}")).unwrap();
        let shown = String::from_utf8_lossy(&shown);
        assert!(!shown.contains("locks.db"), "{file}: {shown}");
    }
    signal(child.id(), Signal::TERM);
    end(child);
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

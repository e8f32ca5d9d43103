//! A later end for the lease of a running command.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::common::{FAMILY, Sandbox, all_gone, calendar, done, end, eventually, now, signal};

/// Keeps running until the file `go` exists.
const SCRIPT: &str = "echo up > up; until [ -e go ]; do sleep 0.02; done";

#[test]
fn a_command_whose_lease_was_extended_is_not_stopped_at_its_first_end() {
    let sandbox = Sandbox::new();
    let run = sandbox.run("a", "9s", SCRIPT).spawn().unwrap();
    sandbox.await_lines("up", 1);
    let first_end = sandbox.locked_until("a");
    let extended = done(&mut sandbox.shedlock(&["extend", "a", "--for", "60s"]));
    assert_eq!(extended.code, 0, "{extended:?}");
    assert!(extended.stdout.starts_with("a: held by "), "{extended:?}");
    assert!(
        extended.stdout.contains(" (previously until "),
        "{extended:?}"
    );
    eventually("the first end of the lease", || calendar() > first_end);
    std::fs::write(sandbox.path("go"), "").unwrap();
    let ended = end(run);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(sandbox.lock("a")["state"], "free");
}

#[test]
fn a_pause_is_not_extended_but_the_commands_for_that_are_named() {
    let sandbox = Sandbox::migrated();
    assert_eq!(
        done(&mut sandbox.shedlock(&["pause", "a b", "--create"])).code,
        0
    );
    let refused = done(&mut sandbox.shedlock(&["extend", "a b", "--for", "1h"]));
    assert_eq!((refused.code, &*refused.stdout), (1, ""));
    assert_eq!(
        refused.stderr,
        "shedlock: a b: not extended: it is paused; to change the end of the pause, run \
         `shedlock pause 'a b' --until TIME`; to end it, run `shedlock resume 'a b'`\n"
    );
}

#[test]
fn a_command_whose_lease_was_not_extended_is_still_stopped() {
    let sandbox = Sandbox::new();
    let script = "echo up > up; sleep 60";
    let run = sandbox.run("a", "9s", script).spawn().unwrap();
    sandbox.await_lines("up", 1);
    let before = sandbox.locked_until("a");
    let shorter = done(&mut sandbox.shedlock(&["extend", "a", "--for", "1ms"]));
    assert_eq!(shorter.code, 0, "{shorter:?}");
    assert_eq!(sandbox.locked_until("a"), before, "never shortened");
    assert_eq!(end(run).code, 75);
}

#[test]
fn a_command_can_extend_its_own_lease() {
    let sandbox = Sandbox::new();
    let script = format!(
        "{} extend --for 1h -o json > extended; echo $? > code; {SCRIPT}",
        env!("CARGO_BIN_EXE_shedlock")
    );
    let run = sandbox.run_with("a", "60s", &["--pass-store"], &script);
    let run = { run }.spawn().unwrap();
    sandbox.await_lines("up", 1);
    assert_eq!(sandbox.read("code"), "0\n");
    let json: Value = serde_json::from_str(&sandbox.read("extended")).unwrap();
    let lock = sandbox.lock("a");
    assert_eq!(json["locked_until"], lock["locked_until"]);
    assert_eq!(json["lock"]["owner"], lock["owner"]);
    assert_ne!(json["lock"]["locked_until"], lock["locked_until"]);
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(run).code, 0);
}

#[test]
fn a_lease_that_is_not_meant_is_not_extended() {
    let sandbox = Sandbox::migrated();
    let extend = |options: &[&str]| {
        let mut command = sandbox.shedlock(&["extend", "--for", "1h"]);
        done(command.args(options))
    };
    let unnamed = extend(&[]);
    assert_eq!(unnamed.code, 2, "{unnamed:?}");
    let absent = extend(&["a", "-o", "json"]);
    let json: Value = serde_json::from_str(&absent.stdout).unwrap();
    assert_eq!((absent.code, &json["lock"]), (1, &Value::Null));
    assert_eq!(json["locked_until"], Value::Null);
    assert_eq!(done(&mut sandbox.run("a", "60s", "true")).code, 0);
    let free = extend(&["a"]);
    assert_eq!(free.code, 1, "{free:?}");
    assert!(
        free.stderr.contains("a: not extended: the lock is free\n"),
        "{free:?}"
    );
    let run = sandbox.run("a", "60s", SCRIPT).spawn().unwrap();
    sandbox.await_lines("up", 1);
    let before = sandbox.lock("a")["locked_until"].clone();
    let other = extend(&["a", "--owner", "h/1/ff"]);
    assert_eq!((other.code, other.stdout.as_str()), (1, ""), "{other:?}");
    // The owner of the run around this command is not meant for another lock.
    let mut command = sandbox.shedlock(&["extend", "a", "--for", "1ms"]);
    let around = done(
        command
            .env("SHEDLOCK_NAME", "b")
            .env("SHEDLOCK_OWNER", "h/1/ff"),
    );
    assert_eq!(around.code, 0, "{around:?}");
    assert_eq!(sandbox.lock("a")["locked_until"], before);
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(run).code, 0);
}

#[test]
fn an_extension_that_changed_nothing_is_not_in_the_history() {
    let sandbox = Sandbox::migrated();
    let migrated = done(&mut sandbox.shedlock(&["migrate"]));
    assert_eq!(migrated.code, 0, "{migrated:?}");
    let run = sandbox.run("a", "60s", SCRIPT).spawn().unwrap();
    sandbox.await_lines("up", 1);
    let shorter = done(&mut sandbox.shedlock(&["extend", "a", "--for", "1s"]));
    assert_eq!(shorter.code, 0, "{shorter:?}");
    let unchanged = "a: not changed: already held by ";
    assert!(shorter.stdout.starts_with(unchanged), "{shorter:?}");
    let history = || {
        let history = done(&mut sandbox.shedlock(&["history", "a", "-o", "json"]));
        let history: Value = serde_json::from_str(&history.stdout).unwrap();
        history["actions"].as_array().unwrap().len()
    };
    assert_eq!(history(), 0);
    let longer = done(&mut sandbox.shedlock(&["extend", "a", "--for", "1h"]));
    assert_eq!((longer.code, history()), (0, 1), "{longer:?}");
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(run).code, 0);
}

#[test]
fn a_command_whose_lock_has_another_owner_does_not_run_to_the_end_of_its_lease() {
    let sandbox = Sandbox::new();
    // The record is read when two thirds of the lease are left, and the command is stopped when one third is.
    let began = now();
    let child = sandbox.run("a", "15s", FAMILY).spawn().unwrap();
    sandbox.await_lines("pids", 3);
    let freed = done(&mut sandbox.shedlock(&["unlock", "--force", "a"]));
    assert_eq!(freed.code, 0, "{}", freed.stderr);
    let mut hold = sandbox.shedlock(&["hold", "a", "--lock-at-most-for", "60s"]);
    let other = hold.spawn().unwrap();
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    let said = "its lease was lost (the lock was freed by force";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(all_gone(&sandbox.pids("pids")));
    let took = now().saturating_sub(began);
    assert!(took < Duration::from_secs(9), "{took:?}");
    signal(other.id(), Signal::TERM);
    end(other);
}

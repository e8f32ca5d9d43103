//! A lock without a command.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

use rustix::process::Signal;
use serde_json::Value;

use super::common::{Sandbox, calendar, done, end, eventually, is_alive, signal};

fn hold(sandbox: &Sandbox, at_most: &str, options: &[&str]) -> Command {
    let mut command = sandbox.shedlock(&["hold", "db", "--lock-at-most-for", at_most]);
    command.args(options);
    command
}

/// Starts it, and waits for the line that it prints when it has the lock.
fn holding(sandbox: &Sandbox, at_most: &str, options: &[&str]) -> (Child, String) {
    let mut child = hold(sandbox, at_most, options).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    (child, line)
}

#[test]
fn a_lock_is_not_free_before_its_holder_is_asked_to_end() {
    for sent in [Signal::INT, Signal::TERM] {
        let sandbox = Sandbox::new();
        let (child, line) = holding(&sandbox, "60s", &[]);
        let owner = sandbox.lock("db")["owner"].as_str().unwrap().to_owned();
        assert_eq!(
            line,
            format!("db: held as {owner} until Ctrl-C or SIGTERM\n")
        );
        let skipped = done(&mut sandbox.run("db", "60s", "echo ran"));
        assert_eq!((skipped.code, skipped.stdout.as_str()), (0, ""));
        signal(child.id(), sent);
        let ended = end(child);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
        assert_eq!(sandbox.lock("db")["state"], "free");
    }
}

#[test]
fn a_held_lock_does_not_end_with_its_first_lease_but_after_its_time() {
    let sandbox = Sandbox::new();
    let (child, line) = holding(&sandbox, "6s", &["--for", "12s"]);
    assert!(line.ends_with(" until Ctrl-C or SIGTERM, for at most 12s\n"));
    let first_end = sandbox.locked_until("db");
    eventually("the end of the first lease", || calendar() > first_end);
    assert_eq!(sandbox.lock("db")["state"], "held");
    let ended = end(child);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(sandbox.lock("db")["state"], "free");
}

#[test]
fn a_lock_of_another_owner_is_not_held_by_two() {
    let sandbox = Sandbox::new();
    let (child, line) = holding(&sandbox, "60s", &["-o", "json"]);
    let ready: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["lock"]["state"], "held", "{line}");
    let refused = done(&mut hold(&sandbox, "60s", &["--skip-exit-code", "9"]));
    assert_eq!((refused.code, refused.stdout.as_str()), (9, ""));
    assert!(
        refused.stderr.contains("db: not acquired: held by "),
        "{refused:?}"
    );
    let refused = done(&mut hold(&sandbox, "60s", &["-o", "json", "-q"]));
    let json: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!((refused.code, &json["lock"]), (0, &Value::Null));
    assert_eq!(refused.stderr, "");

    let waiting = hold(
        &sandbox,
        "60s",
        &["--lock-wait", "60s", "--for", "10ms", "-o", "json"],
    );
    let waiting = { waiting }.spawn().unwrap();
    signal(child.id(), Signal::TERM);
    assert_eq!(end(child).code, 0);
    let held = end(waiting);
    let json: Value = serde_json::from_str(&held.stdout).unwrap();
    assert_eq!((held.code, &json["lock"]["state"]), (0, &"held".into()));
    let lock = sandbox.lock("db");
    for field in ["locked_at", "fencing_token"] {
        assert_eq!(json["lock"][field], lock[field], "{field}");
    }
}

#[test]
fn a_lost_lock_is_not_reported_as_held_to_the_end() {
    let sandbox = Sandbox::new();
    let (child, _) = holding(&sandbox, "6s", &[]);
    let freed = done(&mut sandbox.shedlock(&["unlock", "db", "--force"]));
    assert_eq!(freed.code, 0);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{ended:?}");
    assert!(
        ended.stderr.contains(
            "db: the lease was lost: the lock was freed by force or paused with --now, taken \
                       over while this process was suspended, or its record was changed\n"
        ),
        "{ended:?}"
    );
}

#[test]
fn a_lease_that_ends_while_hold_is_suspended_is_not_blamed_on_the_store_alone() {
    let sandbox = Sandbox::new();
    let (child, _) = holding(&sandbox, "2s", &[]);
    signal(child.id(), Signal::STOP);
    eventually("the end of the lease", || {
        sandbox.lock("db")["state"] == "free"
    });
    signal(child.id(), Signal::CONT);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{ended:?}");
    let said = "db: the lease was lost: it could not be extended in time: the store did not reply, or this \
                process was suspended; check the store and the load of this host\n";
    assert!(ended.stderr.ends_with(said), "{ended:?}");
}

#[test]
fn a_holder_that_is_killed_does_not_keep_the_lock() {
    let sandbox = Sandbox::new();
    let (mut child, _) = holding(&sandbox, "2s", &[]);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the end of the lease", || {
        sandbox.lock("db")["state"] == "free"
    });
}

#[test]
fn a_signal_before_the_lock_is_not_a_success() {
    let sandbox = Sandbox::new();
    let (child, _) = holding(&sandbox, "60s", &[]);
    let options = ["--lock-wait", "60s", "-o", "json"];
    let mut waiting = hold(&sandbox, "60s", &options).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(waiting.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("db: waiting: held by "), "{line}");
    signal(waiting.id(), Signal::TERM);
    assert_eq!(end(waiting).code, 143);
    signal(child.id(), Signal::TERM);
    assert_eq!(end(child).code, 0);
}

#[test]
fn a_script_can_hold_a_lock_in_the_background() {
    let sandbox = Sandbox::new();
    let script = "rm -f held; \"$0\" hold db --lock-at-most-for 60s > held & \
                  until [ -s held ]; do sleep 0.02; done; \
                  \"$0\" show db -o json > during; kill $!; wait $!";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, env!("CARGO_BIN_EXE_shedlock")])
        .current_dir(sandbox.path("."))
        .env("SHEDLOCK_STORE", sandbox.store());
    assert_eq!(done(&mut shell).code, 0);
    let during: Value = serde_json::from_str(&sandbox.read("during")).unwrap();
    assert_eq!(during["lock"]["state"], "held");
    assert_eq!(sandbox.lock("db")["state"], "free");
}

#[test]
fn a_hold_without_a_bound_for_a_dead_host_is_refused() {
    let sandbox = Sandbox::new();
    let refused = done(&mut sandbox.shedlock(&["hold", "db"]));
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("db: --lock-at-most-for is not set: set it to the time after which"),
        "{refused:?}"
    );
}

/// `hold` in a shell script, which waits for what its line says and then for `go`.
fn scripted(sandbox: &Sandbox, options: &str) -> (Child, u32) {
    let script = format!(
        "$SHEDLOCK hold db --lock-at-most-for 9s {options} > ready 2> said & echo $! > pid\n\
         until [ -s ready ]; do sleep 0.05; done\n\
         until [ -e go ]; do sleep 0.05; done"
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .current_dir(sandbox.path(""))
        .env("SHEDLOCK", env!("CARGO_BIN_EXE_shedlock"))
        .env("SHEDLOCK_STORE", sandbox.store());
    let shell = shell.spawn().unwrap();
    sandbox.await_lines("ready", 1);
    sandbox.await_lines("pid", 1);
    let holder = sandbox.pids("pid")[0];
    (shell, holder)
}

#[test]
fn a_script_that_is_killed_does_not_keep_its_lock_for_ever() {
    let sandbox = Sandbox::new();
    let (mut shell, holder) = scripted(&sandbox, "");
    let first_end = sandbox.locked_until("db");
    eventually("an extension", || sandbox.locked_until("db") > first_end);
    shell.kill().unwrap();
    shell.wait().unwrap();
    eventually("the end of its holder", || !is_alive(holder));
    // What the script has started may still run.
    assert_eq!(sandbox.lock("db")["state"], "held");
    let said = sandbox.read("said");
    let start = "db: the lock is not extended any more: the process that started this one is gone";
    assert!(said.contains(start), "{said}");
    eventually("the end of the lease", || {
        sandbox.lock("db")["state"] == "free"
    });
}

#[test]
fn a_detached_lock_does_not_end_with_its_script() {
    let sandbox = Sandbox::new();
    let refused = done(&mut hold(&sandbox, "3s", &["--detached"]));
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("--for"), "{refused:?}");
    let (mut shell, holder) = scripted(&sandbox, "--detached --for 1h");
    shell.kill().unwrap();
    shell.wait().unwrap();
    let end = sandbox.locked_until("db");
    eventually("an extension", || sandbox.locked_until("db") > end);
    signal(holder, Signal::TERM);
    eventually("the end of its holder", || !is_alive(holder));
    assert_eq!(sandbox.lock("db")["state"], "free");
}

#[test]
fn a_lock_ends_with_the_input_that_was_open_when_it_was_taken() {
    for is_socket in [false, true] {
        let sandbox = Sandbox::new();
        let mut command = hold(&sandbox, "60s", &[]);
        let (input, theirs): (Box<dyn Write>, OwnedFd) = if is_socket {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (Box::new(ours), theirs.into())
        } else {
            let (theirs, ours) = std::io::pipe().unwrap();
            (Box::new(ours), theirs.into())
        };
        let mut input = input;
        let theirs_again = theirs.try_clone().unwrap();
        let mut child = command.stdin(theirs).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        // It does not read what is for others.
        input.write_all(b"for another child\n").unwrap();
        drop(input);
        let ended = end(child);
        assert_eq!((ended.code, &*ended.stderr), (0, ""), "{is_socket}");
        assert_eq!(sandbox.lock("db")["state"], "free");
        let mut left = String::new();
        std::fs::File::from(theirs_again)
            .read_to_string(&mut left)
            .unwrap();
        assert_eq!(left, "for another child\n");
    }
}

/// cron's pipe is at its end before anything runs, as is that of a background job of some shells.
#[test]
fn an_input_that_was_at_its_end_before_does_not_end_the_lock() {
    let sandbox = Sandbox::new();
    let (theirs, ours) = std::io::pipe().unwrap();
    drop(ours);
    let mut child = hold(&sandbox, "9s", &[]).stdin(theirs).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let first_end = sandbox.locked_until("db");
    eventually("an extension", || sandbox.locked_until("db") > first_end);
    signal(child.id(), Signal::TERM);
    assert_eq!(end(child).code, 0);
}

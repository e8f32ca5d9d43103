//! What a command under a lock receives and returns.

use std::io::Write;
use std::process::Stdio;

use super::common::{Sandbox, all_gone, done, end, eventually, is_alive, now, pause, signal};
use rustix::process::Signal;
use std::time::Duration;

#[test]
fn the_environment_describes_the_lock() {
    let sandbox = Sandbox::new();
    let script = "echo \"$SHEDLOCK_NAME|$SHEDLOCK_OWNER|$SHEDLOCK_FENCING_TOKEN|\
                  $SHEDLOCK_LOCKED_UNTIL|${SHEDLOCK_SLOT-none}|$SHEDLOCK_STORE\"";
    let mut command = sandbox.run("a b", "10m", script);
    // An outer lock's variables are not this lock's.
    command.env("SHEDLOCK_SLOT", "2026-01-01T00:00:00Z");
    let first = done(&mut command);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let fields: Vec<&str> = first.stdout.trim_end().split('|').collect();
    let lock = sandbox.lock("a b");
    assert_eq!(fields[0], "a b");
    assert_eq!(fields[1], lock["owner"]);
    assert_eq!(fields[2], lock["fencing_token"].to_string());
    assert!(
        fields[3].parse::<jiff::Timestamp>().is_ok(),
        "{}",
        fields[3]
    );
    assert_eq!(fields[4], "none");
    assert_eq!(fields[5], "");

    let second = done(&mut command);
    let token = |line: &str| line.split('|').nth(2).unwrap().parse::<u64>().unwrap();
    assert!(token(&second.stdout) > token(&first.stdout));
}

#[test]
fn the_password_of_the_store_is_not_in_the_commands_environment() {
    let sandbox = Sandbox::new();
    let script = "echo ${SHEDLOCK_STORE-none} ${SHEDLOCK_STORE_FILE-none}; env | grep -c sqlite:; \
                  \"$SHEDLOCK\" list";
    let run = |options: &[&str]| {
        let mut command = sandbox.run_with("a", "1m", options, script);
        command.env("SHEDLOCK", env!("CARGO_BIN_EXE_shedlock"));
        done(&mut command)
    };
    let without = run(&[]);
    assert_eq!(without.stdout, "none none\n0\n", "{}", without.stderr);
    // A nested `shedlock` does not use another store.
    let said = "shedlock: no store is set: the `shedlock run` around this command does not pass \
                its store on, and the default might be a different store; add --pass-store to the \
                outer run,";
    assert!(without.stderr.starts_with(said), "{}", without.stderr);
    assert_eq!(without.code, 2);
    let with = run(&["--pass-store"]);
    let start = format!("{} none\n1\n", sandbox.store());
    assert!(with.stdout.starts_with(&start), "{}", with.stdout);
    assert_eq!((with.code, with.stderr.as_str()), (0, ""));
}

#[test]
fn input_output_and_arguments_pass_through() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .run("a", "1m", "cat; echo err >&2")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let text = "x".repeat(300_000);
    let mut stdin = child.stdin.take().unwrap();
    let sent = text.clone();
    let writer = std::thread::spawn(move || stdin.write_all(sent.as_bytes()));
    let done = end(child);
    writer.join().unwrap().unwrap();
    assert_eq!(done.stdout, text);
    assert_eq!(done.stderr, "err\n");
}

#[test]
fn arguments_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    let mut command = sandbox.shedlock(&["run", "-n", "a", "--lock-at-most-for", "1m", "--"]);
    command
        .args(["printf", "%s"])
        .arg(OsStr::from_bytes(b"\xff\n\xfe"));
    let output = command.output().unwrap();
    assert_eq!(output.stdout, b"\xff\n\xfe");
}

#[test]
fn the_lock_is_free_for_the_next_one_at_once() {
    let sandbox = Sandbox::new();
    for _ in 0..5 {
        let done = done(&mut sandbox.run("a", "1m", "echo ran"));
        assert_eq!(done.stdout, "ran\n", "{}", done.stderr);
    }
    assert_eq!(sandbox.lock("a")["state"], "free");
}

#[test]
fn what_the_command_leaves_behind_is_stopped_before_the_lock_is_free() {
    let sandbox = Sandbox::new();
    // One in the group, one that has left it and its session: both belong to the job.
    let script = "sleep 60 & echo $! >> pids; setsid sh -c 'echo $$ >> pids; exec sleep 60' & \
                  while [ $(wc -l < pids) -lt 2 ]; do sleep 0.01; done; exit 4";
    let done = done(&mut sandbox.run("a", "1m", script));
    assert_eq!(done.code, 4, "{}", done.stderr);
    assert!(
        done.stderr.contains("left processes running"),
        "{}",
        done.stderr
    );
    let pids = sandbox.pids("pids");
    assert_eq!(pids.len(), 2);
    for pid in pids {
        assert!(!is_alive(pid));
    }
}

#[test]
fn what_is_left_behind_may_end_by_itself() {
    let sandbox = Sandbox::new();
    let script = "(trap '' TERM; sleep 0.2; echo drained > tail) & exit 0";
    let started = now();
    let done = done(&mut sandbox.run("a", "1m", script));
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    assert_eq!(sandbox.read("tail"), "drained\n");
    assert!(now() - started < Duration::from_secs(5));
}

#[test]
fn the_watchdog_ends_with_its_job() {
    let sandbox = Sandbox::new();
    let done = done(&mut sandbox.run("a", "1m", "echo $PPID > watchdog"));
    assert_eq!(done.code, 0);
    let watchdog = sandbox.pids("watchdog")[0];
    eventually("the end of the watchdog", || !is_alive(watchdog));
}

#[test]
fn a_store_can_have_the_durations() {
    let sandbox = Sandbox::new();
    let store = format!("{}?lock_at_most_for=10m", sandbox.store());
    let arguments = ["run", "-n", "a", "--store", &store, "--", "true"];
    let done = done(&mut sandbox.bare(&arguments));
    assert_eq!(done.code, 0, "{}", done.stderr);
}

#[test]
fn the_environment_can_have_the_durations() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.shedlock(&["run", "-n", "a", "--", "true"]);
    command
        .env("SHEDLOCK_LOCK_AT_MOST_FOR", "1h")
        .env("SHEDLOCK_LOCK_AT_LEAST_FOR", "30m");
    assert_eq!(done(&mut command).code, 0);
    assert_eq!(sandbox.lock("a")["state"], "at-least");
}

#[test]
fn a_writer_to_a_command_that_closes_its_input_gets_an_error() {
    const HANG: Duration = Duration::from_secs(30);
    let sandbox = Sandbox::new();
    let script = "exec <&-; while [ ! -e seen ]; do sleep 0.05; done";
    let mut child = sandbox
        .run("a", "1m", script)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let (broken, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // More than a pipe holds: without a reader this is an error, otherwise it blocks.
        let written = stdin.write_all(&vec![b'x'; 1 << 20]);
        let _ = broken.send(written.is_err());
    });
    let seen = seen.recv_timeout(HANG);
    std::fs::write(sandbox.path("seen"), "").unwrap();
    assert_eq!(end(child).code, 0);
    assert_eq!(seen, Ok(true), "the pipe stays open");
}

/// Processes that the command leaves running go on if that is wanted, and the lock is free.
#[test]
fn leaves_children() {
    let sandbox = Sandbox::new();
    // One in the group of the command, and one outside.
    let script = "sleep 60 > /dev/null 2>&1 & echo $! > left\n\
                  setsid sh -c 'echo $$ >> left; touch up; exec sleep 60' > /dev/null 2>&1 &\n\
                  while [ ! -e up ]; do sleep 0.05; done";
    let option = ["--leave-children"];
    let ended = done(&mut sandbox.run_with("a", "60s", &option, &format!("{script}; exit 3")));
    assert_eq!((ended.code, ended.stderr.as_str()), (3, ""));
    let left = sandbox.pids("left");
    assert_eq!(left.len(), 2);
    assert_eq!(sandbox.lock("a")["state"], "free");
    // As long as the watchdog needs to end.
    pause(Duration::from_millis(500));
    for pid in left {
        assert!(is_alive(pid));
        signal(pid, Signal::KILL);
    }

    // The end of the lease stops all.
    std::fs::remove_file(sandbox.path("up")).unwrap();
    let ended = done(&mut sandbox.run_with("a", "9s", &option, &format!("{script}; sleep 60")));
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    assert!(all_gone(&sandbox.pids("left")), "{}", ended.stderr);
}

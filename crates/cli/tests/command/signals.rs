//! Signals reach the whole job.

use std::time::Duration;

use rustix::process::Signal;

use super::common::{Sandbox, done, end, eventually, is_alive, now, pause, signal};

#[test]
fn signals_reach_the_command_and_its_children() {
    let sandbox = Sandbox::new();
    // Shells wait for their foreground child before they run a trap, so each waits with `wait`.
    let script = "\
        trap 'echo parent-usr1 >> log' USR1; trap 'echo parent-usr2 >> log' USR2; \
        trap 'echo parent-winch >> log' WINCH; trap 'echo parent-hup >> log' HUP; \
        sh -c 'trap \"echo child-usr1 >> log\" USR1; trap \"\" USR2 WINCH HUP; \
               echo up >> up; while :; do sleep 60 & wait $!; done' & \
        echo up >> up; while :; do sleep 60 & wait $!; done";
    let child = sandbox.run("a", "60s", script).spawn().unwrap();
    sandbox.await_lines("up", 2);
    for (sent, lines) in [
        (Signal::USR1, &["parent-usr1", "child-usr1"][..]),
        (Signal::USR2, &["parent-usr2"]),
        (Signal::WINCH, &["parent-winch"]),
        (Signal::HUP, &["parent-hup"]),
    ] {
        signal(child.id(), sent);
        for line in lines {
            eventually(line, || sandbox.read("log").contains(line));
        }
    }
    signal(child.id(), Signal::TERM);
    assert_eq!(end(child).code, 143);
}

#[test]
fn ending_signals_end_the_job_and_free_the_lock() {
    for (sent, code) in [
        (Signal::TERM, 143),
        (Signal::INT, 130),
        (Signal::HUP, 129),
        (Signal::QUIT, 131),
    ] {
        let sandbox = Sandbox::new();
        // `exec`, because a shell is free to survive SIGINT.
        let child = sandbox
            .run("a", "60s", "ulimit -c 0; echo $$ >> pids; exec sleep 60")
            .spawn()
            .unwrap();
        sandbox.await_lines("pids", 1);
        signal(child.id(), sent);
        assert_eq!(end(child).code, code);
        assert!(!is_alive(sandbox.pids("pids")[0]));
        assert_eq!(sandbox.lock("a")["state"], "free");
    }
}

#[test]
fn a_command_that_handles_term_decides_the_exit_code() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo cleaned > state; exit 9' TERM; echo x > up; \
                  while :; do sleep 0.05; done";
    let child = sandbox.run("a", "60s", script).spawn().unwrap();
    sandbox.await_lines("up", 1);
    signal(child.id(), Signal::TERM);
    assert_eq!(end(child).code, 9);
    assert_eq!(sandbox.read("state"), "cleaned\n");
}

#[test]
fn a_command_that_ignores_term_is_stopped_when_its_lease_ends_and_the_signal_is_named() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM; echo x > up; while :; do sleep 0.05; done";
    let child = sandbox.run("a", "9s", script).spawn().unwrap();
    sandbox.await_lines("up", 1);
    signal(child.id(), Signal::TERM);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    let said = "shedlock: a: the command was stopped: it did not end after the SIGTERM sent \
                to this program, and its lease was about to end\n";
    assert!(ended.stderr.ends_with(said), "{}", ended.stderr);
}

#[test]
fn a_command_that_ignores_a_signal_does_not_run_until_its_lease_ends() {
    for (sent, name) in [(Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")] {
        let sandbox = Sandbox::new();
        let script = "trap '' TERM HUP; echo $$ > up; while :; do sleep 0.05; done";
        let options = ["--stop-grace", "500ms"];
        let mut run = sandbox.run_with("a", "10m", &options, script);
        let child = run.spawn().unwrap();
        sandbox.await_lines("up", 1);
        signal(child.id(), sent);
        let ended = end(child);
        assert_eq!(ended.code, 137, "{}", ended.stderr);
        let said = format!(
            "shedlock: a: the command was killed: it did not end within 500ms of the {name} sent to \
             this program; raise --stop-grace if it needs longer\n"
        );
        assert_eq!(ended.stderr, said);
        assert!(!is_alive(sandbox.pids("up")[0]));
        assert_eq!(sandbox.lock("a")["state"], "free");
    }
}

#[test]
fn a_second_signal_does_not_wait_for_the_stop_grace() {
    for second in [Signal::INT, Signal::TERM] {
        let sandbox = Sandbox::new();
        let script = "trap 'echo x >> caught' INT; trap '' TERM; echo $$ > up; \
                      while :; do sleep 0.05; done";
        let child = sandbox
            .run_with("a", "10m", &["--stop-grace", "5m"], script)
            .spawn()
            .unwrap();
        sandbox.await_lines("up", 1);
        signal(child.id(), Signal::INT);
        sandbox.await_lines("caught", 1);
        pause(Duration::from_millis(400));
        signal(child.id(), second);
        let ended = end(child);
        assert_eq!(ended.code, 137, "{}", ended.stderr);
        let said = "shedlock: a: the command was killed: it had not ended after the SIGINT \
                    when a second signal, ";
        assert!(ended.stderr.starts_with(said), "{}", ended.stderr);
        assert!(!is_alive(sandbox.pids("up")[0]));
        assert_eq!(sandbox.lock("a")["state"], "free");
    }
}

/// As `timeout` sends it: once to the process, and once to its group.
#[test]
fn a_signal_that_arrives_twice_at_once_does_not_kill() {
    let script = "trap 'sleep 0.5; echo cleaned > state; exit 9' TERM; echo x > up; \
                  while :; do sleep 0.05; done";
    let twice = || {
        let sandbox = Sandbox::new();
        let child = sandbox.run("a", "60s", script).spawn().unwrap();
        sandbox.await_lines("up", 1);
        signal(child.id(), Signal::TERM);
        signal(child.id(), Signal::TERM);
        let ended = end(child);
        (ended.code, sandbox.read("state"))
    };
    let mut ended = twice();
    // On a busy machine, the second one may arrive long after the first.
    for _ in 0..4 {
        if ended.0 == 137 {
            ended = twice();
        }
    }
    assert_eq!(ended, (9, "cleaned\n".to_owned()));
}

#[test]
fn a_command_that_ignores_a_signal_is_killed_though_run_was_killed() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo x >> caught' TERM; echo $$ > up; while :; do sleep 0.05; done";
    let mut child = sandbox
        .run_with("a", "10m", &["--stop-grace", "1s"], script)
        .spawn()
        .unwrap();
    sandbox.await_lines("up", 1);
    let sent = now();
    signal(child.id(), Signal::TERM);
    sandbox.await_lines("caught", 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let pids = sandbox.pids("up");
    eventually("the end of the command", || !is_alive(pids[0]));
    assert!(now() - sent < Duration::from_secs(8), "its own grace");
}

#[test]
fn a_signal_in_the_first_instant_is_not_lost() {
    let sandbox = Sandbox::new();
    for millis in 0..25 {
        let child = sandbox.run("a", "60s", "exec sleep 60").spawn().unwrap();
        pause(Duration::from_millis(millis * 2));
        let sent = now();
        signal(child.id(), Signal::TERM);
        let done = end(child);
        // Before `run` listens, the signal ends it like any program: -1 here.
        assert!(matches!(done.code, 143 | -1), "{millis}: {done:?}");
        assert!(now() - sent < Duration::from_secs(30), "{millis}");
    }
    let free = done(&mut sandbox.run("a", "60s", "echo ran"));
    assert_eq!(free.stdout, "ran\n", "{}", free.stderr);
}

#[test]
fn a_term_while_the_store_hangs_ends_run_soon() {
    let sandbox = Sandbox::new();
    // Accepts and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://u:p@{}/d", listener.local_addr().unwrap());
    let arguments = [
        "run",
        "-n",
        "a",
        "--lock-at-most-for",
        "1m",
        "--store",
        &store,
    ];
    let child = sandbox
        .bare(&arguments)
        .args(["--", "true"])
        .spawn()
        .unwrap();
    let _connection = listener.accept().unwrap();
    let sent = now();
    signal(child.id(), Signal::TERM);
    assert_eq!(end(child).code, 143);
    assert!(now() - sent < Duration::from_secs(10));
}

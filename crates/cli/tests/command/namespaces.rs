//! PID namespaces as `unshare --fork --pid`, `bwrap` and `nsenter` create them: without `setsid`, so that the process
//! group of the command line has no number inside.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::common::{Sandbox, done, end, eventually, handles, now, pause, signal, sql};

/// With the namespace's own `/proc`, and with that of its parent, in which the same numbers are other processes.
const PROC: [&[&str]; 2] = [&["--mount-proc"], &[]];

/// This shell script as the first process of a new namespace; `$SHEDLOCK` is the program.
fn in_namespace(sandbox: &Sandbox, options: &[&str], script: &str) -> Command {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--fork", "--pid"]).args(options);
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command
    };
    let possible = done(unshare().arg("true"));
    assert_eq!(
        possible.code, 0,
        "this system refuses a new PID namespace, also as root of a user namespace: {}",
        possible.stderr
    );
    let mut command = unshare();
    command
        .args(["sh", "-c", script])
        .env("SHEDLOCK", env!("CARGO_BIN_EXE_shedlock"))
        .env("SHEDLOCK_STORE", sandbox.store())
        .current_dir(sandbox.path(""));
    command
}

#[test]
fn a_command_runs_in_a_pid_namespace_without_setsid() {
    for options in PROC {
        let sandbox = Sandbox::new();
        // As the first process of the namespace, and as another one.
        for script in [
            "exec $SHEDLOCK run -n a --lock-at-most-for 60s -- sh -c 'echo ran; exit 3'",
            "$SHEDLOCK run -n a --lock-at-most-for 60s -- sh -c 'echo ran; exit 3'; exit $?",
        ] {
            let ended = done(&mut in_namespace(&sandbox, options, script));
            assert_eq!(
                (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
                (3, "ran\n", ""),
                "{options:?} {script}"
            );
            assert_eq!(sandbox.lock("a")["state"], "free", "{options:?} {script}");
        }
    }
}

#[test]
fn what_a_command_leaves_behind_in_a_pid_namespace_is_stopped_and_nothing_else() {
    let script = "sleep 70 & bystander=$!\n\
        $SHEDLOCK run -n a --lock-at-most-for 60s -- sh -c 'sleep 60 & echo $! > left'; code=$?\n\
        kill -0 $bystander || echo the bystander is gone\n\
        kill -0 $(cat left) 2>/dev/null && echo left behind\n\
        exit $code";
    for options in PROC {
        let sandbox = Sandbox::new();
        let began = now();
        let ended = done(&mut in_namespace(&sandbox, options, script));
        assert_eq!((ended.code, ended.stdout.as_str()), (0, ""), "{options:?}");
        assert!(now() - began < Duration::from_secs(50), "{options:?}");
        assert_eq!(sandbox.lock("a")["state"], "free", "{options:?}");
    }
}

#[test]
fn what_a_command_of_process_1_abandons_does_not_stay_as_a_zombie() {
    let sandbox = Sandbox::new();
    let job = "for i in 1 2 3; do (sleep 0.1 & ); done; sleep 0.5; rounds=50\n\
        while grep -qs ') Z ' /proc/[0-9]*/stat && [ $rounds -gt 0 ]; do\n\
        sleep 0.1; rounds=$((rounds - 1)); done\n\
        echo running as child of $(cat /proc/1/comm); grep -hs ') Z ' /proc/[0-9]*/stat; true";
    std::fs::write(sandbox.path("job.sh"), job).unwrap();
    let script = "exec $SHEDLOCK run -n a --lock-at-most-for 60s -- sh job.sh";
    let ended = done(&mut in_namespace(&sandbox, PROC[0], script));
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (0, "running as child of shedlock\n", "")
    );
    assert_eq!(sandbox.lock("a")["state"], "free");
}

#[test]
fn process_1_does_not_swallow_signals() {
    for options in PROC {
        for (sent, script, code) in [
            (Signal::TERM, "echo x > up; exec sleep 60", 143),
            (
                Signal::INT,
                "trap 'echo cleaned > state; exit 9' INT; echo x > up; \
                 while :; do sleep 0.05; done",
                9,
            ),
        ] {
            let sandbox = Sandbox::new();
            std::fs::write(sandbox.path("job.sh"), script).unwrap();
            let script = "exec $SHEDLOCK run -n a --lock-at-most-for 60s -- sh job.sh";
            let outside = in_namespace(&sandbox, options, script)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            sandbox.await_lines("up", 1);
            signal(first_child_of(outside.id()), sent);
            let ended = end(outside);
            assert_eq!(ended.code, code, "{options:?} {sent:?}: {}", ended.stderr);
            assert_eq!(sandbox.lock("a")["state"], "free", "{options:?} {sent:?}");
        }
    }
}

/// The kernel does not apply a signal's default action to the first process of a namespace.
#[test]
fn process_1_ends_on_a_signal_whatever_it_waits_for() {
    // Accepts and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let hangs = format!("--store 'redis://{address}/0?connect_timeout=1m&response_timeout=1m'");
    let mut cases: Vec<_> = [
        (Signal::TERM, 143),
        (Signal::INT, 130),
        (Signal::HUP, 129),
        (Signal::QUIT, 131),
    ]
    .map(|(sent, code)| (sent, code, "list --watch 50ms".to_owned()))
    .into();
    cases.push((Signal::INT, 130, "pause held --wait 1m".to_owned()));
    for command in [
        "list",
        "show a",
        "unlock a --force",
        "extend a --for 1m",
        "pause a",
        "resume a",
        "slot reset a",
        "prune --idle-for 1d",
        "doctor",
        "migrate",
        "metrics",
        "jobs",
        "history a",
        "run -n a --lock-at-most-for 1m",
        "hold a --lock-at-most-for 1m",
    ] {
        let (command, rest) = match command.starts_with("run") {
            true => (command, " -- true"),
            false => (command, ""),
        };
        cases.push((Signal::TERM, 143, format!("{command} {hangs}{rest}")));
    }
    let sandbox = Sandbox::migrated();
    sql(
        &sandbox,
        "INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
            VALUES ('held', 4102444800000, 1700000000000, 'a/1/ff')",
    );
    for (sent, code, command) in cases {
        let script = format!("ulimit -c 0; exec $SHEDLOCK {command}");
        let mut outside = in_namespace(&sandbox, PROC[0], &script)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let first = first_child_of(outside.id());
        let program = format!("/proc/{first}/comm");
        eventually("the program and its handler", || {
            let program = std::fs::read_to_string(&program);
            program.is_ok_and(|it| it == "shedlock\n") && handles(first, sent)
        });
        // Most of them wait by then.
        pause(Duration::from_millis(300));
        let waiting = outside.try_wait().unwrap();
        assert_eq!(waiting, None, "{command}");
        signal(first, sent);
        let at = now();
        while outside.try_wait().unwrap().is_none() {
            // Half as long as a store may take.
            if now() - at > Duration::from_secs(30) {
                signal(first, Signal::KILL);
                panic!("still running: {command} {sent:?}");
            }
            pause(Duration::from_millis(20));
        }
        let ended = end(outside);
        assert_eq!(ended.code, code, "{command} {sent:?}: {}", ended.stderr);
    }
}

/// The first process of the namespace, by its number outside.
fn first_child_of(unshare: u32) -> u32 {
    let mut found = None;
    eventually("a child of unshare", || {
        let file = format!("/proc/{unshare}/task/{unshare}/children");
        let children = std::fs::read_to_string(file).unwrap_or_default();
        found = children.split_whitespace().next().map(str::to_owned);
        found.is_some()
    });
    found.and_then(|pid| pid.parse().ok()).unwrap()
}

/// Leaves a process that has left the group and ignores signals, with its number in `left`.
const LEAVES_A_PROCESS: &str = "setsid sh -c 'trap \"\" TERM HUP; echo $$ > left; touch up; exec sleep 100' \
                                > /dev/null 2>&1 < /dev/null &\n\
                                while [ ! -e up ]; do sleep 0.05; done\n";

/// Runs this job under a short lease with keep-alive. Prints the exit code, and whether the lock is held and a process
/// of the job runs at that time.
fn left_in_namespace(options: &[&str], job: &str) -> (Sandbox, super::common::Done) {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("job.sh"), format!("{LEAVES_A_PROCESS}{job}")).unwrap();
    let script = "$SHEDLOCK run -n a --lock-at-most-for 6s --keep-alive -- sh job.sh; echo $?\n\
        $SHEDLOCK show a > shown; grep -q '^state  *held' shown && echo held\n\
        kill -0 $(cat left) 2> /dev/null && echo left";
    let ended = done(&mut in_namespace(&sandbox, options, script));
    (sandbox, ended)
}

#[test]
fn a_lock_is_not_given_back_while_a_process_may_run_that_proc_does_not_show() {
    let (sandbox, ended) = left_in_namespace(&[], "exit 0");
    assert_eq!(ended.stdout, "75\nheld\nleft\n", "{}", ended.stderr);
    let said = "a: processes of the command may be left that cannot be found";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let said = "the lock is not released: it becomes free by itself at ";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(
        !ended.stderr.contains("they were stopped"),
        "{}",
        ended.stderr
    );
    // Nothing extends the lease any more.
    eventually("the end of the lease", || {
        sandbox.lock("a")["state"] == "free"
    });

    // The same with a `/proc` that shows the process, which is then stopped.
    let (_, ended) = left_in_namespace(&["--mount-proc"], "exit 0");
    assert_eq!(ended.stdout, "0\n", "{}", ended.stderr);
    let said = "they were stopped before the lock was released";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn without_its_watchdog_a_lock_is_not_given_back_while_a_hidden_process_may_run() {
    let killed = "kill -KILL $PPID; sleep 60";
    let (_, ended) = left_in_namespace(&[], killed);
    // Meanwhile nothing extends the lease.
    assert!(ended.stdout.starts_with("75\n"), "{ended:?}");
    assert!(ended.stdout.ends_with("left\n"), "{ended:?}");
    assert!(
        ended.stderr.contains("the lock is not released: "),
        "{ended:?}"
    );
    let said = "a: processes of the command may be left that cannot be found";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);

    let (_, ended) = left_in_namespace(&["--mount-proc"], killed);
    assert!(ended.stdout.starts_with("70\n"), "{ended:?}");
    assert!(
        !ended.stdout.contains("left") && !ended.stdout.contains("held"),
        "{ended:?}"
    );
}

/// An application is process 1 of its container, and does not wait for the children of others.
#[test]
fn a_run_leaves_no_process_to_a_process_1_that_does_not_wait() {
    const APPLICATION: &str = r#"
import os, subprocess
run = [os.environ["SHEDLOCK"], "run", "-q", "-n", "z", "--lock-at-most-for", "30s", "--"]
for command in (["true"], ["sh", "-c", "exit 3"], ["/no/such"]) * 3:
    subprocess.run(run + command, stderr=subprocess.DEVNULL)
stats = (open(f"/proc/{pid}/stat").read() for pid in os.listdir("/proc") if pid.isdigit())
print([stat for stat in stats if ") Z " in stat])
"#;
    let sandbox = Sandbox::new();
    sandbox.script("application.py", APPLICATION);
    let script = "exec python3 application.py";
    let ended = done(&mut in_namespace(&sandbox, PROC[0], script));
    assert_eq!(
        (ended.code, &*ended.stdout),
        (0, "[]\n"),
        "{}",
        ended.stderr
    );
}

//! PID namespaces as `unshare --fork --pid`, `bwrap` and `nsenter` create them: without `setsid`, so that the process
//! group of the command line has no number inside.

use std::process::Command;
use std::time::Duration;

use super::common::{Sandbox, done, now};

/// With the namespace's own `/proc`, and with that of its parent, in which the same numbers are other processes.
const PROC: [&[&str]; 2] = [&["--mount-proc"], &[]];

/// This shell script as the first process of a new namespace; `$SHEDLOCK` is the program.
fn in_namespace(sandbox: &Sandbox, options: &[&str], script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--fork", "--pid"]).args(options);
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
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

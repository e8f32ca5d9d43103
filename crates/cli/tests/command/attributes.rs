//! The command starts as if the caller had started it: with the same attributes, limits and open files.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use super::common::{Sandbox, done};

/// What belongs to a single process, or to a moment, and not to what it inherits. The group is the command's own.
const OWN: [&str; 14] = [
    "Pid",
    "PPid",
    "Tgid",
    "Ngid",
    "NStgid",
    "NSpid",
    "NSpgid",
    "FDSize",
    "SigQ",
    "Vm",
    "Rss",
    "Hugetlb",
    "voluntary",
    "nonvoluntary",
];

/// The output of a command under these words, as a caller with unusual attributes starts it. The caller is bash, which
/// passes on the signal mask that it inherits; dash clears it.
fn report(sandbox: &Sandbox, words: &[&str], command: &[&str]) -> Vec<String> {
    let caller =
        "trap '' HUP USR1; umask 027; ulimit -S -n 400; ulimit -c 0; exec 7> seven; exec \"$@\"";
    let mut caller = {
        let mut bash = Command::new("nice");
        bash.args(["-n", "3", "bash", "-c", caller, "bash"]);
        bash
    };
    caller
        .args(words)
        .args(command)
        .current_dir(sandbox.path(""))
        .env("SHEDLOCK_STORE", sandbox.store())
        .stdin(Stdio::null())
        .process_group(0);
    let ended = done(&mut caller);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{words:?}");
    let is_own = |line: &&str| OWN.iter().any(|own| line.starts_with(own));
    let lines = ended.stdout.lines().filter(|line| !is_own(line));
    lines.map(str::to_owned).collect()
}

/// Attributes and limits; open files; niceness.
const REPORTS: [(&[&str], &str); 3] = [
    (
        &[
            "cat",
            "/proc/self/status",
            "/proc/self/limits",
            "/proc/self/oom_score_adj",
        ],
        "SigBlk:\t0000000000000800",
    ),
    (&["ls", "/proc/self/fd"], "7"),
    (&["nice"], ""),
];

#[test]
fn the_command_inherits_what_the_caller_has() {
    let exe = env!("CARGO_BIN_EXE_shedlock");
    // The second attempt at a slot is started by a process that has started one before.
    let again = "[ -e tried ] || { touch tried; exit 1; }; exec \"$@\"";
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGUSR2);
    let before = mask.thread_swap_mask(SigmaskHow::SIG_SETMASK).unwrap();
    for (command, unusual) in REPORTS {
        let sandbox = Sandbox::migrated();
        let run = |name, options: &[&'static str]| {
            [
                &[exe, "run", "-n", name, "--lock-at-most-for", "1m"],
                options,
            ]
            .concat()
        };
        let once = run("a", &["--"]);
        let twice = run(
            "b",
            &[
                "--every",
                "1h",
                "--must-not-be-lost",
                "--retry-backoff",
                "10ms",
                "-q",
                "--",
                "bash",
                "-c",
                again,
                "bash",
            ],
        );
        let expected = report(&sandbox, &[], command);
        let is_unusual = expected.iter().any(|line| line.starts_with(unusual));
        assert!(is_unusual, "{unusual}: {expected:?}");
        for words in [once, twice] {
            assert_eq!(report(&sandbox, &words, command), expected, "{words:?}");
        }
    }
    before.thread_set_mask().unwrap();
}

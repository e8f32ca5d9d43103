//! Exit codes that depend on time or on processes; `codes` and `transcripts/exit_codes.md` have the others.

use std::os::unix::process::CommandExt;

use super::common::{Sandbox, done};

/// A lease that is used up before the command starts gives 69.
#[test]
fn used_up() {
    let sandbox = Sandbox::new();
    assert_eq!(
        done(&mut sandbox.shedlock(&["migrate", "--no-journal"])).code,
        0
    );
    let done = done(&mut sandbox.run("a", "1ms", "echo x > started"));
    assert_eq!(done.code, 69, "{}", done.stderr);
    let advice = "raise --lock-at-most-for";
    assert!(done.stderr.contains(advice), "{}", done.stderr);
    assert!(!sandbox.path("started").exists());
}

/// A command that runs into its deadline gives 75.
#[test]
fn deadline() {
    let sandbox = Sandbox::new();
    let done = done(&mut sandbox.run("a", "9s", "echo x > started; sleep 30; echo y > late"));
    assert_eq!(done.code, 75, "{}", done.stderr);
    assert!(
        done.stderr.contains("--lock-at-most-for"),
        "{}",
        done.stderr
    );
    assert_eq!(sandbox.read("started"), "x\n");
    assert!(!sandbox.path("late").exists());
}

/// Signals that the caller ignores stay ignored.
#[test]
fn ignored_signals() {
    let sandbox = Sandbox::new();
    let exe = env!("CARGO_BIN_EXE_shedlock");
    let script = format!(
        "trap '' HUP; exec {exe} run -n a --lock-at-most-for 1m -- \
         sh -c 'kill -HUP $$; echo lives'"
    );
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &script])
        .env("SHEDLOCK_STORE", sandbox.store())
        .process_group(0);
    let done = done(&mut shell);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, "lives\n"),
        "{}",
        done.stderr
    );
}

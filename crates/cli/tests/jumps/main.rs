//! The command on a host whose wall clock jumps forward, as after a pause of the whole machine: under libfaketime, which
//! leaves the other clocks alone. Its lease counts the jump as elapsed time.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

#[path = "../command/common.rs"]
mod common;

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use common::{Sandbox, all_gone, end, eventually, is_alive, now, pause, signal};
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::process::Signal;
use shedlock_rig::given;

/// The path of libfaketime, which `cargo xtask test` installs.
const LIBRARY: &str = "SHEDLOCK_TEST_FAKETIME";

/// A jump is noticed within a second. The rest is for a busy machine. Without the jump, all would go on for 20 s.
const SOON: Duration = Duration::from_secs(10);

/// Ends when it is asked to.
const SCRIPT: &str = "echo $$ >> pids; while :; do sleep 0.1; done";

fn main() {
    given::needs("libfaketime");
    let arguments = Arguments::from_args();
    let tests: [(&str, fn()); 8] = [
        ("a_jump_past_the_lease_stops_its_command", || {
            past_the_lease(&[])
        }),
        ("a_jump_past_the_lease_stops_a_command_that_extends", || {
            past_the_lease(&["--keep-alive"])
        }),
        (
            "the_watchdog_stops_the_command_of_a_run_that_is_stopped",
            stopped_run,
        ),
        (
            "a_jump_that_leaves_time_brings_the_end_of_the_lease_closer",
            closer,
        ),
        (
            "a_lease_that_is_extended_in_time_goes_on_after_a_jump",
            goes_on,
        ),
        (
            "a_lock_that_is_only_held_ends_with_a_jump_past_its_lease",
            || hold(&[]),
        ),
        (
            "a_jump_past_its_time_does_not_end_a_hold_that_was_to_last",
            hold_for,
        ),
        ("a_clock_that_is_set_back_changes_nothing", set_back),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok::<_, Failed>(())
        })
    });
    libtest_mimic::run(&arguments, trials.into()).exit();
}

/// A store, and the wall clock of the commands that use it.
struct Host(Sandbox);

impl Host {
    fn new() -> Self {
        let host = Self(Sandbox::migrated());
        host.is_ahead_by(0);
        host
    }

    /// Sets the wall clock of running commands, too.
    fn is_ahead_by(&self, seconds: i64) {
        // Atomically: a partial file would be read as a different time.
        let new = self.0.path("clock.new");
        std::fs::write(&new, format!("{seconds:+}\n")).unwrap();
        std::fs::rename(&new, self.0.path("clock")).unwrap();
    }

    fn here(&self, command: &mut Command) -> Child {
        let library = std::env::var(LIBRARY).unwrap_or_default();
        assert!(
            Path::new(&library).exists(),
            "{LIBRARY} does not name libfaketime: run `cargo xtask test`"
        );
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", self.0.path("clock"))
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .spawn()
            .unwrap()
    }

    /// Starts the script, and waits until it runs.
    fn runs(&self, at_most: &str, options: &[&str]) -> (Child, Vec<u32>) {
        let child = self.here(&mut self.0.run_with("a", at_most, options, SCRIPT));
        self.0.await_lines("pids", 1);
        let pids = self.0.pids("pids");
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        (child, pids)
    }

    /// Holds a lock until its line is printed.
    fn holds(&self, options: &[&str]) -> Child {
        let mut command = self.0.shedlock(&["hold", "a", "--lock-at-most-for", "30s"]);
        let held = self.here(command.args(options));
        eventually("the lock is held", || self.0.lock("a")["state"] == "held");
        held
    }
}

fn gone_within(limit: Duration, pids: &[u32]) {
    let began = now();
    eventually("the end of the command", || all_gone(pids));
    let took = now().saturating_sub(began);
    assert!(took < limit, "the command went on for {took:?}");
}

fn past_the_lease(options: &[&str]) {
    let host = Host::new();
    let (child, pids) = host.runs("30s", options);
    host.is_ahead_by(40);
    gone_within(SOON, &pids);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap_or_default();
    let said = "shedlock: a: the command was stopped: its lease had ended: ";
    assert!(last.starts_with(said), "{}", ended.stderr);
    assert!(last.contains("the wall clock jumped forward"), "{last}");
    // Another owner does not wait for it.
    let next = host.here(&mut host.0.run("a", "30s", "echo next"));
    assert_eq!(end(next).stdout, "next\n");
}

fn stopped_run() {
    let host = Host::new();
    let (child, pids) = host.runs("30s", &[]);
    signal(child.id(), Signal::STOP);
    host.is_ahead_by(40);
    gone_within(SOON, &pids);
    signal(child.id(), Signal::CONT);
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
}

fn closer() {
    let host = Host::new();
    let (child, pids) = host.runs("60s", &[]);
    // Its last ten seconds are the time that the command has to end.
    host.is_ahead_by(40);
    pause(Duration::from_secs(2));
    assert!(is_alive(pids[0]), "the lease still has time");
    gone_within(Duration::from_secs(12), &pids);
    assert_eq!(end(child).code, 75);
}

fn goes_on() {
    let host = Host::new();
    let (child, pids) = host.runs("30s", &["--keep-alive"]);
    for jump in [15, 30] {
        let before = host.0.locked_until("a");
        host.is_ahead_by(jump);
        eventually("an extension", || host.0.locked_until("a") > before);
    }
    assert!(is_alive(pids[0]));
    signal(child.id(), Signal::TERM);
    let ended = end(child);
    assert_eq!(ended.code, 143, "{}", ended.stderr);
}

fn hold(options: &[&str]) {
    let host = Host::new();
    let held = host.holds(options);
    host.is_ahead_by(40);
    let began = now();
    let ended = end(held);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    let took = now().saturating_sub(began);
    assert!(took < SOON, "{took:?}");
    let last = ended.stderr.lines().last().unwrap_or_default();
    assert!(
        last.contains("the wall clock jumped forward"),
        "{}",
        ended.stderr
    );
}

/// `--for` is how long a caller wants the lock: its lease is another matter.
fn hold_for() {
    let host = Host::new();
    let held = host.holds(&["--for", "20s"]);
    host.is_ahead_by(15);
    pause(Duration::from_secs(3));
    assert!(is_alive(held.id()), "it was to last 20 s");
    assert_eq!(host.0.lock("a")["state"], "held");
    signal(held.id(), Signal::TERM);
    let ended = end(held);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

fn set_back() {
    let host = Host::new();
    let (child, pids) = host.runs("30s", &[]);
    host.is_ahead_by(-3_600);
    pause(Duration::from_secs(3));
    assert!(is_alive(pids[0]));
    signal(child.id(), Signal::TERM);
    let ended = end(child);
    assert_eq!(ended.code, 143, "{}", ended.stderr);
}

//! Runs that belong to the slots of a schedule.

use std::time::Duration;

use super::common::{Sandbox, calendar, done, end, pause, signal};
use rustix::process::Signal;

/// Once a year, so that no slot comes while a test runs.
const YEARLY: &str = "0 0 1 1 *";
/// The next slot is nearer than the last one, until the year 2052.
const LIFELONG: &str = "30000d";

fn year() -> i16 {
    let now = jiff::Timestamp::try_from(calendar()).unwrap();
    now.to_zoned(jiff::tz::TimeZone::UTC).year()
}

#[test]
fn a_slot_runs_once_and_the_command_sees_it() {
    let sandbox = Sandbox::new();
    let run = |script| done(&mut sandbox.run_with("a", "1m", &["--schedule", YEARLY], script));
    let first = run("echo $SHEDLOCK_SLOT");
    let slot = format!("{}-01-01T00:00:00Z", year());
    assert_eq!(first.stdout, format!("{slot}\n"), "{}", first.stderr);
    assert_eq!(sandbox.lock("a")["last_slot"], slot);

    let second = run("echo ran");
    assert_eq!((second.code, second.stdout.as_str()), (0, ""));
    let said = format!("shedlock: a: skipped slot {slot}: already taken\n");
    assert_eq!(second.stderr, said);
}

#[test]
fn of_ten_that_start_at_once_one_runs() {
    let sandbox = Sandbox::new();
    let starts: Vec<_> = (0..10)
        .map(|_| {
            let options = ["--schedule", YEARLY, "--lock-wait", "30s"];
            let script = "echo $SHEDLOCK_SLOT >> ran";
            sandbox.run_with("a", "60s", &options, script).spawn()
        })
        .collect();
    for start in starts {
        let ended = end(start.unwrap());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    assert_eq!(sandbox.read("ran").lines().count(), 1);
}

#[test]
fn the_time_zone_is_the_schedules() {
    let sandbox = Sandbox::new();
    let run =
        |options: &[&str]| done(&mut sandbox.run_with("a", "1m", options, "echo $SHEDLOCK_SLOT"));
    let seoul = ["--schedule", "0 0 0 1 1 *", "--zone", "Asia/Seoul"];
    let first = run(&seoul);
    let slot = format!("{}-12-31T15:00:00Z", year() - 1);
    assert_eq!(first.stdout, format!("{slot}\n"), "{}", first.stderr);
    let utc = run(&["--schedule", YEARLY]);
    let later = format!("{}-01-01T00:00:00Z", year());
    assert_eq!(utc.stdout, format!("{later}\n"), "{}", utc.stderr);

    let late = run(&seoul);
    assert_eq!((late.code, late.stdout.as_str()), (0, ""));
    let said = format!(
        "shedlock: a: skipped slot {slot}: too late: slots up to {later} were taken, or passed over by `shedlock slot reset`\n"
    );
    assert_eq!(late.stderr, said);
}

#[test]
fn periods_have_slots_too() {
    let sandbox = Sandbox::new();
    let options = ["--every", LIFELONG, "--skip-exit-code", "9"];
    let run = || done(&mut sandbox.run_with("a", "1m", &options, "echo $SHEDLOCK_SLOT"));
    let first = run();
    assert_eq!(first.stdout, "1970-01-01T00:00:00Z\n", "{}", first.stderr);
    assert_eq!(run().code, 9);
}

#[test]
fn a_clock_behind_its_timer_takes_the_intended_slot() {
    let sandbox = Sandbox::new();
    let options = ["--every", LIFELONG, "--slot-tolerance", LIFELONG];
    let run = done(&mut sandbox.run_with("a", "1m", &options, "echo $SHEDLOCK_SLOT"));
    assert_eq!(run.stdout, "2052-02-20T00:00:00Z\n", "{}", run.stderr);
}

#[test]
fn a_held_lock_is_a_skip_of_the_slot() {
    let sandbox = Sandbox::new();
    let holder = sandbox
        .run("a", "60s", "echo x > started; sleep 30")
        .spawn()
        .unwrap();
    sandbox.await_lines("started", 1);
    let skipped = done(&mut sandbox.run_with("a", "60s", &["--schedule", YEARLY], "echo ran"));
    assert_eq!((skipped.code, skipped.stdout.as_str()), (0, ""));
    let said = format!(
        "shedlock: a: skipped slot {}-01-01T00:00:00Z: held by ",
        year()
    );
    assert!(skipped.stderr.starts_with(&said), "{}", skipped.stderr);
    signal(holder.id(), Signal::TERM);
    end(holder);
}

#[test]
fn an_invalid_schedule_is_refused_before_anything_happens() {
    let sandbox = Sandbox::new();
    for (options, said) in [
        (&["--schedule", "61 * * * *"][..], "cron expression"),
        (&["--schedule", "0 0 30 2 *"], "never fires"),
        (&["--schedule", YEARLY, "--zone", "Mars/Base"], "time zone"),
        (&["--every", "0s"], "shortest period"),
        (&["--every", "10m", "--zone", "UTC"], "--zone"),
        (&["--every", "10m", "--schedule", YEARLY], "--schedule"),
        (&["--zone", "UTC"], "--schedule"),
        (&["--slot-tolerance", "1s"], "--schedule"),
    ] {
        let wrong = done(&mut sandbox.run_with("a", "1m", options, "echo ran"));
        assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""), "{options:?}");
        assert!(wrong.stderr.contains(said), "{options:?}: {}", wrong.stderr);
        assert!(!sandbox.path("locks.db").exists());
    }
}

#[test]
fn a_schedule_in_utc_on_a_host_in_another_zone_is_not_silent() {
    let sandbox = Sandbox::new();
    let run = |zone: &str, options: &[&str]| {
        let mut command = sandbox.run_with("a", "1m", options, "true");
        done(command.env("TZ", zone)).stderr
    };
    let yearly = ["--schedule", "0 0 1 1 *"];
    let warned = run("Asia/Seoul", &yearly);
    let said = "shedlock: a: --schedule is read in UTC, but this host's time zone is Asia/Seoul: if \
                the timer that starts this program uses it, as crond does, set --zone Asia/Seoul; \
                if not, set --zone to the zone that it uses, such as UTC\n";
    assert!(warned.starts_with(said), "{warned}");
    assert_eq!(warned.matches("such as UTC").count(), 1, "{warned}");
    // As a rule without a name.
    let warned = run("KST-9", &yearly);
    let said = "this host's time zone is not UTC: ";
    assert!(warned.contains(said), "{warned}");
    for (zone, options) in [
        ("UTC", &yearly[..]),
        ("Asia/Seoul", &["--schedule", "0 0 1 1 *", "--zone", "UTC"]),
        (
            "Asia/Seoul",
            &["--schedule", "0 0 1 1 *", "--zone", "Asia/Seoul"],
        ),
        ("Asia/Seoul", &["--every", "10m"]),
        ("Asia/Seoul", &[]),
        ("Asia/Seoul", &["-q", "--schedule", "0 0 1 1 *"]),
    ] {
        let silent = run(zone, options);
        assert!(
            !silent.contains("time zone"),
            "{zone} {options:?}: {silent}"
        );
    }
}

#[test]
fn a_run_that_outlasts_its_slot_makes_the_starts_for_the_next_skip_it_unless_they_wait() {
    let sandbox = Sandbox::new();
    let start = |options: &[&str], script: &str| {
        let options = [&["--every", "2s", "--slot-tolerance", "0s"], options].concat();
        sandbox.run_with("a", "1m", &options, script)
    };
    let long = "echo x > up; until [ -e go ]; do sleep 0.05; done";
    let first = start(&[], long).spawn().unwrap();
    sandbox.await_lines("up", 1);
    pause(Duration::from_secs(2));
    let skipped = done(&mut start(&[], "echo ran"));
    assert_eq!((skipped.code, &*skipped.stdout), (0, ""));
    assert!(skipped.stderr.contains(": held by "), "{}", skipped.stderr);
    let waiting = start(&["--lock-wait", "1m"], "echo x > waited").spawn();
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(first).code, 0);
    assert_eq!(end(waiting.unwrap()).code, 0);
    assert_eq!(sandbox.read("waited"), "x\n");
}

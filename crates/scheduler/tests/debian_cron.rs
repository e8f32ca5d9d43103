//! Debian's own cron is the oracle for changes of the clock: it runs a crontab under libfaketime, which lets an hour pass
//! in half a minute, and each line has to have run in the minutes of its slots.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};
use std::{env, fs};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use libtest_mimic::{Arguments, Failed, Trial};
use shedlock_rig::{Cron, Running, given, wait};
use shedlock_scheduler::Schedule;

/// The path of libfaketime, which `cargo xtask test` installs.
const LIBRARY: &str = "SHEDLOCK_TEST_FAKETIME";

/// How much faster the clock of cron is.
const SPEED: u64 = 120;

/// A minute of that clock.
const MINUTE: Duration = Duration::from_millis(60_000 / SPEED);

/// How long cron runs before a change of the clock, and after it. It covers an hour that comes twice.
const BEFORE: i64 = 65;
const AFTER: i64 = 70;

/// A busy machine may start a line minutes of that clock too late.
const ATTEMPTS: u32 = 3;

/// The zone, and the change of its clock.
const CHANGES: [(&str, &str); 4] = [
    ("Europe/Berlin", "2027-03-28T01:00:00Z"),
    ("Europe/Berlin", "2027-10-31T01:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Australia/Lord_Howe", "2027-04-03T15:00:00Z"),
];

/// Jobs at times of day, and jobs that run through.
const LINES: [&str; 12] = [
    "* * * * *",
    "30 2 * * *",
    "15 1,2,3 * * *",
    "0,30 2,3 * * *",
    "5 3 * * *",
    "0 0-5 * * *",
    "10-40/15 2 * * *",
    "30 2 * * SUN",
    "0 * * * *",
    "*/20 * * * *",
    "*/20 2 * * *",
    "45 */2 * * *",
];

fn main() {
    given::needs("cron and libfaketime");
    let mut arguments = Arguments::from_args();
    // They wait for cron's clock, and not for a processor.
    arguments.test_threads = Some(CHANGES.len());
    let trials = CHANGES.map(|(zone, change)| {
        let test = move || {
            check(zone, change);
            Ok::<_, Failed>(())
        };
        Trial::test(format!("{zone} {change}"), test)
    });
    libtest_mimic::run(&arguments, trials.into()).exit();
}

/// Compares the minutes in which cron ran each line with the slots of its expression.
fn check(zone: &str, change: &str) {
    let change: Timestamp = change.parse().unwrap();
    let from = change.as_second() - 60 * BEFORE;
    let ticks = (BEFORE + AFTER) as usize;
    let until = from + 60 * ticks as i64;
    for attempt in 1.. {
        let host = tempfile::tempdir().unwrap();
        let runs = runs(host.path(), zone, from, ticks);
        let wrong = (0..).zip(LINES).find_map(|(nth, expression)| {
            let ran: BTreeSet<i64> = runs[nth].range(..=until).copied().collect();
            let expected = slots(&Schedule::cron_in(expression, zone).unwrap(), from, until);
            (ran != expected).then(|| format!("{expression}: cron {ran:?}, here {expected:?}"))
        });
        match wrong {
            None => return,
            Some(wrong) => assert!(attempt < ATTEMPTS, "{zone} around {change}: {wrong}"),
        }
    }
}

fn slots(schedule: &Schedule, from: i64, until: i64) -> BTreeSet<i64> {
    let at = |second: i64| UNIX_EPOCH + Duration::from_secs(second.unsigned_abs());
    let next = |after: i64| {
        let next = schedule.next_after(at(after)).unwrap();
        next.as_micros() / 1_000_000
    };
    std::iter::successors(Some(next(from)), |slot| Some(next(*slot)))
        .take_while(|slot| *slot <= until)
        .collect()
}

/// The minutes in which cron runs each line. It may run one several times in a minute: once for each time that was
/// skipped.
fn runs(host: &Path, zone: &str, from: i64, ticks: usize) -> [BTreeSet<i64>; LINES.len()] {
    let log = host.join("log");
    let line = |(nth, line): (usize, &&str)| {
        let log = log.display();
        format!("{line} echo {nth} $(date +\\%s\\%N) >> {log}\n")
    };
    let crontab: String = LINES.iter().enumerate().map(line).collect();
    Cron::Debian.install(host, &crontab).unwrap();
    // Early in a minute: cron has to be ready at the next one, in which the first line runs.
    let local = Timestamp::from_second(from + 2).unwrap();
    let local = local.to_zoned(TimeZone::get(zone).unwrap());
    let clock = local.strftime("@%Y-%m-%d %H:%M:%S");
    let mut cron = Cron::Debian.command(host, &[]);
    cron.env("LD_PRELOAD", library())
        .env("TZ", zone)
        .env("FAKETIME", format!("{clock} x{SPEED}"))
        .stderr(Stdio::null());
    let cron = Running::start(&mut cron).unwrap();
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    let ticked = || {
        lines()
            .lines()
            .filter(|line| line.starts_with("0 "))
            .count()
            > ticks
    };
    assert!(
        wait::until(4 * MINUTE * ticks as u32, ticked),
        "cron stopped"
    );
    drop(cron);
    by_minute(&lines(), from)
}

/// The first line runs in each minute, so its runs tell the minutes of the others.
fn by_minute(log: &str, from: i64) -> [BTreeSet<i64>; LINES.len()] {
    let runs: Vec<(usize, u64)> = log
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(nth, nanos)| (nth.parse().unwrap(), nanos.parse().unwrap()))
        .collect();
    let ticks: Vec<u64> = runs
        .iter()
        .filter(|(nth, _)| *nth == 0)
        .map(|run| run.1)
        .collect();
    let mut minutes = LINES.map(|_| BTreeSet::new());
    for (nth, nanos) in runs {
        let nearest = (1..)
            .zip(&ticks)
            .min_by_key(|(_, tick)| tick.abs_diff(nanos));
        let (minute, _) = nearest.unwrap();
        minutes[nth].insert(from + 60 * minute);
    }
    minutes
}

fn library() -> String {
    let library = env::var(LIBRARY).unwrap_or_default();
    assert!(
        Path::new(&library).exists(),
        "{LIBRARY} does not name libfaketime: run `cargo xtask test`"
    );
    library
}

//! Fuzz targets for the parsers of untrusted text in this crate. Each panics if a promise is
//! broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use promises::is_refusal;
use shedlock_core::{Error, ErrorKind, Slot};

use crate::Schedule;

/// The resolution of slots.
const MICRO: Duration = Duration::from_micros(1);

/// A cron expression, a time zone and an instant in seconds since 1970, one per line.
pub fn cron(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let expression = lines.next().unwrap_or_default();
    let zone = lines.next().unwrap_or("UTC");
    let at = instant(lines.next().unwrap_or_default());
    let schedule = Schedule::cron_in(expression, zone);
    if let Err(error) = &schedule {
        let shown = [expression, zone].map(|text| format!("{text:?}"));
        let is_shown = shown.iter().any(|shown| error.to_string().contains(shown));
        assert!(is_shown, "{error}");
    }
    promises(schedule, at);
}

/// A period and an instant in seconds since 1970, one per line.
pub fn every(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (period, at) = text.split_once('\n').unwrap_or((&text, ""));
    promises(Schedule::every(period), instant(at));
    if let Err(error) = Schedule::fixed_delay(period) {
        is_refusal(&error, &[ErrorKind::InvalidInput]);
    }
}

fn instant(seconds: &str) -> SystemTime {
    let seconds = seconds.trim().parse().unwrap_or(1_800_000_000_u64);
    // There are no slots beyond the calendar, but an instant there must not cause a panic.
    UNIX_EPOCH + Duration::from_secs(seconds % 300_000_000_000)
}

fn promises(schedule: Result<Schedule, Error>, at: SystemTime) {
    let schedule = match schedule {
        Ok(schedule) => schedule,
        Err(error) => return is_refusal(&error, &[ErrorKind::InvalidInput]),
    };
    let newest_at = |at| schedule.slot_at(at, Duration::ZERO);
    let newest = newest_at(at);
    let next = schedule.next_after(at);
    if let Some(newest) = newest {
        assert!(
            newest.instant() <= at,
            "{newest} is not at or before {at:?}"
        );
        assert_eq!(next_after(&schedule, newest), next, "after {newest}");
        assert_eq!(newest_at(newest.instant()), Some(newest));
        if let Some(before) = newest.instant().checked_sub(MICRO) {
            assert_eq!(schedule.next_after(before), Some(newest), "before {newest}");
        }
    }
    if let Some(next) = next {
        assert!(next.instant() > at, "{next} is not after {at:?}");
        assert_eq!(newest_at(next.instant()), Some(next), "at {next}");
        assert_eq!(newest_at(next.instant() - MICRO), newest, "before {next}");
    }
    let near = schedule.slot_at(at, Duration::MAX);
    assert!(near == newest || near == next);
    assert!(schedule.to_string().len() > 3);
}

fn next_after(schedule: &Schedule, slot: Slot) -> Option<Slot> {
    schedule.next_after(slot.instant())
}

#[cfg(test)]
shedlock_fuzz::tests!(cron, every);

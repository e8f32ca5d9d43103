//! The slot that a start belongs to.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use shedlock::{
    Clock, ClockOffset, Completion, LockConfig, Owner, Pause, Skip, SkipReason, Slot, SystemClock,
};

use crate::args::RunArgs;
use crate::exit::Failure;
use crate::output::{instant, open_end, second, shedlock_on, shell_word, visible};
use crate::terminal::Terminal;
use crate::words;

/// The current slot, if the arguments name a schedule. Read at the start, before the store takes time.
pub(super) fn of(args: &RunArgs) -> Result<Option<Slot>, Failure> {
    let Some(schedule) = args.schedule()? else {
        return Ok(None);
    };
    let Some(tolerance) = args.slot_tolerance else {
        return Ok(Some(schedule.slot_now()?));
    };
    let slot = schedule.slot_at(SystemClock.system_time(), tolerance);
    slot.map(Some).ok_or_else(|| {
        Failure::usage(format!(
            "{}: no slot yet: this host's clock is earlier than the first slot of {schedule}; set \
             the clock",
            args.name
        ))
    })
}

/// Warns if the schedule is read in UTC only because no zone is set, on a host that has another local time: the timer
/// that starts this program probably uses that, and the two would disagree about the slots.
pub(super) fn warn_of_zone(args: &RunArgs, terminal: Terminal) {
    if args.schedule.is_none() || args.zone.is_some() {
        return;
    }
    let Ok(zone) = TimeZone::try_system() else {
        return;
    };
    if is_utc(
        &zone,
        Timestamp::try_from(SystemClock.system_time()).unwrap_or_default(),
    ) {
        return;
    }
    let (zone, option) = match zone.iana_name() {
        Some(name) => (name.to_owned(), format!("--zone {name}")),
        None => ("not UTC".to_owned(), "its name with --zone".to_owned()),
    };
    terminal.warning(&format!(
        "{}: --schedule is read in UTC, but this host's time zone is {zone}: if the timer that \
         starts this program uses it, as crond does, set {option}; if not, set --zone to the \
         zone that it uses, such as UTC",
        args.name
    ));
}

/// Whether this zone is the same as UTC from now on.
fn is_utc(zone: &TimeZone, now: Timestamp) -> bool {
    let mut later = zone.following(now).take(4);
    zone.to_offset(now).is_zero() && later.all(|change| change.offset().is_zero())
}

/// The lock together with this slot.
///
/// The store refuses slots that are too far ahead of its clock. A slot within the user's tolerance is accepted.
pub(super) fn claimed_by(lock: LockConfig, slot: Slot, args: &RunArgs) -> LockConfig {
    let lock = lock.slot(slot).slot_tolerance(tolerance(args));
    if args.must_not_be_lost {
        lock.completion(Completion::OnSuccess(args.retries()))
    } else {
        lock
    }
}

/// How far a slot may be ahead of the store's clock.
pub(crate) fn tolerance(args: &RunArgs) -> Duration {
    let tolerance = args.slot_tolerance.unwrap_or_default();
    tolerance.max(Slot::DEFAULT_TOLERANCE)
}

/// How to try a slot again that was given up. The lock stays taken for up to this long, or for the pause after the last
/// attempt.
pub(super) fn again(args: &RunArgs, slot: Slot, taken_for: Duration) -> String {
    let retries = args.retries();
    let pause = retries.pause_after(retries.get_max_attempts());
    format!(
        "to try this slot again before the next one is due, run `shedlock slot reset {} --to {}{}`, then start \
         this command again with --lock-wait {}m",
        shell_word(&args.name),
        slot.just_before(),
        words::store_option(),
        pause.max(taken_for).as_secs() / 60 + 1,
    )
}

/// Why the slot is not run unless an operator acts, if that is so.
pub(super) fn not_run(
    name: &str,
    slot: Option<Slot>,
    skip: &Skip,
    again: impl FnOnce(Slot) -> String,
) -> Option<String> {
    let word = shell_word(name);
    match (skip.reason, slot) {
        (SkipReason::SlotGivenUp, Some(slot)) => Some(format!(
            "{name}: not run: slot {slot} was given up: all its attempts failed; {}",
            again(slot)
        )),
        (SkipReason::SlotGivenUp, None) => Some(format!("{name}: not run: {skip}")),
        (SkipReason::LastSlotAhead, _) => {
            let last = skip
                .last_slot
                .map_or_else(String::new, |last| format!(", {last},"));
            let reset = format!("run `shedlock slot reset {word}{}`", words::store_option());
            let Some(clock) = skip.clock else {
                return Some(format!(
                    "{name}: not run: the last slot taken{last} is ahead of this host's clock ({}), and \
                     the store does not report its time; set this clock if it is wrong (NTP); if it \
                     is right, {reset}",
                    second(SystemClock.system_time())
                ));
            };
            let too = match clock.is_off() {
                true => format!("; {clock}: set it, too (NTP)"),
                false => String::new(),
            };
            Some(format!(
                "{name}: not run: the last slot taken{last} is ahead of the store's clock ({}): a host \
                 whose clock was wrong took it, or an operator set it with `slot reset --to`; to let \
                 slots run again, {reset}{too}",
                second(clock.store)
            ))
        }
        (SkipReason::ClockBehind, _) => {
            let (last, clock) = skip.last_slot.zip(skip.clock)?;
            Some(format!(
                "{name}: not run: slots up to {last} were taken already, and {clock}; set this host's \
                 clock (NTP): there is nothing to reset"
            ))
        }
        _ => None,
    }
}

/// The clocks as the cause, after these words, if this host's is off.
fn clock_of(skip: &Skip) -> String {
    match skip.clock.filter(ClockOffset::is_off) {
        Some(clock) => format!(": {clock}; set this host's clock (NTP)"),
        None => String::new(),
    }
}

/// Why the lock was not acquired, in the words of the command line. In a message about this slot.
pub(super) fn why(skip: &Skip, slot: Option<Slot>) -> String {
    let owner = skip.owner.as_deref().map(visible);
    let instant = skip.until.and_then(instant);
    let until = instant
        .as_ref()
        .map_or_else(String::new, |instant| format!(" until {instant}"));
    match (skip.reason, owner) {
        (SkipReason::Held, Some(owner)) if !Owner::is_ours(&owner) => {
            format!("taken by {}{until}", shedlock_on(Some(&owner)))
        }
        (SkipReason::Held, Some(owner)) => format!("held by {owner}{until}"),
        (SkipReason::Held, None) => format!("held by another owner{until}"),
        (SkipReason::Paused, Some(owner)) => {
            let pause = Pause::parse(&owner).map(|pause| pause.to_string());
            let now = Some(SystemClock.system_time());
            let end = skip.until.and_then(|end| open_end(end, now));
            let until = end.map_or(until, |end| format!(" until {end}"));
            format!("paused {}{until}", pause.unwrap_or_default())
        }
        (SkipReason::AtLeast, owner) => {
            let owner = owner.unwrap_or_else(|| "another owner".into());
            format!(
                "the lock stays taken{until} although the run of {owner} has ended \
                 (--lock-at-least-for, or --retry-backoff after a failure)"
            )
        }
        (SkipReason::BackingOff, _) => {
            let (failed, then) = match skip.last_slot {
                Some(last) if slot != Some(last) => (
                    format!("an attempt at slot {last} failed"),
                    "the lock stays taken until",
                ),
                _ => (
                    "an attempt at it failed".to_owned(),
                    "the next attempt is not before",
                ),
            };
            match instant {
                Some(instant) => format!("{failed}; {then} {instant} (--retry-backoff)"),
                None => failed,
            }
        }
        _ => skip.to_string(),
    }
}

/// Why the command is not run.
pub(super) fn skipped(name: &str, slot: Option<Slot>, skip: &Skip) -> String {
    let why = why(skip, slot);
    let Some(slot) = slot else {
        return format!("{name}: skipped: {why}");
    };
    if let Some(skipped) = skip.skipped_slots
        && skip.reason == SkipReason::SlotTaken
        && skipped.contains(slot)
    {
        return format!(
            "{name}: skipped slot {slot}: a pause skipped the slots after {}, up to {}",
            skipped.from, skipped.until
        );
    }
    if skip.reason != SkipReason::SlotTaken {
        return format!("{name}: skipped slot {slot}: {why}");
    }
    match skip.last_slot {
        Some(last) if last != slot => {
            format!(
                "{name}: skipped slot {slot}: too late: slots up to {last} were taken, or passed over by \
                 `shedlock slot reset`{}",
                clock_of(skip)
            )
        }
        _ => format!("{name}: skipped slot {slot}: already taken"),
    }
}

#[cfg(test)]
mod tests {
    use shedlock::SkippedSlots;

    use super::*;

    fn slot(seconds: i64) -> Slot {
        Slot::from_micros((1_800_000_000 + seconds) * 1_000_000).unwrap()
    }

    #[test]
    fn a_skip_names_its_slot() {
        let taken = Skip::new(SkipReason::SlotTaken);
        let said = |skip| skipped("a", Some(slot(0)), &skip);
        let same = taken.clone().with_last_slot(slot(0));
        let already = "a: skipped slot 2027-01-15T08:00:00Z: already taken";
        assert_eq!(said(same), already);
        assert_eq!(said(taken.clone()), already, "by ShedLock, which has none");
        assert_eq!(
            said(taken.with_last_slot(slot(60))),
            "a: skipped slot 2027-01-15T08:00:00Z: too late: slots up to \
             2027-01-15T08:01:00Z were taken, or passed over by `shedlock slot reset`"
        );
        let mut paused = Skip::new(SkipReason::SlotTaken).with_last_slot(slot(-60));
        paused.skipped_slots = Some(SkippedSlots::new(slot(-30), slot(30)));
        assert_eq!(
            said(paused),
            "a: skipped slot 2027-01-15T08:00:00Z: a pause skipped the slots after \
             2027-01-15T07:59:30Z, up to 2027-01-15T08:00:30Z"
        );
        let held = Skip::new(SkipReason::Held).with_owner("h/1/ff");
        assert_eq!(
            said(held.clone()),
            "a: skipped slot 2027-01-15T08:00:00Z: held by h/1/ff"
        );
        assert_eq!(skipped("a", None, &held), "a: skipped: held by h/1/ff");
        let kept = Skip::new(SkipReason::AtLeast)
            .with_owner("h/1/ff")
            .with_until(slot(5).instant());
        assert_eq!(
            skipped("a", None, &kept),
            "a: skipped: the lock stays taken until 2027-01-15T08:00:05Z although the run of \
             h/1/ff has ended (--lock-at-least-for, or --retry-backoff after a failure)"
        );
        let failed = Skip::new(SkipReason::BackingOff)
            .with_last_slot(slot(0))
            .with_until(slot(5).instant());
        assert_eq!(
            said(failed.clone()),
            "a: skipped slot 2027-01-15T08:00:00Z: an attempt at it failed; the next attempt is not \
             before 2027-01-15T08:00:05Z (--retry-backoff)"
        );
        assert_eq!(
            why(&failed, None),
            "an attempt at slot 2027-01-15T08:00:00Z failed; the lock stays taken until \
             2027-01-15T08:00:05Z (--retry-backoff)"
        );
    }

    #[test]
    fn a_zone_that_is_utc_only_in_winter_is_not_utc() {
        let winter: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        for (zone, expected) in [
            ("UTC", true),
            ("Etc/UTC", true),
            ("Africa/Abidjan", true),
            ("Europe/London", false),
            ("Asia/Seoul", false),
        ] {
            let zone = TimeZone::get(zone).unwrap();
            assert_eq!(is_utc(&zone, winter), expected, "{zone:?}");
        }
    }

    #[test]
    fn a_slot_that_no_host_will_run_comes_with_the_whole_command() {
        let never = |_| unreachable!("only for a slot that was given up");
        let given_up = Skip::new(SkipReason::SlotGivenUp);
        assert_eq!(
            not_run("a b", Some(slot(0)), &given_up, |slot| format!(
                "reset {slot}"
            ))
            .unwrap(),
            "a b: not run: slot 2027-01-15T08:00:00Z was given up: all its attempts failed; reset \
             2027-01-15T08:00:00Z"
        );
        let mut ahead = Skip::new(SkipReason::LastSlotAhead).with_last_slot(slot(60));
        ahead.clock = Some(ClockOffset::new(
            slot(0).instant(),
            slot(0).instant(),
            Duration::ZERO,
        ));
        assert_eq!(
            not_run("a b", Some(slot(0)), &ahead, never).unwrap(),
            "a b: not run: the last slot taken, 2027-01-15T08:01:00Z, is ahead of the store's clock \
             (2027-01-15T08:00:00Z): a host whose clock was wrong took it, or an operator set it \
             with `slot reset --to`; to let slots run again, run `shedlock slot reset 'a b'`"
        );
        let held = Skip::new(SkipReason::Held);
        assert_eq!(not_run("a", Some(slot(0)), &held, never), None);
    }
}

//! The slot that a start belongs to.

use shedlock::{Clock, Completion, LockConfig, Skip, SkipReason, Slot, SystemClock};

use crate::args::RunArgs;
use crate::exit::Failure;

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

/// The lock together with this slot.
///
/// The store refuses slots that are too far ahead of its clock. A slot within the user's tolerance is accepted.
pub(super) fn claimed_by(lock: LockConfig, slot: Slot, args: &RunArgs) -> LockConfig {
    let tolerance = args.slot_tolerance.unwrap_or_default();
    let lock = lock
        .slot(slot)
        .slot_tolerance(tolerance.max(Slot::DEFAULT_TOLERANCE));
    if args.must_not_be_lost {
        lock.completion(Completion::OnSuccess(args.retries()))
    } else {
        lock
    }
}

/// Why the command is not run.
pub(super) fn skipped(name: &str, slot: Option<Slot>, skip: &Skip) -> String {
    let Some(slot) = slot else {
        return format!("{name}: skipped: {skip}");
    };
    if skip.reason != SkipReason::SlotTaken {
        return format!("{name}: skipped slot {slot}: {skip}");
    }
    match skip.last_slot {
        Some(last) if last != slot => {
            format!("{name}: skipped slot {slot}: too late, the last slot taken is {last}")
        }
        _ => format!("{name}: skipped slot {slot}: already taken"),
    }
}

#[cfg(test)]
mod tests {
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
            "a: skipped slot 2027-01-15T08:00:00Z: too late, the last slot taken is \
             2027-01-15T08:01:00Z"
        );
        let held = Skip::new(SkipReason::Held).with_owner("h/1/ff");
        assert_eq!(
            said(held.clone()),
            "a: skipped slot 2027-01-15T08:00:00Z: held by h/1/ff"
        );
        assert_eq!(skipped("a", None, &held), "a: skipped: held by h/1/ff");
    }
}

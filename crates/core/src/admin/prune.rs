//! Removing the records of locks that are no longer used.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::contract::{Capabilities, Error, ErrorKind, LockName, LockRecord, LockState, Slot};

const DAY: Duration = Duration::from_secs(86_400);

/// Removes the record of a lock that has been idle for a time. For operators, and for the records of
/// names that are computed (`expire-{tenant}`), which pile up when their tenants are gone.
///
/// The record is removed only if it has not changed since it was read, so a lock that is taken
/// meanwhile keeps its record. The next attempt at the lock creates a new one.
///
/// # What a removed record forgets
///
/// - **Slots.** A slot that was taken or done can be taken again, because no record shows it any
///   more. That is why the record is kept while a replica may still ask for its last slot: by default
///   for 400 days, longer than the period of a yearly job. If you know the schedule,
///   [`with_slots_asked_for`](Self::with_slots_asked_for) sets the time; two periods are enough.
///   The scheduler finds missed slots from the last one taken. After a removal it finds none, as for a
///   job that never ran, and starts with the next slot.
/// - **ShedLock's memory.** Providers of ShedLock for SQL databases remember each name that they have
///   asked for, also if they did not get the lock, and never insert its record again: without the
///   record, that JVM never runs the job again, with no error. On such a store
///   ([`Capabilities::remembered_by_shedlock`]) every record is kept, whoever its last owner was,
///   unless you [state](Self::without_shedlock) that no ShedLock runs.
/// - **Fencing tokens.** They keep growing, because a first token comes from the clock that judges
///   leases or from the store's own revision. A record whose token is ahead of that clock is kept.
/// - **Late requests.** A copy of an attempt, an extension or an unlock that was sent before the
///   removal and arrives after it takes no lock and ends none, as after a record was deleted by hand.
///
/// For tokens and late requests the idle time must be longer than a request can be on its way or
/// wait in the store, and than the tolerated skew if the clients' clocks judge leases.
///
/// The library leaves the length to you. [`SHORTEST`](Self::SHORTEST) is the shortest idle time that
/// the command `shedlock prune` accepts.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct PruneRequest {
    /// The name of the lock.
    pub name: LockName,
    /// How long the lock must have been idle.
    pub idle_for: Duration,
    /// How long after it a slot may still be asked for.
    pub slots_asked_for: Duration,
    /// Whether no ShedLock for Java runs on this store.
    pub is_without_shedlock: bool,
}

/// The result of a removal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Pruned {
    /// The record was removed. This is what it contained.
    Removed(LockRecord),
    /// The record must be kept. Nothing was changed.
    #[non_exhaustive]
    Kept {
        /// The record.
        record: LockRecord,
        /// Why it is kept.
        reason: KeepReason,
    },
    /// The lock has no record.
    NoRecord,
}

/// Why a record is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeepReason {
    /// The lock is held, paused, or kept by `lock_at_least_for`.
    Taken,
    /// Its last slot must not be lost and is not done.
    SlotOpen,
    /// It was used within the idle time, or its last slot is not that old.
    UsedRecently,
    /// A replica may still ask for its last slot, which would run again.
    SlotAskedFor,
    /// A running ShedLock for Java may remember it, and would never create it again.
    RememberedByShedLock,
    /// Its fencing token is ahead of the clock that judges leases, and a new record would start
    /// with a smaller one.
    TokenAhead,
    /// It does not show when the lock was last used, as after an attempt that was withdrawn before
    /// any owner had the lock.
    AgeUnknown,
}

impl PruneRequest {
    /// The shortest idle time that the command accepts: a day. Within a day a replica may still be
    /// late for a slot, and missed slots may still be made up.
    pub const SHORTEST: Duration = DAY;

    /// How long after it a slot may be asked for, if nothing is known about its schedule: 400 days.
    pub const SLOTS_ASKED_FOR: Duration = DAY.saturating_mul(400);

    /// Removes the record of this lock if it has been idle for at least this long by the store's
    /// clock.
    pub fn new(name: LockName, idle_for: Duration) -> Self {
        Self {
            name,
            idle_for,
            slots_asked_for: Self::SLOTS_ASKED_FOR,
            is_without_shedlock: false,
        }
    }

    /// Sets how long after it a slot may still be asked for: two periods of the job's schedule.
    /// Default: [`SLOTS_ASKED_FOR`](Self::SLOTS_ASKED_FOR).
    pub fn with_slots_asked_for(mut self, duration: Duration) -> Self {
        self.slots_asked_for = duration;
        self
    }

    /// States that no ShedLock for Java runs on this store, so that records may be removed which it
    /// would remember.
    pub fn without_shedlock(mut self) -> Self {
        self.is_without_shedlock = true;
        self
    }

    /// Makes the check that comes before any I/O.
    ///
    /// # Errors
    /// `InvalidInput` for an idle time of zero.
    pub fn validate(&self) -> Result<(), Error> {
        if self.idle_for.is_zero() {
            let message = "the idle time must be longer than zero";
            let error = Error::new(ErrorKind::InvalidInput, message);
            return Err(error.with_lock(self.name.as_str()));
        }
        Ok(())
    }

    /// Returns why this record must be kept; `None` if it may be removed. `now` is the time at which
    /// it was read, by the clock that judges its lease, and the capabilities are those of the provider.
    /// For callers that only show what would be removed.
    pub fn refusal(
        &self,
        record: &LockRecord,
        now: SystemTime,
        capabilities: &Capabilities,
    ) -> Option<KeepReason> {
        if record.state != LockState::Free {
            return Some(KeepReason::Taken);
        }
        if has_undecided_slots(record) {
            return Some(KeepReason::SlotOpen);
        }
        let Some(used) = last_used(record) else {
            return Some(KeepReason::AgeUnknown);
        };
        let is_idle = now
            .duration_since(used)
            .is_ok_and(|idle| idle >= self.idle_for);
        if !is_idle {
            return Some(KeepReason::UsedRecently);
        }
        let is_past = |slot: Slot| {
            let age = now.duration_since(slot.instant());
            age.is_ok_and(|age| age >= self.slots_asked_for)
        };
        let last = record.newest_slot();
        if last.is_some_and(|last| !is_past(last)) {
            return Some(KeepReason::SlotAskedFor);
        }
        let micros = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let is_ahead = |token: u64| u128::from(token) >= micros.as_micros();
        let is_ahead = record.fencing_token.is_some_and(is_ahead);
        if is_ahead {
            return Some(KeepReason::TokenAhead);
        }
        let is_remembered = capabilities.remembered_by_shedlock && !self.is_without_shedlock;
        is_remembered.then_some(KeepReason::RememberedByShedLock)
    }
}

/// Whether the record says of a slot what a new record could not say: that it must still run.
fn has_undecided_slots(record: &LockRecord) -> bool {
    record.slot_attempts.is_some()
}

impl LockRecord {
    /// Returns when the lock was last used, as far as its record shows: the latest of its
    /// acquisition, its end and its slots.
    pub fn last_used(&self) -> Option<SystemTime> {
        last_used(self)
    }

    /// Returns the newest slot that the record shows as taken, done or skipped.
    pub fn newest_slot(&self) -> Option<Slot> {
        let skipped = self.skipped_slots.map(|skipped| skipped.until);
        self.last_slot.max(self.last_slot_done).max(skipped)
    }
}

fn last_used(record: &LockRecord) -> Option<SystemTime> {
    let slot = record.newest_slot().map(Slot::instant);
    // The record of an attempt that was withdrawn ends in the first second of 1970.
    let ends = record
        .locked_until
        .filter(|end| *end > UNIX_EPOCH + Duration::from_secs(1));
    [record.locked_at, ends, slot].into_iter().flatten().max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{ClockSource, SkippedSlots};

    const HOUR: Duration = Duration::from_secs(3_600);

    fn now() -> SystemTime {
        UNIX_EPOCH + 20_000 * DAY
    }

    fn request() -> PruneRequest {
        PruneRequest::new(LockName::new("job").unwrap(), DAY).with_slots_asked_for(DAY)
    }

    /// What a store can do whose records ShedLock remembers, or does not.
    fn store(remembered: bool) -> Capabilities {
        let mut capabilities = Capabilities::new(ClockSource::Store);
        capabilities.remembered_by_shedlock = remembered;
        capabilities
    }

    /// A free record that has been idle for exactly a day.
    fn idle() -> LockRecord {
        let mut record = LockRecord::new(LockName::new("job").unwrap(), LockState::Free);
        record.locked_at = Some(now() - DAY - HOUR);
        record.locked_until = Some(now() - DAY);
        record.last_slot = Slot::at(now() - DAY - HOUR).ok();
        record.last_slot_done = record.last_slot;
        record.fencing_token = Some(7);
        record
    }

    fn changed(change: impl FnOnce(&mut LockRecord)) -> Option<KeepReason> {
        let mut record = idle();
        change(&mut record);
        request().refusal(&record, now(), &store(false))
    }

    #[test]
    fn an_idle_record_may_be_removed() {
        assert_eq!(changed(|_| {}), None);
        // ShedLock's records have neither slots nor tokens.
        let java = changed(|record| {
            (record.last_slot, record.last_slot_done) = (None, None);
            record.fencing_token = None;
        });
        assert_eq!(java, None);
    }

    #[test]
    fn each_sign_of_use_keeps_the_record() {
        use KeepReason::{AgeUnknown, SlotOpen, Taken, TokenAhead, UsedRecently};
        for state in [LockState::Held, LockState::Paused, LockState::AtLeast] {
            assert_eq!(changed(|record| record.state = state), Some(Taken));
        }
        let recent = now() - DAY + Duration::from_micros(1);
        let slot = Slot::at(recent).ok();
        let skipped = slot.map(|slot| SkippedSlots::new(slot, slot));
        let ahead = Slot::at(now() + HOUR).ok();
        for reason in [
            changed(|record| record.locked_at = Some(recent)),
            changed(|record| record.locked_until = Some(recent)),
            changed(|record| record.last_slot = slot),
            changed(|record| record.last_slot_done = slot),
            changed(|record| record.skipped_slots = skipped),
            changed(|record| record.last_slot = ahead),
            changed(|record| record.locked_at = Some(now() + HOUR)),
        ] {
            assert_eq!(reason, Some(UsedRecently));
        }
        let open = changed(|record| record.slot_attempts = Some(0));
        assert_eq!(open, Some(SlotOpen));
        let token = u64::try_from((20_000 * DAY).as_micros()).unwrap();
        assert_eq!(
            changed(|it| it.fencing_token = Some(token)),
            Some(TokenAhead)
        );
        assert_eq!(changed(|it| it.fencing_token = Some(token - 1)), None);
        let withdrawn = changed(|record| {
            *record = LockRecord::new(record.name.clone(), LockState::Free);
            record.locked_until = Some(UNIX_EPOCH + Duration::from_millis(1));
        });
        assert_eq!(withdrawn, Some(AgeUnknown));
    }

    #[test]
    fn a_slot_that_may_still_be_asked_for_keeps_the_record() {
        let request = PruneRequest::new(LockName::new("job").unwrap(), DAY);
        let refusal = |request: &PruneRequest, age: Duration| {
            let mut record = idle();
            record.last_slot = Slot::at(now() - age).ok();
            record.last_slot_done = None;
            request.refusal(&record, now(), &store(false))
        };
        let asked_for = Some(KeepReason::SlotAskedFor);
        assert_eq!(refusal(&request, 20 * DAY), asked_for);
        assert_eq!(refusal(&request, 399 * DAY), asked_for);
        assert_eq!(refusal(&request, 400 * DAY), None);
        let monthly = request.with_slots_asked_for(61 * DAY);
        assert_eq!(refusal(&monthly, 60 * DAY), asked_for);
        assert_eq!(refusal(&monthly, 61 * DAY), None);
    }

    /// The owner proves nothing: ShedLock also remembers names for which it lost.
    #[test]
    fn a_record_that_a_jvm_may_remember_is_kept_unless_none_runs() {
        let refusal =
            |request: PruneRequest, remembered| request.refusal(&idle(), now(), &store(remembered));
        let kept = Some(KeepReason::RememberedByShedLock);
        assert_eq!(refusal(request(), true), kept);
        assert_eq!(refusal(request().without_shedlock(), true), None);
        assert_eq!(refusal(request(), false), None);
    }

    #[test]
    fn an_idle_time_of_zero_is_refused() {
        let name = LockName::new("job").unwrap();
        let error = PruneRequest::new(name, Duration::ZERO).validate();
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(request().validate().is_ok());
    }
}

//! Removing the records of locks that are no longer used.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Error, ErrorKind, LockName, LockRecord, LockState, Slot};

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
///   more. That is why the last slot must be at least as old as the idle time. Choose an idle time
///   longer than any attempt can be late: longer than the longest period between two slots of a job,
///   plus its late limit, plus the longest outage after which you expect missed slots to be made up.
///   The scheduler finds missed slots from the last one taken. After a removal it finds none, as for a
///   job that never ran, and starts with the next slot.
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
#[must_use]
pub struct PruneRequest {
    name: LockName,
    idle_for: Duration,
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
    /// It was used within the idle time, or its last slot is not old enough.
    UsedRecently,
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

    /// Removes the record of this lock if it has been idle for at least this long by the store's
    /// clock.
    pub fn new(name: LockName, idle_for: Duration) -> Self {
        Self { name, idle_for }
    }

    /// Returns the same request under another name. For wrappers that map names.
    pub fn with_name(mut self, name: LockName) -> Self {
        self.name = name;
        self
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns how long the lock must have been idle.
    pub fn idle_for(&self) -> Duration {
        self.idle_for
    }

    /// Makes the check that every provider makes before any I/O.
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
    /// it was read, by the clock that judges its lease. Providers use it, and callers that only
    /// show what would be removed.
    pub fn refusal(&self, record: &LockRecord, now: SystemTime) -> Option<KeepReason> {
        if record.state != LockState::Free {
            return Some(KeepReason::Taken);
        }
        if record.slot_attempts.is_some() {
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
        let micros = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let is_ahead = |token: u64| u128::from(token) >= micros.as_micros();
        let is_ahead = record.fencing_token.is_some_and(is_ahead);
        is_ahead.then_some(KeepReason::TokenAhead)
    }
}

impl Pruned {
    /// Creates the result for a record that must be kept. For providers.
    pub fn kept(record: LockRecord, reason: KeepReason) -> Self {
        Self::Kept { record, reason }
    }
}

impl LockRecord {
    /// Returns when the lock was last used, as far as its record shows: the latest of its
    /// acquisition, its end and its slots.
    pub fn last_used(&self) -> Option<SystemTime> {
        last_used(self)
    }
}

fn last_used(record: &LockRecord) -> Option<SystemTime> {
    let skipped = record.skipped_slots.map(|skipped| skipped.until);
    let slots = [record.last_slot, record.last_slot_done, skipped];
    let slots = slots.map(|slot| slot.map(Slot::instant));
    // The record of an attempt that was withdrawn ends in the first second of 1970.
    let ends = record
        .locked_until
        .filter(|end| *end > UNIX_EPOCH + Duration::from_secs(1));
    [record.locked_at, ends]
        .into_iter()
        .chain(slots)
        .flatten()
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SkippedSlots;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn now() -> SystemTime {
        UNIX_EPOCH + 20_000 * DAY
    }

    fn request() -> PruneRequest {
        PruneRequest::new(LockName::new("job").unwrap(), DAY)
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
        request().refusal(&record, now())
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
    fn an_idle_time_of_zero_is_refused() {
        let name = LockName::new("job").unwrap();
        let error = PruneRequest::new(name, Duration::ZERO).validate();
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(request().validate().is_ok());
    }
}

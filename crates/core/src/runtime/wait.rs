//! Waiting for a lock, for callers that request it.

use std::time::{Duration, SystemTime};

use super::Context;
use super::bounded::bounded;
use crate::clock::{Clock, Moment};
use crate::contract::{
    AttemptRequest, ClockOffset, Error, ErrorKind, Event, Skip, SkipReason, within,
};
use shedlock_support::Backoff;

/// How long a caller waits for a lock, and what its attempts have shown so far.
pub(super) struct Wait<'a> {
    context: &'a Context,
    /// `None` if the caller does not wait.
    until: Option<Moment>,
    pauses: Pauses,
    was_freed: bool,
    last_reason: Option<SkipReason>,
}

impl<'a> Wait<'a> {
    pub(super) fn of(context: &'a Context, wait: Duration) -> Self {
        Self {
            context,
            until: (!wait.is_zero()).then(|| context.clock.now() + wait),
            pauses: Pauses::of(wait),
            was_freed: false,
            last_reason: None,
        }
    }

    /// Returns the time that is left.
    pub(super) fn left(&self) -> Duration {
        let now = self.context.clock.now();
        self.until
            .map_or(Duration::ZERO, |until| until.saturating_since(now))
    }

    /// Returns why the lock was not granted, if the wait ends with that. Otherwise pauses before
    /// the next attempt.
    pub(super) async fn ends_with(
        &mut self,
        request: &AttemptRequest,
        mut skip: Skip,
    ) -> Option<Skip> {
        let context = self.context;
        look_ahead(context, request, &mut skip).await;
        // A slot that was taken stays taken, however long the wait.
        let is_final = matches!(
            skip.reason,
            SkipReason::SlotTaken
                | SkipReason::SlotGivenUp
                | SkipReason::LastSlotAhead
                | SkipReason::ClockBehind
        );
        let left = self.left();
        if is_final || left.is_zero() {
            report(context, request, &skip);
            return Some(skip);
        }
        // A race that was lost says nothing about who has the lock now.
        let is_race = skip.reason == SkipReason::Contended && self.last_reason.is_some();
        let is_news = !is_race && self.last_reason.replace(skip.reason) != Some(skip.reason);
        context.emit(|| Event::Waiting {
            request,
            skip: &skip,
            is_news,
        });
        let clock = &*context.clock;
        let pause = self.pauses.next(&skip, clock).min(left);
        clock.sleep_until(clock.now() + pause).await;
        None
    }

    /// Returns whether another attempt follows one that failed. What its copies have taken, or may
    /// still take, is given back before: the next attempt has another owner, to which the first
    /// one's lock or slot would be taken.
    pub(super) async fn goes_on_after(&mut self, request: &AttemptRequest, error: &Error) -> bool {
        // A copy without a reply had won, and an operator has freed what it won. That ended the attempt and not
        // the request.
        let is_freed =
            error.kind() == ErrorKind::Lost && !std::mem::replace(&mut self.was_freed, true);
        if self.until.is_none() {
            return is_freed;
        }
        let left = self.left();
        if !(is_freed || error.is_retryable()) || left.is_zero() {
            return false;
        }
        let done = self.context.withdrawals.done_with(&request.name);
        within(&*self.context.clock, left, done).await.is_some()
    }

    /// A slot that is ahead of the store's clock only because this host's is: the error names both.
    pub(super) async fn explained(&self, request: &AttemptRequest, error: Error) -> Error {
        let context = self.context;
        let Some(slot) = request
            .slot
            .filter(|_| error.kind() == ErrorKind::SlotAhead)
        else {
            return error;
        };
        let clock = clocks(context).await;
        let Some(clock) = clock.filter(|it| it.is_off() && it.is_ahead()) else {
            return error;
        };
        let explained = Error::new(
            ErrorKind::SlotAhead,
            format!("slot {slot} is not due yet by the store's clock: {clock}"),
        )
        .advise("set this host's clock (NTP)")
        .with_lock(request.name.as_str())
        .with_store(error.store().unwrap_or(context.provider.store()));
        match error.address() {
            Some(address) => explained.with_address(address),
            None => explained,
        }
    }
}

/// A slot that is refused because of a later one that this host's clock has not reached is not late.
/// If the store's clock has not reached that one either, this slot is blocked, like all slots up to
/// that one. Otherwise this host's clock is behind.
async fn look_ahead(context: &Context, request: &AttemptRequest, skip: &mut Skip) {
    let here = context.clock.system_time();
    let later = skip.last_slot.filter(|last| {
        skip.reason == SkipReason::SlotTaken && Some(*last) > request.slot && last.instant() > here
    });
    let Some(last) = later else { return };
    let is_ahead = |now: SystemTime| {
        let ahead = last.instant().duration_since(now);
        ahead.is_ok_and(|ahead| ahead > request.slot_tolerance)
    };
    skip.clock = clocks(context).await;
    let behind = skip.clock.filter(|it| it.is_off() && !it.is_ahead());
    if is_ahead(here) {
        skip.reason = match behind {
            Some(clock) if !is_ahead(clock.store) => SkipReason::ClockBehind,
            _ => SkipReason::LastSlotAhead,
        };
    }
}

/// The clocks of this host and of the store. `None` if the store does not report its time now.
async fn clocks(context: &Context) -> Option<ClockOffset> {
    let clock = &*context.clock;
    let read = ClockOffset::measure(&*context.provider, clock);
    bounded(clock, context.store_timeout, read).await.ok()?
}

fn report(context: &Context, request: &AttemptRequest, skip: &Skip) {
    if let (SkipReason::SlotGivenUp, Some(slot)) = (skip.reason, request.slot) {
        let (name, job) = (&request.name, request.job());
        context.emit(|| Event::SlotGivenUp { name, job, slot });
    }
    context.report(&Event::Skipped { request, skip });
}

/// The pauses between attempts: they grow within bounds, and differ between waiters for one lock,
/// so that the waiters do not all retry at once.
struct Pauses(Backoff);

impl Pauses {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    /// Short waits retry often, long ones spare the store.
    fn of(wait: Duration) -> Self {
        let longest = (wait / 20).clamp(Self::FIRST, Self::LONGEST);
        Self(Backoff::new(Self::FIRST, longest))
    }

    /// Returns the next pause. It ends a moment after the lock becomes free by itself, if that is
    /// sooner. The store's clock and ours may differ, so that time is only a hint, and is ignored
    /// if it is in our past.
    fn next(&mut self, skip: &Skip, clock: &dyn Clock) -> Duration {
        let backoff = jittered(self.0.take(), clock.random());
        let calendar = clock.system_time();
        let left = skip
            .until
            .and_then(|until| until.duration_since(calendar).ok());
        left.map_or(backoff, |left| {
            backoff.min(left + jittered(Self::FIRST, clock.random()))
        })
    }
}

/// Returns between half of the pause and all of it.
pub(crate) fn jittered(pause: Duration, random: u64) -> Duration {
    const STEPS: u32 = 1 << 16;
    let step = u32::try_from(random % u64::from(STEPS)).unwrap_or(0);
    pause / 2 + (pause / 2 / STEPS) * step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn pauses_grow_within_bounds_and_differ() {
        let skip = Skip::new(SkipReason::Held);
        let mut pauses = Pauses::of(MINUTE);
        let clock = ManualClock::new();
        let taken: Vec<Duration> = (0..20).map(|_| pauses.next(&skip, &clock)).collect();
        assert!(taken[0] <= Pauses::FIRST && taken[0] >= Pauses::FIRST / 2);
        assert!(taken.iter().all(|pause| *pause <= MINUTE / 20));
        assert!(taken[10..].iter().all(|pause| *pause >= MINUTE / 40));
        assert!(taken[10..].windows(2).any(|pair| pair[0] != pair[1]));
        assert_eq!(Pauses::of(100 * MINUTE).0.longest(), Pauses::LONGEST);
        assert_eq!(Pauses::of(Duration::ZERO).0.longest(), Pauses::FIRST);
    }

    #[test]
    fn the_end_of_the_lease_is_a_hint() {
        let clock = ManualClock::new();
        let now = clock.system_time();
        let mut pauses = Pauses::of(100 * MINUTE);
        for _ in 0..10 {
            let _ = pauses.next(&Skip::new(SkipReason::Held), &clock);
        }
        let left = Duration::from_millis(300);
        let soon = pauses.next(&Skip::new(SkipReason::Held).with_until(now + left), &clock);
        assert!(soon > left && soon <= left + Pauses::FIRST, "{soon:?}");
        for until in [now - MINUTE, now + MINUTE] {
            let pause = pauses.next(&Skip::new(SkipReason::Held).with_until(until), &clock);
            assert!(pause >= Pauses::LONGEST / 2, "{pause:?}");
        }
    }
}

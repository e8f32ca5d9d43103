//! Waiting for a lock, for callers that request it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::acquire::attempt;
use super::bounded::bounded;
use super::{Context, Held};
use crate::clock::{Clock, Moment};
use crate::{
    Attempt, AttemptRequest, ClockOffset, Error, ErrorKind, Event, Skip, SkipReason, within,
};

/// Takes the lock or returns why not. Retries until `wait` is over, or returns at once if it is
/// zero.
///
/// The store never waits (law 2): each attempt is a new one, with its own owner, and returns at
/// once. Between two attempts nothing is held, and copies without a reply are being withdrawn, so a
/// future that is dropped there leaves nothing to clean up. The wait is the caller's: it outlasts the lease that a copy
/// without a reply may have taken. The last attempt is made when the wait
/// is over.
pub(crate) async fn acquire(
    context: &Arc<Context>,
    wait: Duration,
    request: impl Fn() -> Result<AttemptRequest, Error>,
) -> Result<Attempt<Arc<Held>>, Error> {
    let until = (!wait.is_zero()).then(|| context.clock.now() + wait);
    let mut pauses = Pauses::of(wait);
    let mut was_freed = false;
    let mut last_reason = None;
    loop {
        let request = request()?.with_timeout(context.store_timeout);
        let mut skip = match attempt(context, &request, until).await {
            Ok(Attempt::Skipped(skip)) => skip,
            Ok(acquired) => return Ok(acquired),
            Err(error) => {
                // A copy without a reply had won, and an operator has freed what it won. That ended the attempt and not
                // the request.
                let is_freed =
                    error.kind() == ErrorKind::Lost && !std::mem::replace(&mut was_freed, true);
                let goes_on = match until.filter(|_| is_freed || error.is_retryable()) {
                    Some(until) => is_given_back(context, &request, until).await,
                    None => is_freed,
                };
                if goes_on {
                    continue;
                }
                return Err(explained(context, &request, error).await);
            }
        };
        look_ahead(context, &request, &mut skip).await;
        // A slot that was taken stays taken, however long the wait.
        let is_final = matches!(
            skip.reason,
            SkipReason::SlotTaken
                | SkipReason::SlotGivenUp
                | SkipReason::LastSlotAhead
                | SkipReason::ClockBehind
        );
        let left = until.filter(|_| !is_final).and_then(|until| {
            let now = context.clock.now();
            (now < until).then_some((now, until))
        });
        let Some((now, until)) = left else {
            report(context, &request, &skip);
            return Ok(Attempt::Skipped(skip));
        };
        // A race that was lost says nothing about who has the lock now.
        let is_race = skip.reason == SkipReason::Contended && last_reason.is_some();
        let is_news = !is_race && last_reason.replace(skip.reason) != Some(skip.reason);
        context.emit(|| Event::Waiting {
            request: &request,
            skip: &skip,
            is_news,
        });
        let pause = pauses.next(&skip, &*context.clock);
        context.clock.sleep_until((now + pause).min(until)).await;
    }
}

/// Waits until what the copies of a failed attempt have taken, or may still take, is given back: the next attempt has
/// another owner, to which the first one's lock or slot would be taken. Returns false if that takes until `until`.
async fn is_given_back(context: &Context, request: &AttemptRequest, until: Moment) -> bool {
    let clock = &*context.clock;
    let left = until.saturating_since(clock.now());
    let done = context.withdrawals.done_with(request.name());
    !left.is_zero() && within(clock, left, done).await.is_some()
}

/// A slot that is refused because of a later one that this host's clock has not reached is not late.
/// If the store's clock has not reached that one either, this slot is blocked, like all slots up to
/// that one. Otherwise this host's clock is behind.
async fn look_ahead(context: &Context, request: &AttemptRequest, skip: &mut Skip) {
    let here = context.clock.system_time();
    let later = skip.last_slot.filter(|last| {
        skip.reason == SkipReason::SlotTaken
            && Some(*last) > request.slot()
            && last.instant() > here
    });
    let Some(last) = later else { return };
    let is_ahead = |now: SystemTime| {
        let ahead = last.instant().duration_since(now);
        ahead.is_ok_and(|ahead| ahead > request.slot_tolerance())
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

/// A slot that is ahead of the store's clock only because this host's is: the error names both.
async fn explained(context: &Context, request: &AttemptRequest, error: Error) -> Error {
    let Some(slot) = request
        .slot()
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
    .with_lock(request.name().as_str())
    .with_store(error.store().unwrap_or(context.provider.store()));
    match error.address() {
        Some(address) => explained.with_address(address),
        None => explained,
    }
}

/// The clocks of this host and of the store. `None` if the store does not report its time now.
async fn clocks(context: &Context) -> Option<ClockOffset> {
    let clock = &*context.clock;
    let read = ClockOffset::measure(&*context.provider, clock);
    bounded(clock, context.store_timeout, read).await.ok()?
}

fn report(context: &Context, request: &AttemptRequest, skip: &Skip) {
    if let (SkipReason::SlotGivenUp, Some(slot)) = (skip.reason, request.slot()) {
        let (name, job) = (request.name(), request.job());
        context.emit(|| Event::SlotGivenUp { name, job, slot });
    }
    context.report(&Event::Skipped { request, skip });
}

/// The pauses between attempts: they grow within bounds, and differ between waiters for one lock,
/// so that the waiters do not all retry at once.
struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    /// Short waits retry often, long ones spare the store.
    fn of(wait: Duration) -> Self {
        Self {
            next: Self::FIRST,
            longest: (wait / 20).clamp(Self::FIRST, Self::LONGEST),
        }
    }

    /// Returns the next pause. It ends a moment after the lock becomes free by itself, if that is
    /// sooner. The store's clock and ours may differ, so that time is only a hint, and is ignored
    /// if it is in our past.
    fn next(&mut self, skip: &Skip, clock: &dyn Clock) -> Duration {
        let backoff = jittered(self.next, clock.random());
        self.next = (self.next * 2).min(self.longest);
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
    use crate::ManualClock;

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
        assert_eq!(Pauses::of(100 * MINUTE).longest, Pauses::LONGEST);
        assert_eq!(Pauses::of(Duration::ZERO).longest, Pauses::FIRST);
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

//! Limits how late an attempt may reach a store that judges it by its own clock (law 6).

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::clock::{Clock, Moment, SystemClock};
use crate::contract::{Attempt, AttemptRequest, Budget, Error, NotAfter};

/// The last time that a provider has seen of its store's clock, and the not-after that an attempt
/// carries. For providers.
///
/// A request that was given up can still reach the store: from a socket's buffer, from a proxy,
/// from a server that was paused. If it took the lock then, it would take it for an owner that has
/// ended. So each attempt carries a not-after: an instant of the store's clock. The store, with the
/// record in hand, refuses an attempt that arrives after it. The instant is the last store time
/// that was seen, plus the time elapsed here since then, plus what is left of the attempt's
/// [`Budget`](crate::Budget); see [`NotAfter`](crate::NotAfter).
///
/// Before the first contact there is no store time. The first attempt then carries an instant in
/// the past, is refused with the store's time, and is sent again. This costs one more round trip,
/// once per provider, unless something else has [observed](Self::observe) the clock before.
///
/// ```
/// use shedlock_core::StoreClock;
/// use std::time::{Duration, SystemTime};
///
/// let clock = StoreClock::new();
/// assert_eq!(clock.not_after(Duration::from_secs(10)), SystemTime::UNIX_EPOCH);
/// let store_time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
/// clock.observe(store_time);
/// assert!(clock.not_after(Duration::from_secs(10)) >= store_time + Duration::from_secs(10));
/// ```
pub struct StoreClock {
    clock: Arc<dyn Clock>,
    seen: Mutex<Option<Seen>>,
}

#[derive(Clone, Copy)]
struct Seen {
    store_time: SystemTime,
    at: Moment,
    /// When the request that returned this time was sent, if known.
    sent: Option<Moment>,
}

/// The result of an attempt that carried a not-after. For providers.
#[derive(Debug)]
pub enum BoundedAttempt {
    /// The store judged the attempt.
    Judged(Attempt),
    /// The attempt would have been granted, but arrived after its not-after. Nothing was changed.
    TooLate {
        /// The store's time when it refused.
        store_time: SystemTime,
    },
}

/// Two clocks may drift apart by a thousandth: 500 ppm each. The estimate lags by at least that
/// much, so that it is never ahead of the store.
pub(crate) const SLEW: u32 = 1_000;

/// Four times as much, for an upper bound that the store's clock must not exceed.
const DRIFT: u32 = 250;

impl StoreClock {
    /// Creates a clock that has not seen a store time yet.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// As `new`, with another local clock. For tests and simulations.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            seen: Mutex::new(None),
        }
    }

    /// Records a time that the store has just reported. It must come from the reply to a request of
    /// this provider, and be measured by the clock that judges attempts.
    pub fn observe(&self, store_time: SystemTime) {
        self.see(store_time, None);
    }

    /// As [`observe`](Self::observe), for the reply to a request that was sent at `sent`. This
    /// bounds the store's clock from above too.
    pub fn observe_reply(&self, store_time: SystemTime, sent: Moment) {
        self.see(store_time, Some(sent));
    }

    fn see(&self, store_time: SystemTime, sent: Option<Moment>) {
        let at = self.clock.now();
        *self.lock() = Some(Seen {
            store_time,
            at,
            sent,
        });
    }

    /// Returns the store's time, or a slightly earlier one; `None` if no store time was seen yet.
    pub fn earliest(&self) -> Option<SystemTime> {
        let has_seen = self.lock().is_some();
        has_seen.then(|| self.not_after(Duration::ZERO))
    }

    /// Returns the store's time, or a slightly later one; `None` unless the last time that was seen
    /// came from a [reply](Self::observe_reply).
    pub fn latest(&self) -> Option<SystemTime> {
        let seen = (*self.lock())?;
        let since = self.clock.now().at_most_since(seen.sent?);
        seen.store_time.checked_add(since + since / DRIFT)
    }

    /// Returns the last instant, by the store's clock, at which an attempt sent now with this
    /// timeout may be granted. Returns 1970 if no store time was seen yet.
    ///
    /// It is never later than now plus the timeout: the estimate of the store's clock lags behind
    /// it.
    pub fn not_after(&self, timeout: Duration) -> SystemTime {
        let Some(seen) = *self.lock() else {
            return SystemTime::UNIX_EPOCH;
        };
        let elapsed = self.clock.now().at_least_since(seen.at);
        let ahead = (elapsed - elapsed / SLEW).saturating_add(timeout);
        // A timeout that ends beyond the calendar is no bound.
        seen.store_time
            .checked_add(ahead)
            .unwrap_or(SystemTime::UNIX_EPOCH + Duration::from_secs(u32::MAX.into()))
    }

    /// Sends an attempt with its [not-after](NotAfter), and once more if that was wrong. For a
    /// provider that does not receive a budget from the toolkit.
    ///
    /// # Errors
    /// Those of `send`, or `Unavailable` if the store refused the attempt as too late for good.
    pub async fn attempt<F>(
        &self,
        request: &AttemptRequest,
        send: impl FnMut(SystemTime) -> F,
    ) -> Result<Attempt, Error>
    where
        F: Future<Output = Result<BoundedAttempt, Error>>,
    {
        let budget = request.budget_or(&self.clock);
        self.attempt_within(&budget, send).await
    }

    /// As [`attempt`](Self::attempt), within this budget.
    ///
    /// # Errors
    /// As [`attempt`](Self::attempt).
    pub async fn attempt_within<F>(
        &self,
        budget: &Budget,
        mut send: impl FnMut(SystemTime) -> F,
    ) -> Result<Attempt, Error>
    where
        F: Future<Output = Result<BoundedAttempt, Error>>,
    {
        let mut not_after = NotAfter::new(self, budget);
        loop {
            budget.count();
            match send(not_after.instant()).await? {
                BoundedAttempt::Judged(attempt) => return Ok(attempt),
                BoundedAttempt::TooLate { store_time } => not_after.refused(store_time)?,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for StoreClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.lock().map(|seen| seen.store_time);
        f.debug_tuple("StoreClock").field(&seen).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use std::future::ready;

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[test]
    fn a_reply_bounds_the_stores_clock_on_both_sides() {
        let manual = ManualClock::new();
        let clock = StoreClock::with_clock(Arc::new(manual.clone()));
        assert_eq!((clock.earliest(), clock.latest()), (None, None));
        let sent = manual.now();
        let second = Duration::from_secs(1);
        manual.advance(second);
        // The store may have read this time at any point since then.
        let store_time = manual.system_time();
        clock.observe_reply(store_time, sent);
        assert_eq!(clock.earliest(), Some(store_time));
        assert!(clock.latest() >= Some(store_time + second));
        // The estimates diverge while nothing is reported.
        manual.advance(3_600 * second);
        let now = store_time + 3_600 * second;
        assert!(clock.earliest() < Some(now - 3 * second));
        assert!(clock.latest() > Some(now + 10 * second));
        clock.observe(now);
        assert_eq!((clock.earliest(), clock.latest()), (Some(now), None));
    }

    /// Shows what the test sets.
    #[derive(Clone, Debug, Default)]
    struct TwoClocks(Arc<Mutex<[Duration; 2]>>);

    impl Clock for TwoClocks {
        fn now(&self) -> Moment {
            let [slewed, steady] = *self.0.lock().unwrap();
            Moment::of_two_clocks(slewed, steady)
        }

        fn system_time(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }

        fn sleep_until(&self, _: Moment) -> crate::BoxFuture<'static, ()> {
            Box::pin(ready(()))
        }
    }

    #[test]
    fn neither_clock_of_this_host_moves_the_estimate_past_the_other() {
        let (local, second) = (TwoClocks::default(), Duration::from_secs(1));
        let clock = StoreClock::with_clock(Arc::new(local.clone()));
        let store_time = SystemTime::UNIX_EPOCH + 1_000 * second;
        let sent = local.now();
        for clocks in [[8 * second, 10 * second], [10 * second, 8 * second]] {
            *local.0.lock().unwrap() = [Duration::ZERO; 2];
            clock.observe_reply(store_time, sent);
            *local.0.lock().unwrap() = clocks;
            assert!(clock.earliest() <= Some(store_time + 8 * second));
            assert!(clock.latest() >= Some(store_time + 10 * second));
        }
    }

    #[test]
    fn the_estimate_is_never_ahead_of_a_clock_that_is_slewed() {
        let manual = ManualClock::new();
        let clock = StoreClock::with_clock(Arc::new(manual.clone()));
        let store_time = manual.system_time();
        clock.observe(store_time);
        let day = Duration::from_secs(86_400);
        manual.advance(day);
        let bound = clock.not_after(TIMEOUT);
        assert!(bound <= store_time + day.mul_f64(0.999) + TIMEOUT);
        assert!(bound >= store_time + day.mul_f64(0.998));
        assert!(clock.not_after(Duration::MAX) > store_time + 365 * day);
    }
}

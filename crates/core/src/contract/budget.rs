//! What one copy of an attempt may cost.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use crate::clock::{Clock, Moment};
use crate::contract::{Error, ErrorKind, StoreClock, answered_within};

/// What one copy of an attempt may still cost: time, requests to the store, and the instant after
/// which the store must refuse it. For providers.
///
/// The runtime makes one for each copy and [passes it on](crate::AttemptRequest::budget) in
/// the request; a provider that is called without one makes its own. Whoever makes it ends the call
/// when its time is over. What lies between asks it instead of counting for itself: each request to
/// the store is [counted](Self::count), and nothing is repeated once the budget does not
/// [allow](Self::allows_repeat) it. So an attempt of a caller that does not wait costs at most
/// [`COPIES`](Self::COPIES) times
/// [`Capabilities::most_requests`](crate::Capabilities::most_requests).
#[derive(Debug)]
pub struct Budget {
    clock: Arc<dyn Clock>,
    sent: Moment,
    time: Duration,
    requests: AtomicU32,
}

impl Budget {
    /// How often the runtime sends an attempt whose reply was lost, including the first time.
    pub const COPIES: u32 = 4;

    /// The pauses between them.
    pub const PAUSES: Duration = Duration::from_millis(200);

    /// The number of requests from which on none is repeated: what follows is the rest of the way,
    /// which no condition of the store makes longer.
    pub const REPEATS: u32 = 16;

    /// Creates the budget of a copy that is sent now.
    pub fn new(clock: Arc<dyn Clock>, time: Duration) -> Self {
        Self {
            sent: clock.now(),
            clock,
            time,
            requests: AtomicU32::new(0),
        }
    }

    /// Returns the clock that measures the time.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Returns the time that a copy has in all.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Returns the time that is left. It is never too long.
    pub fn left(&self) -> Duration {
        let elapsed = self.clock.now().at_most_since(self.sent);
        self.time.saturating_sub(elapsed)
    }

    /// Counts a request that is about to be sent to the store.
    pub fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many requests were sent.
    fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns whether a request may be repeated for a condition that may pass: a lost race, a
    /// broken connection.
    pub fn allows_repeat(&self) -> bool {
        self.requests() < Self::REPEATS
    }

    /// Returns the result of the call, or `OutcomeUnknown` if there is none when the time is over.
    ///
    /// # Errors
    /// That of the call, or the one described above.
    pub async fn bound<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        answered_within(&*self.clock, self.time, ErrorKind::OutcomeUnknown, call).await
    }
}

/// A clone counts for itself.
impl Clone for Budget {
    fn clone(&self) -> Self {
        Self {
            clock: Arc::clone(&self.clock),
            sent: self.sent,
            time: self.time,
            requests: AtomicU32::new(self.requests()),
        }
    }
}

/// The not-after of one copy, by the clock of its store. For providers.
#[derive(Debug)]
pub struct NotAfter<'a> {
    store: &'a StoreClock,
    budget: &'a Budget,
    was_refused: bool,
}

impl<'a> NotAfter<'a> {
    /// Creates the not-after of a copy with this budget.
    pub fn new(store: &'a StoreClock, budget: &'a Budget) -> Self {
        Self {
            store,
            budget,
            was_refused: false,
        }
    }

    /// Returns the last instant, by the store's clock, at which the copy may be granted if it is
    /// sent now. It is no later than the end of the budget.
    pub fn instant(&self) -> SystemTime {
        self.store.not_after(self.budget.left())
    }

    /// Notes that the store has refused the copy as too late, at this time of its clock. If the
    /// budget still has time, the copy is live and the estimate of the store's clock was wrong: it
    /// may be sent once more, based on the time that the store returned.
    ///
    /// # Errors
    /// `Unavailable` if it must not be sent again.
    pub fn refused(&mut self, store_time: SystemTime) -> Result<(), Error> {
        self.store.observe(store_time);
        let is_first = !std::mem::replace(&mut self.was_refused, true);
        if is_first && !self.budget.left().is_zero() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "the store refused the attempt: it arrived more than {} after it was sent",
                shedlock_support::text::duration(self.budget.time)
            ),
        )
        .advise("check the network, the store's load, and whether its clock was set"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[test]
    fn the_first_copy_learns_the_stores_time() {
        let manual = Arc::new(ManualClock::new());
        let store = StoreClock::with_clock(manual.clone());
        let budget = Budget::new(manual, TIMEOUT);
        let mut not_after = NotAfter::new(&store, &budget);
        assert_eq!(not_after.instant(), SystemTime::UNIX_EPOCH);
        let store_time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        not_after.refused(store_time).unwrap();
        assert_eq!(not_after.instant(), store_time + TIMEOUT);
    }

    #[test]
    fn a_copy_is_sent_twice_at_most_and_never_past_its_time() {
        let manual = Arc::new(ManualClock::new());
        let store = StoreClock::with_clock(manual.clone());
        for (pass, refusals) in [(TIMEOUT / 4, 2), (TIMEOUT, 1)] {
            let budget = Budget::new(manual.clone(), TIMEOUT);
            let mut not_after = NotAfter::new(&store, &budget);
            for refusal in 1..=refusals {
                manual.advance(pass);
                let again = not_after.refused(SystemTime::UNIX_EPOCH);
                assert_eq!(again.is_ok(), refusal < refusals, "{pass:?} each");
                if let Err(error) = again {
                    assert_eq!(error.kind(), ErrorKind::Unavailable);
                }
            }
        }
    }

    #[test]
    fn both_times_it_is_bounded_by_the_first_ones_time() {
        let manual = Arc::new(ManualClock::new());
        let store = StoreClock::with_clock(manual.clone());
        let began = manual.system_time();
        store.observe(began - TIMEOUT);
        let budget = Budget::new(manual.clone(), TIMEOUT);
        let mut not_after = NotAfter::new(&store, &budget);
        assert_eq!(not_after.instant(), began);
        manual.advance(TIMEOUT / 5);
        not_after.refused(manual.system_time()).unwrap();
        assert_eq!(not_after.instant(), began + TIMEOUT);
    }

    #[test]
    fn repeats_end() {
        let budget = Budget::new(Arc::new(ManualClock::new()), TIMEOUT);
        while budget.allows_repeat() {
            budget.count();
        }
        assert_eq!(budget.requests(), Budget::REPEATS);
    }
}

//! What is known of the server's clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use shedlock_core::{Clock, Moment, StoreClock};

/// The server's clock, as its replies have reported it.
#[derive(Debug)]
pub(crate) struct ServerClock {
    store: StoreClock,
    local: Arc<dyn Clock>,
    seen: Mutex<Option<Seen>>,
}

/// When the last report was asked for, and when it arrived.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sent: Moment,
    at: Moment,
}

/// Two clocks that NTP slews may run apart by a thousandth. This is four times as much.
const DRIFT: u32 = 250;

impl ServerClock {
    pub(crate) fn new(local: Arc<dyn Clock>) -> Self {
        Self {
            store: StoreClock::with_clock(Arc::clone(&local)),
            local,
            seen: Mutex::default(),
        }
    }

    /// What bounds attempts.
    pub(crate) fn store(&self) -> &StoreClock {
        &self.store
    }

    /// Takes down the time that the server has reported to a command that was sent then.
    pub(crate) fn observe(&self, store_time: SystemTime, sent: Moment) {
        self.store.observe(store_time);
        let at = self.local.now();
        *self.lock() = Some(Seen { sent, at });
    }

    /// The server's time, or a little earlier; none before the first report.
    pub(crate) fn now(&self) -> Option<SystemTime> {
        let now = self.store.not_after(Duration::ZERO);
        self.lock().map(|_| now)
    }

    /// Whether a lock with this end was held when the server refused an attempt with this not-after,
    /// whose reply has just arrived. True only where the attempt cannot have come late.
    pub(crate) fn must_be_held(&self, until: SystemTime, not_after: SystemTime) -> bool {
        let Some(seen) = *self.lock() else {
            return false;
        };
        let now = self.store.not_after(Duration::ZERO);
        let round_trip = seen.at.saturating_since(seen.sent);
        let ahead = round_trip + self.local.now().saturating_since(seen.at) / DRIFT;
        until > now && now + ahead <= not_after
    }

    fn lock(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::ManualClock;
    use std::time::UNIX_EPOCH;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_refusal_is_taken_for_a_held_lock_only_where_the_attempt_was_in_time() {
        let local = ManualClock::new();
        let clock = ServerClock::new(Arc::new(local.clone()));
        let server = UNIX_EPOCH + 1_000_000 * SECOND;
        let until = server + 86_400 * SECOND;
        assert!(clock.now().is_none());
        assert!(!clock.must_be_held(until, UNIX_EPOCH), "nothing was seen");
        clock.observe(server, local.now());
        let not_after = clock.store().not_after(10 * SECOND);
        assert!(clock.must_be_held(until, not_after));
        assert!(!clock.must_be_held(server, not_after), "it has ended");
        local.advance(11 * SECOND);
        assert!(!clock.must_be_held(until, not_after), "it came late");
        // The estimate falls behind the server for as long as nothing is reported.
        local.advance(3_600 * SECOND);
        let not_after = clock.store().not_after(10 * SECOND);
        assert!(!clock.must_be_held(until, not_after));
        clock.observe(server + 3_611 * SECOND, local.now());
        let not_after = clock.store().not_after(10 * SECOND);
        assert!(clock.must_be_held(until, not_after));
    }
}

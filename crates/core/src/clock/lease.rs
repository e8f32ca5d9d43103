//! The clock that measures leases from the inside.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Clock, Deadline, Moment, Reading, SystemClock};

/// Measures leases from the inside: it also counts time that only the wall clock has seen pass.
///
/// While a hypervisor pauses a guest, or takes a snapshot of it, all clocks of the guest can stand
/// still. Afterwards its wall clock is corrected. The amount by which it jumps forward is time
/// during which leases ran on. Jumps of up to 100 ms are ignored.
///
/// Clones share what they have seen.
#[derive(Clone)]
pub struct LeaseClock {
    inner: Arc<dyn Clock>,
    seen: Arc<Mutex<Seen>>,
    longest_wait: Duration,
}

#[derive(Debug)]
struct Seen {
    /// An upper bound of how far the wall clock was ahead of the moment, in nanoseconds.
    ahead: i128,
    /// How much of the elapsed time only the wall clock has seen.
    unseen: Duration,
    rates: Rates,
}

/// Smaller jumps are ignored: margins cover them, and a wall clock may be stepped by that much to
/// keep it correct.
const JUMP: Duration = Duration::from_millis(100);

/// The longest single wait, so that a jump is noticed within this time.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl LeaseClock {
    /// Creates a clock that counts the jumps of this clock's calendar from now on.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let now = clock.now();
        let ahead = nanos(clock.system_time()) - nanos_of(now);
        let seen = Seen {
            ahead,
            unseen: Duration::ZERO,
            rates: Rates::since(now),
        };
        Self {
            inner: clock,
            seen: Arc::new(Mutex::new(seen)),
            longest_wait: LONGEST_WAIT,
        }
    }

    /// Notices a jump only within this time, for simulations of many hours.
    pub(crate) fn set_longest_wait(&mut self, longest: Duration) {
        self.longest_wait = longest;
    }

    /// Returns the one over [`SystemClock`] that this process shares. Executors without a clock of
    /// their own use it, so that each jump is logged once.
    pub fn system() -> Self {
        static SHARED: OnceLock<LeaseClock> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Self::new(Arc::new(SystemClock)));
        shared.clone()
    }

    /// Reads all clocks. The first reading after a jump of the wall clock logs it.
    ///
    /// The clock is read before the wall clock, and again after it if there seems to be a jump: a
    /// thread that is stopped between two reads does not see one.
    pub fn read(&self) -> Reading {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.inner.now();
        let calendar = nanos(self.inner.system_time());
        let known = std::mem::replace(&mut seen.ahead, calendar - nanos_of(before));
        let jumped_since = |moment| {
            let jumped = (calendar - nanos_of(moment) - known) / 1_000_000;
            u64::try_from(jumped).map_or(Duration::ZERO, Duration::from_millis)
        };
        let mut jumped = jumped_since(before);
        if jumped > JUMP {
            jumped = jumped_since(self.inner.now());
        }
        if jumped > JUMP {
            seen.unseen = seen.unseen.saturating_add(jumped);
            tracing::warn!(
                "the wall clock jumped forward by {}: leases count this as elapsed time",
                shedlock_support::text::duration(jumped),
            );
        }
        if seen.rates.is_due(before) {
            seen.rates.compare(before, self.inner.now());
        }
        Reading::new(before, seen.unseen)
    }

    /// Completes when the deadline has passed, within a second of a jump of the wall clock that
    /// makes it pass. Cancellation safe.
    pub fn sleep_until(&self, deadline: Deadline) -> crate::BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(async move {
            loop {
                let now = clock.read();
                let left = deadline.left(now);
                if left.is_zero() {
                    return;
                }
                let next = now.moment() + left.min(clock.longest_wait);
                clock.inner.sleep_until(next).await;
            }
        })
    }
}

impl fmt::Debug for LeaseClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeaseClock").field(&self.inner).finish()
    }
}

/// The difference between the rates of two clocks that leases tolerate, in parts per million.
pub const TOLERATED_PPM: u128 = 500;

/// Compares the rates of the clock that is slewed and of the one that is not.
#[derive(Debug)]
struct Rates {
    since: Moment,
    is_logged: bool,
}

impl Rates {
    const PERIOD: Duration = Duration::from_secs(60);
    /// A thread that was stopped between two reads sees a difference that there is not.
    const CLOSE: Duration = Duration::from_millis(1);

    fn since(moment: Moment) -> Self {
        Self {
            since: moment,
            is_logged: false,
        }
    }

    fn is_due(&self, now: Moment) -> bool {
        now.saturating_since(self.since) >= Self::PERIOD
    }

    /// Compares them at `before`, unless the thread was stopped until `after`.
    fn compare(&mut self, before: Moment, after: Moment) {
        if after.at_most_since(before) > Self::CLOSE {
            return;
        }
        let since = std::mem::replace(&mut self.since, before);
        let ppm = parts_per_million(since, before);
        if ppm > TOLERATED_PPM && !self.is_logged {
            self.is_logged = true;
            tracing::warn!(
                "the clock of this host is slewed by {ppm} ppm, and leases tolerate \
                 {TOLERATED_PPM}: they end up to that much earlier here; a store whose clock is \
                 slewed like this can end them before their holders stop"
            );
        }
    }
}

/// Returns by how much the rates of the two clocks of a moment have differed.
pub fn parts_per_million(from: Moment, to: Moment) -> u128 {
    let (least, most) = (to.at_least_since(from), to.at_most_since(from));
    let difference = most.saturating_sub(least).as_nanos();
    difference.saturating_mul(1_000_000) / least.as_nanos().max(1)
}

fn nanos(calendar: SystemTime) -> i128 {
    let since = calendar.duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX / 4)
}

fn nanos_of(moment: Moment) -> i128 {
    i128::try_from(moment.since_origin().as_nanos()).unwrap_or(i128::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::testing::TestLock;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_jump_of_the_calendar_forward_counts_as_time_that_passed() {
        let manual = ManualClock::new();
        let clock = LeaseClock::new(Arc::new(manual.clone()));
        let ends = clock.read().deadline(10 * MINUTE);
        let left = || ends.left(clock.read());
        manual.advance(MINUTE);
        assert_eq!(left(), 9 * MINUTE);
        manual.set_system_time(manual.system_time() + MINUTE);
        assert_eq!(left(), 8 * MINUTE);
        // Neither a small jump nor a backward jump counts.
        manual.set_system_time(manual.system_time() + JUMP);
        manual.set_system_time(manual.system_time() - 5 * MINUTE);
        assert_eq!(left(), 8 * MINUTE);
        manual.advance(MINUTE);
        assert_eq!(left(), 7 * MINUTE);
    }

    /// Simulates a pause of the guest: only the calendar shows it, and nothing wakes the task.
    #[tokio::test]
    async fn a_task_whose_lease_ended_in_a_pause_of_the_machine_is_stopped_soon_after_it() {
        let manual = ManualClock::new();
        let lock = TestLock::new("a").lock_at_most_for(MINUTE);
        let lock = lock.clock(Arc::new(manual.clone()));
        let task = tokio::spawn(lock.execute(std::future::pending::<()>()));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        manual.set_system_time(manual.system_time() + MINUTE);
        manual.advance(LONGEST_WAIT);
        assert!(task.await.unwrap().is_lost());
    }

    #[test]
    fn a_rate_is_compared_over_a_minute_and_reported_once() {
        let second = Duration::from_secs(1);
        let at = |slewed: f64, steady: f64| {
            Moment::of_two_clocks(second.mul_f64(slewed), second.mul_f64(steady))
        };
        assert_eq!(parts_per_million(at(1., 1.), at(109., 101.)), 80_000);
        assert_eq!(parts_per_million(at(1., 1.), at(101., 109.)), 80_000);
        let mut rates = Rates::since(at(0., 0.));
        let mut look = |moment: Moment| {
            if rates.is_due(moment) {
                rates.compare(moment, moment);
            }
            rates.is_logged
        };
        assert!(!look(at(10., 20.)), "too soon");
        assert!(!look(at(70., 70.03)), "tolerated");
        assert!(look(at(140., 140.1)));
        let stopped = at(300., 300.);
        let mut rates = Rates::since(at(0., 0.));
        rates.compare(stopped, stopped + second);
        assert_eq!(rates.since, at(0., 0.), "the thread was stopped");
    }
}

//! The clock that measures leases.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Clock, Moment};
use crate::BoxFuture;

/// A clock that also counts time that only its calendar has seen pass.
///
/// While a hypervisor pauses a guest, or takes a snapshot of it, all clocks of the guest can stand
/// still. Afterwards its calendar is corrected. The amount by which it jumps forward is time during
/// which leases ran on.
#[derive(Clone, Debug)]
pub(crate) struct LeaseClock<C> {
    inner: C,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug)]
struct Seen {
    /// An upper bound of how far the calendar was ahead of the moment, in nanoseconds.
    ahead: i128,
    /// How much of the elapsed time only the calendar has seen.
    unseen: Duration,
}

/// Smaller jumps are ignored: margins cover them, and a calendar may be stepped by that much to
/// keep it correct.
const JUMP: Duration = Duration::from_millis(100);

/// The longest single wait, so that a jump is noticed within this time.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl<C: Clock> LeaseClock<C> {
    pub(crate) fn new(inner: C) -> Self {
        let ahead = nanos(inner.system_time()) - nanos_of(inner.now());
        Self {
            inner,
            seen: Arc::new(Mutex::new(Seen {
                ahead,
                unseen: Duration::ZERO,
            })),
        }
    }

    /// Reads the clock before and after the calendar, so that a thread that is stopped between two
    /// reads does not see a jump.
    fn look(&self) -> Moment {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.inner.now();
        let calendar = nanos(self.inner.system_time());
        let now = self.inner.now();
        let jumped = calendar - nanos_of(now) - seen.ahead;
        seen.ahead = calendar - nanos_of(before);
        let jumped =
            u64::try_from(jumped / 1_000_000).map_or(Duration::ZERO, Duration::from_millis);
        if jumped > JUMP {
            seen.unseen = seen.unseen.saturating_add(jumped);
            tracing::warn!(
                "the wall clock jumped forward by {}: leases count this as elapsed time",
                crate::text::duration(jumped),
            );
        }
        now + seen.unseen
    }
}

fn nanos(calendar: SystemTime) -> i128 {
    let since = calendar.duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX / 4)
}

fn nanos_of(moment: Moment) -> i128 {
    i128::try_from(moment.since_origin().as_nanos()).unwrap_or(i128::MAX / 4)
}

impl<C: Clock + Clone> Clock for LeaseClock<C> {
    fn now(&self) -> Moment {
        self.look()
    }

    fn system_time(&self) -> SystemTime {
        self.inner.system_time()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(async move {
            loop {
                let left = moment.saturating_since(clock.now());
                if left.is_zero() {
                    return;
                }
                let next = clock.inner.now() + left.min(LONGEST_WAIT);
                clock.inner.sleep_until(next).await;
            }
        })
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Executor, LockConfig, ManualClock, MemoryProvider};

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_jump_of_the_calendar_forward_counts_as_time_that_passed() {
        let manual = ManualClock::new();
        let clock = LeaseClock::new(manual.clone());
        let start = clock.now();
        manual.advance(MINUTE);
        assert_eq!(clock.now().saturating_since(start), MINUTE);
        manual.set_system_time(manual.system_time() + MINUTE);
        assert_eq!(clock.now().saturating_since(start), 2 * MINUTE);
        // Neither a small jump nor a backward jump counts.
        manual.set_system_time(manual.system_time() + JUMP);
        manual.set_system_time(manual.system_time() - 5 * MINUTE);
        assert_eq!(clock.now().saturating_since(start), 2 * MINUTE);
        manual.advance(MINUTE);
        assert_eq!(clock.now().saturating_since(start), 3 * MINUTE);
    }

    /// Simulates a pause of the guest: only the calendar shows it, and nothing wakes the task.
    #[tokio::test]
    async fn a_task_whose_lease_ended_in_a_pause_of_the_machine_is_stopped_soon_after_it() {
        let manual = ManualClock::new();
        let executor = Executor::new(Arc::new(MemoryProvider::new()))
            .clock(Arc::new(LeaseClock::new(manual.clone())));
        let task = tokio::spawn(async move {
            let config = LockConfig::new("a").lock_at_most_for(MINUTE);
            executor
                .execute(&config, std::future::pending::<()>())
                .await
        });
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        manual.set_system_time(manual.system_time() + MINUTE);
        manual.advance(LONGEST_WAIT);
        assert!(task.await.unwrap().unwrap().is_lost());
    }
}

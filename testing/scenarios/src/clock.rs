//! A clock that is wrong.

use std::time::{Duration, SystemTime};

use shedlock::{BoxFuture, Clock, Moment, SystemClock};

/// The machine's clock as one replica sees it: its calendar may be behind, and its timers late.
///
/// A timer that would fire while the replica is busy fires when the replica is no longer busy. The
/// whole replica uses this clock; the store has its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaClock {
    /// How far the calendar is behind the machine's.
    pub(crate) behind: Duration,
    /// From when, by this calendar, and for how long the replica is busy.
    pub(crate) busy: Option<(SystemTime, Duration)>,
}

impl ReplicaClock {
    /// How long the replica will still be busy.
    fn busy_left(&self) -> Duration {
        let Some((from, lasts)) = self.busy else {
            return Duration::ZERO;
        };
        match self.system_time().duration_since(from) {
            Ok(since) => lasts.saturating_sub(since),
            Err(_) => Duration::ZERO,
        }
    }
}

impl Clock for ReplicaClock {
    fn now(&self) -> Moment {
        SystemClock.now()
    }

    fn system_time(&self) -> SystemTime {
        SystemClock.system_time() - self.behind
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(async move {
            SystemClock.sleep_until(moment).await;
            let left = clock.busy_left();
            if !left.is_zero() {
                SystemClock.sleep_until(clock.now() + left).await;
            }
        })
    }
}

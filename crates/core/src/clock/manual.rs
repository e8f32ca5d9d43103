//! A clock for tests.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Clock, Moment};
use crate::BoxFuture;

/// A clock that stands still until it is moved.
///
/// Clones share one time. [`advance`](Self::advance) moves calendar and moment together.
/// [`set_system_time`](Self::set_system_time) moves the calendar alone, as an operator or NTP
/// would.
///
/// ```
/// use shedlock::{Clock, ManualClock};
/// use std::time::Duration;
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(90));
/// assert_eq!(clock.now().saturating_since(before), Duration::from_secs(90));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Hands>>);

#[derive(Debug)]
struct Hands {
    moment: Moment,
    calendar: SystemTime,
    sleepers: Vec<(Moment, Waker)>,
}

impl ManualClock {
    /// Creates a clock that shows 2030-01-01 00:00:00 UTC.
    pub fn new() -> Self {
        Self::starting_at(UNIX_EPOCH + Duration::from_secs(1_893_456_000))
    }

    /// Creates a clock whose calendar shows this time.
    pub fn starting_at(calendar: SystemTime) -> Self {
        Self(Arc::new(Mutex::new(Hands {
            moment: Moment::from_origin(Duration::from_secs(1_000)),
            calendar,
            sleepers: Vec::new(),
        })))
    }

    /// Moves both the calendar and the moment forward, and wakes the sleepers whose time has come.
    pub fn advance(&self, duration: Duration) {
        let woken = {
            let mut hands = self.lock();
            hands.moment = hands.moment + duration;
            hands.calendar += duration;
            let now = hands.moment;
            let (due, waiting) = hands
                .sleepers
                .drain(..)
                .partition(|(moment, _)| *moment <= now);
            hands.sleepers = waiting;
            due
        };
        // Outside the lock: a waker may run code that reads this clock.
        let woken: Vec<(Moment, Waker)> = woken;
        for (_, waker) in woken {
            waker.wake();
        }
    }

    /// Sets the calendar and leaves the moment unchanged, as when a wrong clock is corrected or a
    /// correct one is set wrong.
    pub fn set_system_time(&self, calendar: SystemTime) {
        self.lock().calendar = calendar;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Hands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        self.lock().moment
    }

    fn system_time(&self) -> SystemTime {
        self.lock().calendar
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(poll_fn(move |context| {
            let mut hands = clock.lock();
            if hands.moment >= moment {
                return Poll::Ready(());
            }
            let waker = context.waker();
            if !hands
                .sleepers
                .iter()
                .any(|(at, known)| *at == moment && known.will_wake(waker))
            {
                hands.sleepers.push((moment, waker.clone()));
            }
            Poll::Pending
        }))
    }
}

//! A clock that makes leases end at the wrong time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use shedlock_core::{BoxFuture, Clock, Moment, SystemClock};

use super::Wrong;

/// The real clock, read by an executor in the right places, with an error that makes its deadlines
/// wrong.
#[derive(Debug)]
pub(super) struct WrongClock {
    wrong: Wrong,
    hands: Mutex<Hands>,
}

#[derive(Debug)]
struct Hands {
    /// How long it has stood still in total.
    behind: Duration,
    /// Its value at the last reading.
    last: Moment,
}

impl WrongClock {
    pub(super) fn new(wrong: Wrong) -> Arc<Self> {
        let hands = Mutex::new(Hands {
            behind: Duration::ZERO,
            last: SystemClock.now(),
        });
        Arc::new(Self { wrong, hands })
    }

    /// Makes the clock stand still since this moment: a deadline counted from that moment then
    /// counts from now.
    pub(super) fn stood_still_since(&self, moment: Moment) {
        let stood = SystemClock.now().saturating_since(moment);
        self.hands().behind += stood;
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for WrongClock {
    fn now(&self) -> Moment {
        let mut hands = self.hands();
        let real = SystemClock.now().since_origin();
        let shown = Moment::from_origin(real.saturating_sub(hands.behind));
        let before = std::mem::replace(&mut hands.last, shown);
        if self.wrong == Wrong::NoLookAfterPause {
            before
        } else {
            shown
        }
    }

    fn system_time(&self) -> SystemTime {
        SystemClock.system_time()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let behind = self.hands().behind;
        SystemClock.sleep_until(moment + behind)
    }
}

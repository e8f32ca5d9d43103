//! A clock that makes leases end at the wrong time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use shedlock_core::{BoxFuture, Clock, Moment};

/// The right clock, read by an executor in the right places, with an error that makes its deadlines
/// wrong.
#[derive(Debug)]
pub(super) struct WrongClock {
    right: Arc<dyn Clock>,
    /// Whether each reading shows the moment of the reading before.
    lags: bool,
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
    pub(super) fn new(right: Arc<dyn Clock>, lags: bool) -> Arc<Self> {
        let hands = Mutex::new(Hands {
            behind: Duration::ZERO,
            last: right.now(),
        });
        Arc::new(Self { right, lags, hands })
    }

    /// Makes the clock stand still since this moment: a deadline counted from that moment then
    /// counts from now.
    pub(super) fn stood_still_since(&self, moment: Moment) {
        let stood = self.right.now().saturating_since(moment);
        self.hands().behind += stood;
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for WrongClock {
    fn now(&self) -> Moment {
        let mut hands = self.hands();
        let right = self.right.now().since_origin();
        let shown = Moment::from_origin(right.saturating_sub(hands.behind));
        let before = std::mem::replace(&mut hands.last, shown);
        if self.lags { before } else { shown }
    }

    fn system_time(&self) -> SystemTime {
        self.right.system_time()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let behind = self.hands().behind;
        self.right.sleep_until(moment + behind)
    }

    fn random(&self) -> u64 {
        self.right.random()
    }
}

//! A clock that makes leases end at the wrong time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{BoxFuture, Clock, Moment};

/// The right clock, read by an executor in the right places, with an error that makes its deadlines
/// wrong.
#[derive(Clone, Debug)]
pub(super) struct WrongClock {
    right: Arc<dyn Clock>,
    error: ClockError,
    hands: Arc<Mutex<Hands>>,
}

/// As in the runtime.
const JUMP: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Hands {
    /// How long it has stood still in total.
    behind: Duration,
    /// Its value at the last reading.
    last: Moment,
    /// How far the calendar was ahead at the last reading, in nanoseconds.
    ahead: i128,
    /// How far the calendar has jumped forward in total.
    jumped: Duration,
}

/// What is wrong with each reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockError {
    /// Nothing: only what the mistake does to it.
    None,
    /// It shows the moment of the reading before.
    Lags,
    /// It counts forward jumps of the calendar, as the clock of leases does.
    CountsJumps,
}

impl WrongClock {
    pub(super) fn new(right: Arc<dyn Clock>, error: ClockError) -> Arc<Self> {
        let hands = Arc::new(Mutex::new(Hands {
            behind: Duration::ZERO,
            last: right.now(),
            ahead: ahead(&*right),
            jumped: Duration::ZERO,
        }));
        Arc::new(Self {
            right,
            error,
            hands,
        })
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
        match self.error {
            ClockError::None => shown,
            ClockError::Lags => before,
            ClockError::CountsJumps => {
                let ahead = ahead(&*self.right);
                let jumped =
                    u64::try_from(ahead - hands.ahead).map_or(Duration::ZERO, Duration::from_nanos);
                hands.ahead = ahead;
                if jumped > JUMP {
                    hands.jumped += jumped;
                }
                shown + hands.jumped
            }
        }
    }

    /// Stands still with the clock. Otherwise, the runtime would see a jump and shorten its leases.
    fn system_time(&self) -> SystemTime {
        self.right.system_time() - self.hands().behind
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        if self.error != ClockError::CountsJumps {
            let behind = self.hands().behind;
            return self.right.sleep_until(moment + behind);
        }
        let clock = self.clone();
        Box::pin(async move {
            loop {
                let left = moment.saturating_since(clock.now());
                if left.is_zero() {
                    return;
                }
                // Often enough to see a jump.
                let pause = left.min((left / 8).max(Duration::from_secs(1)));
                let next = clock.right.now() + pause;
                clock.right.sleep_until(next).await;
            }
        })
    }

    fn random(&self) -> u64 {
        self.right.random()
    }
}

fn ahead(clock: &dyn Clock) -> i128 {
    let calendar = clock.system_time().duration_since(UNIX_EPOCH);
    let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(0);
    nanos(calendar.unwrap_or_default()) - nanos(clock.now().since_origin())
}

//! The clocks of a node.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use shedlock_core::{BoxFuture, Clock, Moment};

use super::{Event, Instant, Place, World, nanos};
use shedlock_proof::SeededRng;

/// A node's clocks. The running clock is slightly too fast or too slow, and the calendar has an
/// additional error. Timers fire late, and those of a dead process no longer fire.
#[derive(Clone)]
pub(crate) struct NodeClock {
    world: World,
    node: usize,
    hands: Arc<Mutex<Hands>>,
}

struct Hands {
    rng: SeededRng,
    /// Parts per million.
    drift: i64,
    /// The calendar's error, in nanoseconds.
    offset: i64,
    /// One timer in this many is late, by up to this much.
    late: (u64, Duration),
    is_dead: bool,
}

impl NodeClock {
    pub(crate) fn new(
        world: &World,
        node: usize,
        rng: SeededRng,
        drift: i64,
        offset: i64,
        late: (u64, Duration),
    ) -> Self {
        let hands = Hands {
            rng,
            drift,
            offset,
            late,
            is_dead: false,
        };
        Self {
            world: world.clone(),
            node,
            hands: Arc::new(Mutex::new(hands)),
        }
    }

    /// The clock of the next process on the same node.
    pub(crate) fn of_next_process(&self) -> Self {
        let mut hands = self.lock();
        let (rng, drift, offset, late) = (hands.rng.fork(), hands.drift, hands.offset, hands.late);
        Self::new(&self.world, self.node, rng, drift, offset, late)
    }

    pub(crate) fn kill(&self) {
        self.lock().is_dead = true;
    }

    /// Sets the calendar's error relative to the true one.
    pub(crate) fn set_offset(&self, offset: i64) {
        self.lock().offset = offset;
    }

    /// Corrects the calendar except for this error, whatever the running clock has done to it.
    pub(crate) fn set_right(&self, offset: i64) {
        let now = self.world.now();
        let mut hands = self.lock();
        hands.offset = offset.saturating_sub(drifted(now, hands.drift));
    }

    pub(crate) fn be_punctual(&self) {
        self.lock().late = (0, Duration::ZERO);
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now() + duration).await;
    }

    fn lock(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hands {
    /// What the running clock shows.
    fn shown(&self, at: Instant) -> u64 {
        at.saturating_add_signed(drifted(at, self.drift))
    }

    /// The first instant at which the clock shows this.
    fn instant(&self, shown: u64) -> Instant {
        let mut at = shown.saturating_add_signed(-drifted(shown, self.drift));
        while self.shown(at) < shown {
            at += shown - self.shown(at);
        }
        at
    }
}

fn drifted(at: u64, drift: i64) -> i64 {
    let by = i128::from(at) * i128::from(drift) / 1_000_000;
    i64::try_from(by).unwrap_or(0)
}

impl Clock for NodeClock {
    fn now(&self) -> Moment {
        let shown = self.lock().shown(self.world.now());
        Moment::from_origin(Duration::from_nanos(shown))
    }

    fn system_time(&self) -> SystemTime {
        let now = self.world.now();
        let hands = self.lock();
        let shown = hands.shown(now).saturating_add_signed(hands.offset);
        super::calendar_at(shown)
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        Box::pin(Sleep {
            clock: self.clone(),
            until: nanos(moment.since_origin()),
            place: None,
        })
    }

    fn random(&self) -> u64 {
        self.lock().rng.number()
    }
}

impl std::fmt::Debug for NodeClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeClock({})", self.node)
    }
}

struct Sleep {
    clock: NodeClock,
    until: u64,
    place: Option<Place>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let now = clock.world.now();
        if let Some(place) = self.place {
            if place.0 <= now {
                return Poll::Ready(());
            }
            clock.world.rewake(place, context.waker());
            return Poll::Pending;
        }
        let mut hands = clock.lock();
        if hands.shown(now) >= self.until {
            return Poll::Ready(());
        }
        if hands.is_dead {
            return Poll::Pending;
        }
        let (one_in, longest) = hands.late;
        let late = if hands.rng.one_in(one_in) {
            nanos(hands.rng.heavy(Duration::from_millis(1), longest))
        } else {
            0
        };
        let at = hands.instant(self.until).saturating_add(late);
        drop(hands);
        let wake = Event::Wake(clock.node, context.waker().clone());
        self.place = Some(clock.world.set(at, wake));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.clock.world.cancel(place);
        }
    }
}

//! The network between the nodes and the store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{Error, ErrorKind};
use tokio::sync::oneshot;

use super::{Event, Instant, Place, Strike, World, nanos};
use crate::chronicle::Chronicle;
use crate::store::Store;
use crate::transition::Transition;
use shedlock_proof::SeededRng;

/// The probability of each fault of a message: one in this many, or never if zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) request_lost: u64,
    pub(crate) reply_lost: u64,
    /// The client gets an error immediately, but the request continues, and often arrives late.
    pub(crate) cut: u64,
    pub(crate) doubled: u64,
    pub(crate) delayed: u64,
    /// The longest delay.
    pub(crate) longest: Duration,
}

/// The network, and the store at its end. Clones share one network.
#[derive(Clone)]
pub(crate) struct Network {
    world: World,
    chronicle: Chronicle,
    store: Arc<Store>,
    state: Arc<Mutex<State>>,
}

struct State {
    rng: SeededRng,
    faults: Faults,
    parted: Vec<bool>,
    /// The nodes that are stopped when they have sent their next request.
    stops: Vec<bool>,
    is_store_down: bool,
    /// How often the store went down: messages in flight at that time are lost.
    downs: u64,
}

const FASTEST: Duration = Duration::from_micros(200);
const SLOWEST: Duration = Duration::from_millis(20);

impl Network {
    pub(crate) fn new(
        world: &World,
        chronicle: &Chronicle,
        store: Arc<Store>,
        rng: SeededRng,
        faults: Faults,
        nodes: usize,
    ) -> Self {
        let state = State {
            rng,
            faults,
            parted: vec![false; nodes],
            stops: vec![false; nodes],
            is_store_down: false,
            downs: 0,
        };
        Self {
            world: world.clone(),
            chronicle: chronicle.clone(),
            store,
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn part(&self, node: usize, is_parted: bool) {
        self.lock().parted[node] = is_parted;
    }

    /// Stops this node when it has sent its next request, so that the reply arrives meanwhile.
    pub(crate) fn stop_in_next_call(&self, node: usize) {
        self.lock().stops[node] = true;
    }

    pub(crate) fn set_store_down(&self, is_down: bool) {
        let mut state = self.lock();
        state.downs += u64::from(is_down && !state.is_store_down);
        state.is_store_down = is_down;
    }

    /// Removes all faults from now on; messages in flight arrive as scheduled.
    pub(crate) fn heal(&self) {
        let mut state = self.lock();
        state.faults = Faults::default();
        state.parted.fill(false);
        state.is_store_down = false;
    }

    /// A connection of this node. A client without a time limit waits forever.
    pub(crate) fn link(&self, node: usize, time_limit: Option<Duration>) -> Link {
        Link {
            network: self.clone(),
            node,
            time_limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn reaches(&self, node: usize) -> bool {
        !self.is_store_down && !self.parted[node]
    }

    fn travel_time(&mut self, chronicle: &Chronicle) -> Duration {
        let usual = self.rng.between(FASTEST, SLOWEST);
        if self.rng.one_in(self.faults.delayed) {
            chronicle.count(Transition::Delayed);
            return self.rng.heavy(usual, self.faults.longest.max(usual));
        }
        usual
    }
}

/// A client's connection to the store.
#[derive(Clone)]
pub(crate) struct Link {
    network: Network,
    node: usize,
    time_limit: Option<Duration>,
}

/// A call that waits for its reply.
struct Waiting<T> {
    answer: Option<oneshot::Sender<Result<T, Error>>>,
    time_limit: Option<Place>,
    /// Whether a copy of the request has arrived.
    has_arrived: bool,
}

/// What the store has to do.
type Act<T> = dyn Fn(&Store) -> Result<T, Error> + Send + Sync;

type Caller<T> = Arc<Mutex<Waiting<T>>>;

impl Link {
    /// The true time.
    pub(crate) fn now(&self) -> Instant {
        self.network.world.now()
    }

    pub(crate) fn chronicle(&self) -> &Chronicle {
        &self.network.chronicle
    }

    /// Makes the store do something once, twice or never; returns its reply, or an unknown outcome.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        act: impl Fn(&Store) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<T, Error> {
        let (sender, receiver) = oneshot::channel();
        let act: Arc<Act<T>> = Arc::new(act);
        self.send(&act, sender);
        drop(act);
        match receiver.await {
            Ok(answer) => answer,
            // The reply was lost, and this client waits forever.
            Err(_) => std::future::pending().await,
        }
    }

    fn send<T: Send + 'static>(
        &self,
        act: &Arc<Act<T>>,
        sender: oneshot::Sender<Result<T, Error>>,
    ) {
        let chronicle = &self.network.chronicle;
        let caller: Caller<T> = Arc::new(Mutex::new(Waiting {
            answer: Some(sender),
            time_limit: None,
            has_arrived: false,
        }));
        let mut state = self.network.lock();
        if std::mem::take(&mut state.stops[self.node]) {
            let stop = Event::Strike(Strike::StopInCall(self.node));
            self.network.world.after(FASTEST, stop);
        }
        if !state.reaches(self.node) {
            let refuses = state.rng.flip();
            drop(state);
            if refuses {
                chronicle.count(Transition::Refused);
                let refused = Error::new(ErrorKind::Unavailable, "the connection was refused");
                self.answer(SLOWEST, &caller, Err(refused));
            } else {
                chronicle.count(Transition::RequestLost);
                self.limit(&caller);
            }
            return;
        }
        let faults = state.faults;
        let is_lost = state.rng.one_in(faults.request_lost);
        let is_doubled = state.rng.one_in(faults.doubled);
        let is_cut = state.rng.one_in(faults.cut);
        let mut there = state.travel_time(chronicle);
        if is_cut && state.rng.flip() {
            there = state.rng.heavy(there, faults.longest.max(there));
        }
        let again = is_doubled.then(|| {
            let later = state.travel_time(chronicle);
            state.rng.heavy(later, faults.longest.max(later))
        });
        let downs = state.downs;
        drop(state);
        self.limit(&caller);
        if is_lost {
            chronicle.count(Transition::RequestLost);
        } else {
            self.deliver(there, downs, act, &caller, true);
        }
        if let Some(again) = again {
            self.deliver(again, downs, act, &caller, false);
        }
        if is_cut {
            chronicle.count(Transition::Cut);
            self.answer(SLOWEST / 2, &caller, Err(unknown("the connection was cut")));
        }
    }

    /// Delivers one copy of the request, or loses it.
    fn deliver<T: Send + 'static>(
        &self,
        there: Duration,
        downs: u64,
        act: &Arc<Act<T>>,
        caller: &Caller<T>,
        is_first: bool,
    ) {
        let (link, act, caller) = (self.clone(), act.clone(), caller.clone());
        let arrive = move || {
            let network = &link.network;
            let mut state = network.lock();
            if !state.reaches(link.node) || state.downs != downs {
                network.chronicle.count(Transition::RequestLost);
                return;
            }
            let reply_lost = state.faults.reply_lost;
            let is_lost = state.rng.one_in(reply_lost);
            let back = state.travel_time(&network.chronicle);
            drop(state);
            if !is_first {
                network.chronicle.count(Transition::ArrivedTwice);
            }
            let is_double = {
                let mut waiting = caller.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut waiting.has_arrived, true)
            };
            network.chronicle.carries_copy(is_double);
            let answer = act(&network.store);
            if is_lost {
                network.chronicle.count(Transition::ReplyLost);
            } else {
                link.answer(back, &caller, answer);
            }
        };
        let arrival = Event::Arrive(None, Box::new(arrive));
        self.network.world.after(there, arrival);
    }

    fn answer<T: Send + 'static>(
        &self,
        back: Duration,
        caller: &Caller<T>,
        answer: Result<T, Error>,
    ) {
        let (link, caller) = (self.clone(), caller.clone());
        let arrive = move || {
            let network = &link.network;
            let refused = matches!(&answer, Err(error) if !error.is_outcome_unknown());
            if !refused && network.lock().parted[link.node] {
                network.chronicle.count(Transition::ReplyLost);
                return;
            }
            let mut waiting = caller.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = waiting.time_limit.take() {
                network.world.cancel(place);
            }
            if let Some(sender) = waiting.answer.take() {
                // A caller that has given up does not need it.
                let _ = sender.send(answer);
            }
        };
        let arrival = Event::Arrive(Some(self.node), Box::new(arrive));
        self.network.world.after(back, arrival);
    }

    /// Makes the client give up after its time limit, if it has one.
    fn limit<T: Send + 'static>(&self, caller: &Caller<T>) {
        let Some(limit) = self.time_limit else { return };
        let give_up = caller.clone();
        let over = move || {
            let mut waiting = give_up.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.time_limit = None;
            if let Some(sender) = waiting.answer.take() {
                let _ = sender.send(Err(unknown("no reply arrived in time")));
            }
        };
        let at = self.network.world.now().saturating_add(nanos(limit));
        let over = Event::Arrive(Some(self.node), Box::new(over));
        let place = self.network.world.set(at, over);
        let mut waiting = caller.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.time_limit = Some(place);
    }
}

fn unknown(why: &'static str) -> Error {
    Error::new(ErrorKind::OutcomeUnknown, why)
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({})", self.node)
    }
}

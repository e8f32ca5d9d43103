//! What the proxy does with the traffic that it sees.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::trap::{Met, Trap};
use super::{Fault, Meter};

/// Decides which requests match.
pub type Matcher = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Matches requests that contain these bytes.
pub fn contains(bytes: impl AsRef<[u8]>) -> Matcher {
    contains_any([bytes])
}

/// Matches requests that contain any of these byte strings.
pub fn contains_any<B: AsRef<[u8]>>(needles: impl IntoIterator<Item = B>) -> Matcher {
    let needles: Vec<Vec<u8>> = needles.into_iter().map(|b| b.as_ref().to_vec()).collect();
    Arc::new(move |request| {
        needles
            .iter()
            .any(|needle| request.windows(needle.len()).any(|part| part == needle))
    })
}

/// Matches packets that contain only HTTP/2 control frames for connections and windows: chatter of
/// stores that use gRPC.
pub fn http2_control() -> Matcher {
    Arc::new(|packet| {
        let mut rest = packet;
        while let [a, b, c, kind, _, _, _, _, _, behind @ ..] = rest {
            // RST_STREAM, SETTINGS, PING, WINDOW_UPDATE.
            let is_control = [3, 4, 6, 8].contains(kind);
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            if !is_control || behind.len() < length {
                return false;
            }
            rest = &behind[length..];
        }
        rest.is_empty()
    })
}

/// What happens, once, to a request that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strike {
    /// The connection is cut, and the store never sees the request.
    CutBeforeRequest,
    /// The store receives the request and replies; the connection is cut before the reply passes.
    CutBeforeReply,
    /// The request is swallowed; the connection stays open but is silent from now on.
    SwallowRequest,
    /// The store receives the request; the connection stays open, but no reply ever arrives.
    SwallowReply,
    /// The request reaches the store this much later.
    DelayRequest(Duration),
    /// The reply reaches the client this much later.
    DelayReply(Duration),
    /// The request is withheld until [`Trap::deliver`]. Until then the connection stays open but is
    /// silent. The store's side stays open even if the client closes its own.
    WithholdRequest,
    /// The client's connection is cut at once, and the request is withheld until
    /// [`Trap::deliver`]: the client knows that it has no reply, and sends again while the request
    /// is still in transit.
    CutAndWithholdRequest,
    /// The client's connection is cut at once, and the request reaches the store this much later.
    CutThenDeliver(Duration),
}

impl Strike {
    /// Whether the request reaches the store when [`Trap::deliver`] is called.
    pub(super) fn is_delivered_on_order(self) -> bool {
        matches!(self, Self::WithholdRequest | Self::CutAndWithholdRequest)
    }
}

/// Counts requests.
#[derive(Clone)]
pub struct Counter(Arc<Counting>);

struct Counting {
    matcher: Matcher,
    seen: AtomicUsize,
}

impl Counter {
    /// Returns how many requests matched so far.
    pub fn seen(&self) -> usize {
        self.0.seen.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counter({})", self.seen())
    }
}

/// The state of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Open,
    /// The next reply cuts the connection.
    CutOnReply,
    /// The next reply is delayed.
    DelayNextReply(Duration),
    /// No reply passes any more.
    NoReplies,
    /// Nothing passes any more.
    Dead,
    Cut,
}

pub(super) struct Rules(Mutex<State>);

struct State {
    fault: Fault,
    traps: Vec<Trap>,
    counters: Vec<Counter>,
    meters: Vec<Meter>,
    lines: Vec<watch::Sender<Line>>,
    /// How many connections have been opened so far.
    opened: u64,
}

impl Rules {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            fault: Fault::None,
            traps: Vec::new(),
            counters: Vec::new(),
            meters: Vec::new(),
            lines: Vec::new(),
            opened: 0,
        }))
    }

    pub(super) fn set(&self, fault: Fault) {
        let mut state = self.lock();
        state.fault = fault;
        if fault == Fault::Swallow {
            // A silent connection stays silent: a half-open connection does not recover.
            for line in &state.lines {
                line.send_replace(Line::Dead);
            }
        }
    }

    pub(super) fn fault(&self) -> Fault {
        self.lock().fault
    }

    pub(super) fn arm(&self, matcher: Matcher, nth: usize, strike: Strike) -> Trap {
        let trap = Trap::new(matcher, nth, strike);
        self.lock().traps.push(trap.clone());
        trap
    }

    pub(super) fn disarm(&self) {
        self.lock().traps.clear();
    }

    pub(super) fn count(&self, matcher: Matcher) -> Counter {
        let counter = Counter(Arc::new(Counting {
            matcher,
            seen: AtomicUsize::new(0),
        }));
        self.lock().counters.push(counter.clone());
        counter
    }

    pub(super) fn measure(&self, chatter: Option<Matcher>) -> Meter {
        let meter = Meter::new(chatter);
        self.lock().meters.push(meter.clone());
        meter
    }

    /// Registers a new connection; returns its number.
    pub(super) fn open(&self) -> (u64, watch::Sender<Line>) {
        let mut state = self.lock();
        let first = match state.fault {
            Fault::Swallow => Line::Dead,
            _ => Line::Open,
        };
        let line = watch::Sender::new(first);
        state
            .lines
            .retain(|line| line.receiver_count() > 0 || *line.borrow() != Line::Cut);
        state.lines.push(line.clone());
        state.opened += 1;
        (state.opened, line)
    }

    pub(super) fn cut_all(&self) {
        for line in self.lock().lines.drain(..) {
            line.send_replace(Line::Cut);
        }
    }

    /// Counts the request; returns the strike that it triggers, if any.
    pub(super) fn see(&self, connection: u64, request: &[u8]) -> Option<Met> {
        let mut state = self.lock();
        for meter in &state.meters {
            meter.request(connection, request);
        }
        for Counter(counting) in &state.counters {
            if (counting.matcher)(request) {
                counting.seen.fetch_add(1, Ordering::SeqCst);
            }
        }
        let met = state.traps.iter().position(|trap| trap.is_met(request))?;
        Some(state.traps.remove(met).strike())
    }

    /// Counts the reply.
    pub(super) fn answer(&self, connection: u64, reply: &[u8]) {
        for meter in &self.lock().meters {
            meter.reply(connection, reply);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Rules")
            .field("fault", &state.fault)
            .field("traps", &state.traps)
            .finish_non_exhaustive()
    }
}

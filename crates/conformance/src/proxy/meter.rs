//! Counts the traffic on the wire.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Matcher;
use crate::wait::sleep;

/// A call is considered complete after no traffic for this long.
const PAUSE: Duration = Duration::from_millis(40);

/// Limits the wait for clients that never fall silent.
const MOST_PAUSES: usize = 50;

/// Counts what passes the proxy, starting when the meter is created.
#[derive(Clone)]
pub struct Meter(Arc<Metering>);

struct Metering {
    chatter: Option<Matcher>,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    traffic: Traffic,
    /// The connections that have sent a request since their last reply.
    waiting: HashSet<u64>,
}

/// The traffic counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Round trips: how often a reply followed a request on a connection. Requests in flight at the
    /// same time count as one if the first reply arrives after the last request. A
    /// [delay](super::Fault::Delay) of replies guarantees that.
    pub round_trips: usize,
    /// Bytes from clients to the store.
    pub to_store: u64,
    /// Bytes from the store to clients.
    pub to_client: u64,
}

impl Meter {
    pub(super) fn new(chatter: Option<Matcher>) -> Self {
        Self(Arc::new(Metering {
            chatter,
            tally: Mutex::default(),
        }))
    }

    /// Returns the traffic so far.
    pub fn traffic(&self) -> Traffic {
        self.lock().traffic
    }

    /// Returns the traffic once nothing has passed for a while, including what follows the reply to
    /// a call.
    pub async fn settled(&self) -> Traffic {
        let mut before = self.traffic();
        for _ in 0..MOST_PAUSES {
            sleep(PAUSE).await;
            let now = self.traffic();
            if now == before {
                break;
            }
            before = now;
        }
        before
    }

    pub(super) fn request(&self, connection: u64, packet: &[u8]) {
        if self.counts(packet) {
            let mut tally = self.lock();
            tally.traffic.to_store += bytes(packet);
            tally.waiting.insert(connection);
        }
    }

    pub(super) fn reply(&self, connection: u64, packet: &[u8]) {
        if self.counts(packet) {
            let mut tally = self.lock();
            tally.traffic.to_client += bytes(packet);
            tally.traffic.round_trips += usize::from(tally.waiting.remove(&connection));
        }
    }

    fn counts(&self, packet: &[u8]) -> bool {
        !self
            .0
            .chatter
            .as_ref()
            .is_some_and(|chatter| chatter(packet))
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.0.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(packet: &[u8]) -> u64 {
    u64::try_from(packet.len()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meter({:?})", self.traffic())
    }
}

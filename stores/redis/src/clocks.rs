//! What is known of the servers' clocks: each lock is judged by that of the server that it lies on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use redis::cluster_routing::Slot;
use shedlock_core::StoreClock;

#[derive(Debug)]
pub(crate) struct Clocks {
    is_cluster: bool,
    /// In a cluster by the hash slots that were asked for: a slot lies on one server, and which one it is may
    /// change. There are 16,384 at most.
    seen: Mutex<HashMap<Option<Slot>, Arc<StoreClock>>>,
}

impl Clocks {
    pub(crate) fn new(is_cluster: bool) -> Self {
        let seen = Mutex::default();
        Self { is_cluster, seen }
    }

    pub(crate) fn of(&self, key: &str) -> Arc<StoreClock> {
        self.at(self.is_cluster.then(|| Slot::for_key(key)))
    }

    /// Takes down what the server, if there is one, has reported.
    pub(crate) fn observe_only(&self, time: Option<SystemTime>) {
        if let (false, Some(time)) = (self.is_cluster, time) {
            self.at(None).observe(time);
        }
    }

    fn at(&self, slot: Option<Slot>) -> Arc<StoreClock> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(seen.entry(slot).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    /// Their servers' clocks may differ.
    #[test]
    fn the_time_of_one_server_of_a_cluster_does_not_bound_attempts_at_another() {
        let clocks = Clocks::new(true);
        clocks
            .of("{a}1")
            .observe(UNIX_EPOCH + Duration::from_secs(5));
        let seen = |key| clocks.of(key).not_after(Duration::ZERO) > UNIX_EPOCH;
        assert!(seen("{a}1") && seen("{a}2") && !seen("b"));
        clocks.observe_only(Some(UNIX_EPOCH + Duration::from_secs(9)));
        assert!(!seen("b"));
    }
}

//! The observed clocks of the servers. Each lock is judged by the clock of the server that has its key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use redis::cluster_routing::Slot;
use shedlock_core::StoreClock;

#[derive(Debug)]
pub(crate) struct Clocks {
    is_cluster: bool,
    /// In a cluster, one clock per hash slot that was used. A slot is on one server, which may change. There are at
    /// most 16,384.
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

    /// Records the time that a single server has reported. In a cluster it does nothing.
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

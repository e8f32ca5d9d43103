//! A replica that serves reads, and lags.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use std::time::Duration;

use shedlock_core::LockName;
use shedlock_provider::Record;

use super::Store;
use crate::transition::Transition;
use crate::world::{Instant, nanos};

/// The states of all records, as long as a replica may show them.
pub(super) type Past = BTreeMap<LockName, VecDeque<State>>;

/// The state of a record from this instant on.
pub(super) struct State {
    revision: u64,
    at: Instant,
    record: Option<(u64, Record)>,
}

/// The longest lag of a replica.
pub(crate) const LONGEST_LAG: Duration = Duration::from_secs(20);

impl Store {
    /// Stores the state of a record as of this revision.
    pub(super) fn shows(&self, name: &LockName, revision: u64, record: Option<(u64, Record)>) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let states = past.entry(name.clone()).or_default();
        let at = self.world.now();
        states.push_back(State {
            revision,
            at,
            record,
        });
        let oldest = at.saturating_sub(nanos(LONGEST_LAG));
        while states.get(1).is_some_and(|second| second.at < oldest) {
            states.pop_front();
        }
    }

    /// A crash has undone everything after this instant.
    pub(super) fn forgets_since(&self, from: Instant) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        for states in past.values_mut() {
            states.retain(|state| state.at < from);
        }
    }

    /// What a replica shows a client that has seen this revision, with the revision of that state.
    /// The state is never older than what the client has seen, but it may not be the latest.
    pub(super) fn shown(
        &self,
        name: &LockName,
        lag: Duration,
        seen: u64,
    ) -> (Option<(u64, Record)>, u64) {
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.world.now();
        // The lag varies with the instant.
        let lag = nanos(lag.min(LONGEST_LAG)) / 1_000 * (now % 1_000);
        let has = |state: &State| state.at <= now.saturating_sub(lag) || state.revision <= seen;
        let Some(states) = past.get(name) else {
            return (None, seen);
        };
        let Some(place) = states.iter().rposition(has) else {
            return (None, seen);
        };
        if place + 1 < states.len() {
            self.chronicle.count(Transition::ReadStale);
        }
        let state = &states[place];
        (state.record.clone(), state.revision)
    }
}

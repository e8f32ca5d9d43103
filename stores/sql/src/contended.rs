//! Locks that are repeatedly found free but cannot be taken.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use shedlock_core::LockName;

use crate::identifier::Table;

/// Counts, for each lock, how many times in a row it was found free but could not be taken. Other owners can be faster
/// once, but hardly in every round of several attempts. More likely, the server then hides the record.
#[derive(Debug, Default)]
pub(crate) struct Contended(Mutex<HashMap<String, u32>>);

/// Attempts in a row after which other owners are no longer a likely cause.
const SUSPICIOUS: u32 = 3;

/// Names counted at the same time.
const MOST_NAMES: usize = 1_000;

impl Contended {
    /// Counts one more attempt on a lock of this table. Warns once per series, when it becomes suspicious.
    pub(crate) fn again(&self, lock: &LockName, table: &Table) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST_NAMES {
            counts.clear();
        }
        let count = counts.entry(lock.as_str().to_owned()).or_default();
        *count = count.saturating_add(1);
        let is_suspicious = *count == SUSPICIOUS;
        drop(counts);
        if is_suspicious {
            tracing::warn!(
                %table,
                lock = lock.as_str(),
                "the lock is repeatedly found free but cannot be taken: row-level security may \
                 hide its record, or a trigger may undo the write; check the policies and triggers \
                 of the table"
            );
        }
    }

    pub(crate) fn ended(&self, lock: &LockName) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.remove(lock.as_str());
    }
}

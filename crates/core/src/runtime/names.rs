//! Lock names that are jobs of their own and become ever more.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// From this many on they are not the jobs of a program, but computed.
const MOST: usize = 10_000;

/// The names for which listeners and the journal keep a series or a record each.
#[derive(Debug, Default)]
pub(crate) struct Names {
    seen: Mutex<HashSet<u64>>,
    are_many: AtomicBool,
}

impl Names {
    /// Warns once if there are many.
    pub(crate) fn note(&self, name: &str) {
        if self.are_many.load(Ordering::Relaxed) {
            return;
        }
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(hasher.finish());
        if seen.len() < MOST || self.are_many.swap(true, Ordering::Relaxed) {
            return;
        }
        *seen = HashSet::new();
        drop(seen);
        tracing::warn!(
            target: "shedlock_core::jobs",
            lock = name,
            "{MOST} locks with different names and without a job: metrics and journal keep each name as a job of its own; \
             if the names are computed, set LockConfig::job"
        );
    }
}

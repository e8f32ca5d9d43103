//! Chance that can be had again from its seed.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The seed for a run, unless one is given to repeat an earlier run.
const VARIABLE: &str = "SHEDLOCK_CONFORMANCE_SEED";

/// A small generator (splitmix64): good enough to spread moments, and the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    seed: u64,
    state: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// From the environment, or new.
    pub(crate) fn of_this_run() -> Self {
        let given = std::env::var(VARIABLE).ok().and_then(|s| s.parse().ok());
        // The standard library's hash keys are random for each process and each state.
        Self::new(given.unwrap_or_else(|| RandomState::new().hash_one(0)))
    }

    /// How to have this run's chance again, for messages.
    pub(crate) fn to_repeat(&self) -> String {
        format!("{VARIABLE}={}", self.seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    pub(crate) fn up_to(&mut self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.next() % micros.saturating_add(1).max(1))
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let count = u64::try_from(from.len()).unwrap_or(u64::MAX);
        let index = usize::try_from(self.next() % count).unwrap_or(0);
        &from[index]
    }
}

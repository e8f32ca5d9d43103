//! Random numbers that a seed reproduces.

use std::time::Duration;

/// The environment variable with the seed of an earlier run, to repeat it.
const VARIABLE: &str = "SHEDLOCK_CONFORMANCE_SEED";

/// A generator that returns the same numbers for the same seed on every machine.
#[derive(Clone, Debug)]
pub(crate) struct SeededRng {
    seed: u64,
    rng: fastrand::Rng,
}

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Self { seed, rng }
    }

    /// A generator with the seed from the environment, or a random one.
    pub(crate) fn of_this_run() -> Self {
        let given = std::env::var(VARIABLE).ok().and_then(|s| s.parse().ok());
        Self::new(given.unwrap_or_else(|| fastrand::u64(..)))
    }

    /// How to repeat this run, for messages.
    pub(crate) fn to_repeat(&self) -> String {
        format!("{VARIABLE}={}", self.seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.rng.u64(..)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.rng.u64(..n) == 0
    }

    pub(crate) fn up_to(&mut self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.rng.u64(..=micros))
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.rng.usize(..from.len())]
    }
}

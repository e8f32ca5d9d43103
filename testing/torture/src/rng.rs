//! Random numbers that a seed repeats.

use std::time::Duration;

/// The seed for a run, unless one is given to repeat an earlier run.
const VARIABLE: &str = "SHEDLOCK_CONFORMANCE_SEED";

/// A generator whose numbers are the same on every machine for the same seed.
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

    /// With the seed in the environment, or a random one.
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

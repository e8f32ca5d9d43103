//! Random choices that a seed reproduces.

use std::env;

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

    /// A generator with the seed from `SHEDLOCK_FUZZ_SEED`. The default seed is always the same, so
    /// that a test run fails because of a change and never because of the date.
    pub(crate) fn of_environment() -> Self {
        let text = env::var("SHEDLOCK_FUZZ_SEED");
        let seed = text.map_or(1, |text| {
            text.parse().expect("SHEDLOCK_FUZZ_SEED is a whole number")
        });
        Self::new(seed)
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// A number below `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.rng.usize(..end.max(1))
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.rng.u8(..)
    }

    /// One of these.
    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }

    /// A part of something of this length: from, to.
    pub(crate) fn part(&mut self, length: usize) -> (usize, usize) {
        let (a, b) = (self.below(length + 1), self.below(length + 1));
        // Mostly short ones.
        let (from, to) = (a.min(b), a.max(b));
        if self.below(4) > 0 {
            (from, to.min(from + 1 + self.below(8)))
        } else {
            (from, to)
        }
    }
}

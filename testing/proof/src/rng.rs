//! Random numbers that a seed reproduces.

use std::time::Duration;

/// The environment variable with the seed of an earlier run, to repeat it.
const VARIABLE: &str = "SHEDLOCK_CONFORMANCE_SEED";

/// A generator that returns the same numbers for the same seed on every machine. Each part of a run
/// has its own, so that a part that draws more or less often does not affect the others.
#[derive(Clone, Debug)]
pub struct SeededRng {
    seed: u64,
    rng: fastrand::Rng,
}

impl SeededRng {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Self { seed, rng }
    }

    /// A generator with the seed from the environment, or a random one.
    pub fn of_this_run() -> Self {
        Self::of_variable(VARIABLE, || fastrand::u64(..))
    }

    /// A generator with the seed from this variable, or with this seed if it is not set.
    ///
    /// # Panics
    /// If its value is not a number: the run would not be the one that is to be repeated.
    pub fn of_variable(variable: &str, otherwise: impl FnOnce() -> u64) -> Self {
        let seed = match std::env::var(variable) {
            Ok(text) => text
                .parse()
                .unwrap_or_else(|_| panic!("{variable}={text:?} should be a number")),
            Err(_) => otherwise(),
        };
        Self::new(seed)
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How to repeat this run, for messages.
    pub fn to_repeat(&self) -> String {
        format!("{VARIABLE}={}", self.seed)
    }

    /// A generator for one part of the run.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self {
            seed: self.seed,
            rng: self.rng.fork(),
        }
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.rng.u64(..)
    }

    /// A number less than `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.rng.u64(..end.max(1))
    }

    /// An index into something of this length; 0 if it is empty.
    pub fn index(&mut self, length: usize) -> usize {
        self.rng.usize(..length.max(1))
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.rng.u8(..)
    }

    /// Returns true once in `many` times on average; never if `many` is zero.
    pub fn one_in(&mut self, many: u64) -> bool {
        many > 0 && self.below(many) == 0
    }

    /// Returns true half of the time.
    pub fn flip(&mut self) -> bool {
        self.rng.bool()
    }

    /// A duration up to the longest.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        self.between(Duration::ZERO, longest)
    }

    /// A duration between these, including both.
    pub fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let range = longest.saturating_sub(shortest).as_nanos();
        let range = u64::try_from(range).unwrap_or(u64::MAX - 1);
        shortest + Duration::from_nanos(self.below(range + 1))
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }

    /// Mostly short, and sometimes up to the longest: each order of magnitude is equally likely.
    pub fn heavy(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let (from, to) = (magnitude(shortest), magnitude(longest));
        let bits = from + self.below(to.saturating_sub(from) + 1);
        let floor = Duration::from_nanos(1 << bits);
        self.between(floor, floor * 2).clamp(shortest, longest)
    }
}

fn magnitude(duration: Duration) -> u64 {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    u64::from(nanos.max(1).ilog2()).min(62)
}

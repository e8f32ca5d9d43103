//! All random choices, from one seed.

use std::time::Duration;

/// A seeded generator. Each part of a run has its own, so that a part that draws more or less often
/// does not affect the others.
#[derive(Clone, Debug)]
pub(crate) struct SeededRng(fastrand::Rng);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A generator for one part of the run.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number less than `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end.max(1))
    }

    /// Returns true once in `many` times on average; never if `many` is zero.
    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        many > 0 && self.below(many) == 0
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.0.bool()
    }

    pub(crate) fn up_to(&mut self, longest: Duration) -> Duration {
        self.between(Duration::ZERO, longest)
    }

    pub(crate) fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let range = longest.saturating_sub(shortest).as_nanos();
        let range = u64::try_from(range).unwrap_or(u64::MAX - 1);
        shortest + Duration::from_nanos(self.below(range + 1))
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.usize(..of.len())]
    }

    /// Mostly short, and sometimes up to the longest: each order of magnitude is equally likely.
    pub(crate) fn heavy(&mut self, shortest: Duration, longest: Duration) -> Duration {
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

//! All that is random, from one seed.

use std::time::Duration;

/// Chance with a seed (splitmix64). Each part of a run has its own, so that one that draws more or less
/// often leaves the others as they were.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One for a part of the run.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than this.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True once in so many times; never for none.
    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        many > 0 && self.below(many) == 0
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.one_in(2)
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
        let index = self.below(of.len() as u64);
        of[usize::try_from(index).unwrap_or(0)]
    }

    /// Mostly short, and at times up to the longest: each order of magnitude is as likely as the next.
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

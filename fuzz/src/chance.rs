//! Choices that can be made again from a seed.

use std::env;

/// Chance of splitmix64: no secret, and the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    seed: u64,
    state: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// By the seed of `SHEDLOCK_FUZZ_SEED`; unless given, always the same, so that a run of the tests
    /// fails for what was changed and never for the day.
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

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 where there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
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

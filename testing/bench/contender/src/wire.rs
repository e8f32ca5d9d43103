//! What is said between the two processes.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The first line of a contender: it is connected.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    /// What it is made of, for people.
    pub versions: String,
}

/// A round that is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Before each name of a lock.
    pub name: String,
    /// How many workers there are at the same time.
    pub workers: usize,
    /// Whether all of them want one lock; else each has its own.
    pub contended: bool,
    /// How long they go on.
    pub millis: u64,
    /// How many pairs each of them makes instead; 0 for as many as the time allows.
    pub pairs: u64,
}

/// What came of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// How long it took.
    pub nanos: u64,
    /// Attempts at a lock that somebody else held.
    pub lost: u64,
    /// Durations of pairs in nanoseconds, to three digits, and how many there were of each.
    pub latencies: Vec<(u64, u64)>,
}

impl Answer {
    /// Pairs of lock and unlock.
    pub fn pairs(&self) -> u64 {
        self.latencies.iter().map(|(_, count)| count).sum()
    }
}

/// Longest pair that is told apart from longer ones.
const LONGEST: Duration = Duration::from_secs(60);

/// An empty one, in nanoseconds.
pub fn histogram() -> Histogram<u64> {
    let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
    Histogram::new_with_bounds(100, longest, 3).expect("these bounds are valid")
}

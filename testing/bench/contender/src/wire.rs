//! The messages between the two processes.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The first line of a contender: it is connected.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    /// Its components, for people.
    pub versions: String,
}

/// A requested round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The prefix of each lock's name.
    pub name: String,
    /// How many workers run at the same time.
    pub workers: usize,
    /// Whether all of them use one lock. Otherwise each has its own.
    pub contended: bool,
    /// How long the round lasts.
    pub millis: u64,
    /// How many pairs each of them makes instead of running for `millis`. 0 to run for `millis`.
    pub pairs: u64,
}

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// How long it took.
    pub nanos: u64,
    /// Attempts at a lock that another worker held.
    pub lost: u64,
    /// Durations of pairs in nanoseconds, to three digits, and the number of pairs for each.
    pub latencies: Vec<(u64, u64)>,
}

impl Answer {
    /// Pairs of lock and unlock.
    pub fn pairs(&self) -> u64 {
        self.latencies.iter().map(|(_, count)| count).sum()
    }
}

/// The longest pair that is distinguished from longer ones.
const LONGEST: Duration = Duration::from_secs(60);

/// An empty histogram, in nanoseconds.
pub fn histogram() -> Histogram<u64> {
    let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
    Histogram::new_with_bounds(100, longest, 3).expect("these bounds are valid")
}

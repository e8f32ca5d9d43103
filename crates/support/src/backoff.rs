//! Pauses between tries.

use std::time::Duration;

/// Pauses that double, from the first to the longest.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Creates one. The first pause is not longer than the longest.
    pub fn new(first: Duration, longest: Duration) -> Self {
        let first = first.min(longest);
        Self {
            first,
            next: first,
            longest,
        }
    }

    /// Returns the pause that [`take`](Self::take) returns next.
    pub fn pause(&self) -> Duration {
        self.next
    }

    /// Returns the next pause, after which a longer one follows.
    pub fn take(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// Begins again with the first pause.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// Returns whether no pause was taken since the beginning.
    pub fn is_fresh(&self) -> bool {
        self.next == self.first
    }

    /// Returns the longest pause.
    pub fn longest(&self) -> Duration {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again() {
        let millis = Duration::from_millis;
        let mut backoff = Backoff::new(millis(50), millis(150));
        assert!(backoff.is_fresh());
        let pauses: Vec<_> = (0..4).map(|_| backoff.take()).collect();
        assert_eq!(pauses, [50, 100, 150, 150].map(millis));
        assert!(!backoff.is_fresh());
        backoff.reset();
        assert_eq!(backoff.pause(), millis(50));
        assert_eq!(Backoff::new(millis(50), millis(20)).take(), millis(20));
    }
}

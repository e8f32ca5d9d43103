//! Waiting in real time, for processes and servers whose clocks no test can move.

use std::time::{Duration, Instant};

/// Longer than any loaded machine needs for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The longest pause between two looks.
const STEP: Duration = Duration::from_millis(50);

/// Polls until `done` returns true or `patience` has passed. Returns `false` if it was never done.
pub fn until(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    found(patience, || done().then_some(())).is_some()
}

/// Polls until `look` finds something or `patience` has passed.
pub fn found<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + patience;
    let mut step = Duration::from_millis(2);
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= end {
            return found;
        }
        pause(step);
        step = STEP.min(step * 2);
    }
}

/// Waits until this is so.
///
/// # Panics
/// If that takes longer than any machine needs.
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(until(PATIENCE, is_so), "not within {PATIENCE:?}: {what}");
}

/// Lets real processes run.
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_late_is_found_and_what_never_comes_is_not() {
        let mut looks = 0;
        let third = found(PATIENCE, || {
            looks += 1;
            (looks == 3).then_some("it")
        });
        assert_eq!(third, Some("it"));
        assert!(!until(Duration::from_millis(5), || false));
        assert!(until(Duration::ZERO, || true), "looks at least once");
    }
}

//! Waiting in real time, for processes and servers whose clocks no test can move.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Longer than any loaded machine needs for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The longest pause between two looks of [`until`] and [`found`]: short enough to catch a process in the middle of something.
const SHORT: Duration = Duration::from_millis(10);

/// The longest pause of [`eventually`]: what it looks at may be costly.
const LONG: Duration = Duration::from_millis(100);

/// Polls until `done` returns true or `patience` has passed. Returns `false` if it was never done.
pub fn until(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    found(patience, || done().then_some(())).is_some()
}

/// Polls until `look` finds something or `patience` has passed.
pub fn found<T>(patience: Duration, look: impl FnMut() -> Option<T>) -> Option<T> {
    poll(patience, SHORT, look)
}

/// Waits until this is so.
///
/// # Panics
/// If that takes longer than any machine needs.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let so = poll(PATIENCE, LONG, || is_so().then_some(()));
    assert!(so.is_some(), "not within {PATIENCE:?}: {what}");
}

fn poll<T>(
    patience: Duration,
    longest: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    let begun = Instant::now();
    loop {
        let found = look();
        let waited = begun.elapsed();
        if found.is_some() || waited >= patience {
            return found;
        }
        // Late by a twentieth at most.
        pause((waited / 20).clamp(Duration::from_millis(1), longest));
    }
}

/// Lets real processes run.
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Lets real processes run, without blocking the runtime.
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Looks repeated without blocking the runtime, until what must happen has happened.
#[derive(Debug)]
pub struct Looks<'a> {
    what: &'a str,
    end: Instant,
}

impl<'a> Looks<'a> {
    /// For this to happen.
    #[must_use]
    pub fn at(what: &'a str) -> Self {
        let end = Instant::now() + PATIENCE;
        Self { what, end }
    }

    /// Waits until the next look.
    ///
    /// # Panics
    /// If it takes longer than any machine needs.
    pub async fn again(&self) {
        let Self { what, end } = self;
        assert!(Instant::now() < *end, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(SHORT).await;
    }
}

/// Looks until it finds something, without blocking the runtime.
///
/// # Panics
/// If that takes longer than any machine needs.
pub async fn found_async<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looks = Looks::at(what);
    loop {
        match look().await {
            Some(found) => return found,
            None => looks.again().await,
        }
    }
}

/// Repeats a call while it fails with errors that may pass, and returns its result.
///
/// # Panics
/// With another error, or if that takes longer than any machine needs.
pub async fn answered<T, E: Debug>(
    what: &str,
    may_pass: impl Fn(&E) -> bool,
    mut call: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    found_async(what, async || match call().await {
        Ok(answer) => Some(answer),
        Err(error) if may_pass(&error) => None,
        Err(error) => panic!("{what}: {error:?}"),
    })
    .await
}

/// Like [`eventually`], without blocking the runtime.
///
/// # Errors
/// The first error of `is_so`.
///
/// # Panics
/// If that takes longer than any machine needs.
pub async fn eventually_async<E>(
    what: &str,
    mut is_so: impl AsyncFnMut() -> Result<bool, E>,
) -> Result<(), E> {
    let looks = Looks::at(what);
    while !is_so().await? {
        looks.again().await;
    }
    Ok(())
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

//! The arguments of a locked function are dropped while its lock is held.
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]
#![cfg(feature = "macros")]

use std::sync::{Arc, Mutex};

use shedlock::{
    LockProvider, MemoryProvider, Outcome, assert_locked, scheduler_lock, with_provider,
    with_provider_blocking,
};

/// The witnesses in drop order, and whether each was dropped under the lock.
#[derive(Clone, Default)]
struct Drops(Arc<Mutex<Vec<(&'static str, bool)>>>);

/// Stands for a transaction, a file, or a guard of another lock.
struct Witness(&'static str, Drops);

impl Drop for Witness {
    fn drop(&mut self) {
        let drops = &self.1.0;
        drops
            .lock()
            .unwrap()
            .push((self.0, assert_locked().is_ok()));
    }
}

struct Job {
    id: u8,
    part: Witness,
    #[expect(dead_code, reason = "no one looks at it")]
    rest: Witness,
}

impl Drops {
    fn witness(&self, name: &'static str) -> Witness {
        Witness(name, self.clone())
    }

    fn job(&self) -> Job {
        Job {
            id: 1,
            part: self.witness("part"),
            rest: self.witness("rest"),
        }
    }

    #[track_caller]
    fn assert_under_the_lock(&self, expected: &[&str]) {
        let drops = self.0.lock().unwrap();
        let mut names: Vec<_> = drops.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(names, expected);
        assert!(drops.iter().all(|(_, locked)| *locked), "{drops:?}");
    }
}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
async fn unmentioned(_first: Witness, _: Witness, mut _third: Witness) -> Outcome<()> {}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
#[tracing::instrument(skip_all)]
#[deny(clippy::no_effect_underscore_binding)]
async fn instrumented(_first: Witness) -> Outcome<()> {}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
async fn in_parts((first, _): (Witness, Witness), Job { part, .. }: Job) -> Outcome<usize> {
    drop(part);
    first.0.len()
}

#[scheduler_lock(name = "a-{id}", lock_at_most_for = "1m")]
async fn by_field(job: Job, #[cfg(any())] absent: u8, id: u8) -> Outcome<u8> {
    drop(job.part);
    job.id
}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
fn blocking(_: Witness, job: Job, (_, second): (Witness, Witness)) -> Outcome<Option<usize>> {
    let _ = job.id;
    // The iterator borrows `second` until the end of the statement.
    Some(second.0.split('e').map(str::len).sum())
}

impl Job {
    #[scheduler_lock(name = "a-{self.id}", lock_at_most_for = "1m")]
    async fn owned(self) -> Outcome<u8> {
        self.id
    }

    #[scheduler_lock(name = "a-{self.id}", lock_at_most_for = "1m")]
    async fn unused(self: Box<Self>) -> Outcome<()> {}
}

#[tokio::test]
async fn no_argument_of_an_async_function_is_dropped_after_the_unlock() {
    let provider: Arc<dyn LockProvider> = Arc::new(MemoryProvider::new());
    let drops = Drops::default();
    let run = unmentioned(drops.witness("1"), drops.witness("2"), drops.witness("3"));
    assert!(with_provider(provider.clone(), run).await.is_executed());
    drops.assert_under_the_lock(&["1", "2", "3"]);

    let drops = Drops::default();
    let run = instrumented(drops.witness("1"));
    assert!(with_provider(provider.clone(), run).await.is_executed());
    drops.assert_under_the_lock(&["1"]);

    let drops = Drops::default();
    let run = in_parts((drops.witness("1"), drops.witness("2")), drops.job());
    assert!(with_provider(provider.clone(), run).await.is_executed());
    drops.assert_under_the_lock(&["1", "2", "part", "rest"]);

    let drops = Drops::default();
    let run = by_field(drops.job(), 1);
    assert!(with_provider(provider.clone(), run).await.is_executed());
    drops.assert_under_the_lock(&["part", "rest"]);

    let drops = Drops::default();
    let run = drops.job().owned();
    assert!(with_provider(provider.clone(), run).await.is_executed());
    let run = Box::new(drops.job()).unused();
    assert!(with_provider(provider, run).await.is_executed());
    drops.assert_under_the_lock(&["part", "part", "rest", "rest"]);
}

#[test]
fn no_argument_of_a_blocking_function_is_dropped_after_the_unlock() {
    let drops = Drops::default();
    let pair = (drops.witness("2"), drops.witness("3"));
    let outcome = with_provider_blocking(Arc::new(MemoryProvider::new()), || {
        blocking(drops.witness("1"), drops.job(), pair)
    });
    assert!(outcome.is_executed());
    drops.assert_under_the_lock(&["1", "2", "3", "part", "rest"]);
}

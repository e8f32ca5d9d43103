//! Large tasks under several locks: the size of their futures.
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]
#![cfg(feature = "macros")]

use std::mem::size_of_val;
use std::sync::Arc;

use shedlock::{Executor, LockConfig, MemoryProvider, scheduler_lock};

/// A size that fits on the stack of a tokio worker thread only a few times.
const LARGE: usize = 256 * 1024;

async fn body<const N: usize>() -> Option<usize> {
    let kept = [1_u8; N];
    tokio::task::yield_now().await;
    Some(kept.len())
}

#[scheduler_lock(name = "one", lock_at_most_for = "1m", provider = executor)]
async fn under_one<const N: usize>(executor: Executor) -> Option<usize> {
    body::<N>().await
}

#[scheduler_lock(name = "one", lock_at_most_for = "1m", provider = executor)]
#[scheduler_lock(name = "two", lock_at_most_for = "1m", provider = &executor)]
async fn under_two<const N: usize>(executor: Executor) -> Option<usize> {
    body::<N>().await
}

#[scheduler_lock(name = "one", lock_at_most_for = "1m", provider = executor)]
#[scheduler_lock(name = "two", lock_at_most_for = "1m", provider = &executor)]
#[scheduler_lock(name = "three", lock_at_most_for = "1m", provider = &executor)]
async fn under_three<const N: usize>(executor: Executor) -> Option<usize> {
    body::<N>().await
}

/// Nests locks without the attribute.
async fn nested<const N: usize>(executor: &Executor) -> Option<usize> {
    let [one, two, three] =
        ["one", "two", "three"].map(|name| LockConfig::new(name).lock_at_most_for("1m"));
    let run = executor.execute(&one, async {
        let run = executor.execute(&two, async {
            let run = executor.execute(&three, body::<N>());
            run.await.ok()?.value()?
        });
        run.await.ok()?.value()?
    });
    run.await.ok()?.value()?
}

fn executor() -> Executor {
    Executor::new(Arc::new(MemoryProvider::new()))
}

#[test]
fn each_lock_around_a_task_adds_less_than_a_kibibyte_to_its_future() {
    let executor = executor();
    let none = size_of_val(&body::<16_384>());
    let one = size_of_val(&under_one::<16_384>(executor.clone()));
    let two = size_of_val(&under_two::<16_384>(executor.clone()));
    let three = size_of_val(&under_three::<16_384>(executor.clone()));
    let nested = size_of_val(&nested::<16_384>(&executor));
    let sizes = [one, two, three, nested];
    assert!(one < none + 1_024, "{sizes:?}");
    assert!(two < one + 1_024, "{sizes:?}");
    assert!(three < two + 1_024, "{sizes:?}");
    assert!(nested < none + 3 * 1_024, "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_task_under_three_locks_does_not_overflow_the_stack_of_a_worker() {
    let run = tokio::spawn(under_three::<LARGE>(executor()));
    assert_eq!(run.await.unwrap(), Some(LARGE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_task_in_nested_locks_does_not_overflow_the_stack_of_a_worker() {
    let run = tokio::spawn(async { nested::<LARGE>(&executor()).await });
    assert_eq!(run.await.unwrap(), Some(LARGE));
}

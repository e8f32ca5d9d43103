//! Counts the allocations of a run. This test is alone in its file because it replaces the
//! allocator of its process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Executor, LockConfig};
use shedlock_provider::MemoryProvider;

#[test]
fn a_run_allocates_little_and_leaves_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let executor = Executor::new(Arc::new(MemoryProvider::new()));
    let config = LockConfig::new("a").lock_at_most_for(Duration::from_secs(600));
    let run = async || {
        let outcome = executor.execute(&config, async {}).await.unwrap();
        assert!(outcome.is_executed());
    };
    runtime.block_on(run());

    let info = allocation_counter::measure(|| {
        runtime.block_on(async {
            for _ in 0..100 {
                run().await;
            }
        });
    });
    // The task, the owner, the state that the task and its handles share, the current lock, and a
    // boxed future for each of the two calls of the provider. The other ten are those of the provider in memory: its
    // records, and what it reads of them.
    assert!(info.count_total <= 1_605, "{info:?}");
    assert_eq!(info.bytes_current, 0, "{info:?}");
}

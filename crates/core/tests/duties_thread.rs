//! The thread of the duties itself. Alone in its file, because it counts the threads of its process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use common::until;
use shedlock_core::{Executor, LockConfig};
use shedlock_provider::MemoryProvider;

/// Returns the folder of the thread in /proc, if the thread exists.
fn thread() -> Option<PathBuf> {
    let mut threads = fs::read_dir("/proc/self/task").unwrap();
    threads.find_map(|thread| {
        let folder = thread.ok()?.path();
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        (name.trim() == "shedlock-duties").then_some(folder)
    })
}

/// Returns how often the thread has gone to sleep.
fn sleeps(thread: &std::path::Path) -> u64 {
    let status = fs::read_to_string(thread.join("status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("voluntary_ctxt_switches"));
    line.unwrap()
        .split_whitespace()
        .last()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn the_thread_lives_with_the_executors_and_short_runs_do_not_wake_it() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let executor = Executor::new(Arc::new(MemoryProvider::new()));
    assert_eq!(thread(), None, "there was no lease yet");
    let config = LockConfig::new("a").lock_at_most_for("10m").keep_alive();
    let run = || {
        runtime
            .block_on(executor.execute(&config, async {}))
            .unwrap()
    };

    assert!(run().is_executed());
    assert!(until(|| thread().is_some()), "no thread for the lease");
    let thread_of_duties = thread().unwrap();
    let before = sleeps(&thread_of_duties);
    for _ in 0..2_000 {
        assert!(run().is_executed());
    }
    let woken = sleeps(&thread_of_duties) - before;
    assert!(woken < 50, "{woken} times for 2,000 runs");

    // The runtime still has the tasks of the keep-alives, which were aborted.
    drop((executor, runtime));
    let is_gone = until(|| thread().is_none());
    assert!(is_gone, "the thread has outlived the last executor");
}

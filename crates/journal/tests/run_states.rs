//! What is known about a run whose end is not in the journal: its lock's record decides.

#[path = "../../core/tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Bench, bench, config, secs};
use shedlock_core::Journal as _;
use shedlock_core::{
    Attempt, AttemptRequest, Clock, ForceUnlockRequest, JournalEntry, Lease, LockName,
    LockProvider, Owner, RunOutcome, RunRecord, RunState, RunsRequest, UnlockRequest, admin,
};

use shedlock_journal::{JournalWriter, MemoryJournal};

const FLUSH: Duration = secs(5);

/// A lease of 10 s whose run is recorded, as a process records it that is killed afterwards.
async fn started(bench: &Bench, journal: &MemoryJournal) -> Lease {
    let name = LockName::new("a").expect("it is a name");
    let request = AttemptRequest::new(name, Owner::generate(), secs(10));
    let attempt = bench
        .faulty
        .attempt(&request)
        .await
        .expect("memory replies");
    let Attempt::Acquired(lease) = attempt else {
        panic!("the lock should be free: {attempt:?}");
    };
    let run = RunRecord::started(&lease, bench.clock.system_time());
    let entries = [JournalEntry::run(run, None)];
    journal.record(&entries).await.expect("memory replies");
    lease
}

/// The state of the latest run.
async fn state(bench: &Bench, journal: &MemoryJournal) -> RunState {
    let runs = journal.runs(&RunsRequest::new()).await;
    let run = runs.expect("memory replies").remove(0);
    let name = LockName::new(&run.name).expect("it is a name");
    let record = bench.faulty.inspect(&name).await.expect("memory replies");
    run.state(record.as_ref(), bench.clock.system_time())
}

#[tokio::test]
async fn the_end_of_a_run_whose_process_was_killed_is_unknown_once_its_lease_has_ended() {
    let (bench, journal) = (bench(), MemoryJournal::new());
    let lease = started(&bench, &journal).await;
    assert_eq!(state(&bench, &journal).await, RunState::Running);
    bench.pass(secs(11)).await;
    assert_eq!(state(&bench, &journal).await, RunState::EndUnknown);
    // It stays so when the lock is taken again.
    let killed = RunRecord::started(&lease, bench.clock.system_time());
    let _ = started(&bench, &journal).await;
    let record = bench.faulty.inspect(lease.name()).await;
    let record = record.expect("memory replies");
    let state_of = |run: &RunRecord| run.state(record.as_ref(), bench.clock.system_time());
    assert_eq!(state_of(&killed), RunState::EndUnknown);
    assert_eq!(state(&bench, &journal).await, RunState::Running);
}

#[tokio::test]
async fn a_run_whose_lock_was_freed_is_without_its_lock_until_its_lease_would_have_ended() {
    let (bench, journal) = (bench(), MemoryJournal::new());
    let lease = started(&bench, &journal).await;
    let free = ForceUnlockRequest::new(lease.name().clone());
    let freed = admin::force_unlock(&bench.faulty, &free).await;
    let _ = freed.expect("memory replies");
    assert_eq!(state(&bench, &journal).await, RunState::WithoutLock);
    bench.pass(secs(11)).await;
    assert_eq!(state(&bench, &journal).await, RunState::EndUnknown);
}

/// Its end is recorded a moment after the unlock. If that never happens, its process has died in between.
#[tokio::test]
async fn a_run_that_has_given_its_lock_back_is_not_called_without_it() {
    let (bench, journal) = (bench(), MemoryJournal::new());
    let lease = started(&bench, &journal).await;
    let unlocked = bench.faulty.unlock(&lease, &UnlockRequest::new()).await;
    let _ = unlocked.expect("memory replies");
    assert_eq!(state(&bench, &journal).await, RunState::Running);
    bench.pass(secs(11)).await;
    assert_eq!(state(&bench, &journal).await, RunState::EndUnknown);
}

#[tokio::test]
async fn a_run_under_keep_alive_is_running_for_longer_than_its_first_lease() {
    let bench = bench();
    let journal = MemoryJournal::new();
    let writer = JournalWriter::new(Arc::new(journal.clone()));
    let executor = bench.executor.clone().journal(&writer);
    let clock = bench.clock.clone();
    let task = tokio::spawn(async move {
        let config = config("a").lock_at_most_for("9s").keep_alive();
        let task = clock.sleep_until(clock.now() + secs(60));
        executor.execute(&config, task).await
    });
    bench.settle().await;
    for _ in 0..5 {
        assert_eq!(state(&bench, &journal).await, RunState::Running);
        bench.pass(secs(10)).await;
    }
    bench.pass(secs(20)).await;
    let outcome = task.await.expect("it does not panic");
    assert!(outcome.expect("memory replies").is_executed());
    assert_eq!(writer.flush(FLUSH).await, 0);
    let succeeded = RunState::Ended(RunOutcome::Succeeded);
    assert_eq!(state(&bench, &journal).await, succeeded);
}

//! A scheduler registers its jobs in the journal of its executor.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use shedlock::MemoryProvider;
use shedlock_core::{Executor, Journal as _, LockConfig, ManualClock, Slot};

use shedlock_journal::{JournalSettings, JournalWriter, MemoryJournal};
use shedlock_scheduler::{Job, LatePolicy, Schedule, Scheduler};

#[tokio::test]
async fn a_job_that_never_ran_has_a_deadline() {
    let hour = Duration::from_secs(3_600);
    let start = UNIX_EPOCH + hour * 500_000;
    let clock = Arc::new(ManualClock::starting_at(start));
    let journal = Arc::new(MemoryJournal::with_clock(clock.clone()));
    let settings = JournalSettings::new().clock(clock.clone());
    let writer = JournalWriter::with_settings(journal.clone(), settings);
    let provider = MemoryProvider::with_clock(clock.clone());
    let executor = Executor::new(Arc::new(provider)).clock(clock.clone());
    let job = |name: &str, schedule| {
        let config = LockConfig::new(name).lock_at_most_for("10m");
        Job::new(config, schedule, |_run| async { Ok::<_, String>(()) })
    };
    let hourly = job("hourly", Schedule::every("1h"));
    let handle = Scheduler::new(executor.journal(&writer))
        .clock(clock.clone())
        .job(hourly.late(LatePolicy::Within(Duration::from_secs(300))))
        .job(job("loop", Schedule::fixed_delay("1m")))
        .start()
        .unwrap();
    assert_eq!(writer.flush(Duration::from_secs(5)).await, 0);
    let hourly = journal.job("hourly").await.unwrap().unwrap();
    assert_eq!(hourly.schedule.as_deref(), Some("every 1h"));
    assert_eq!(hourly.lock_at_most_for, Some(Duration::from_secs(600)));
    assert_eq!(hourly.next_slot, Slot::at(start + hour).ok());
    assert_eq!(
        hourly.deadline,
        Some(start + hour + Duration::from_secs(900))
    );
    assert!(!hourly.is_overdue(start + hour));
    // Without slots there is nothing that could be missed.
    assert_eq!(journal.job("loop").await.unwrap(), None);
    drop(handle);
}

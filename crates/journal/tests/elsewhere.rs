//! A job that ShedLock for Java runs too: what the journal says about its slots.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{
    Clock as _, Executor, JobRecord, JobRegistration, Journal as _, JournalEntry, Level,
    LockConfig, LockName, LockProvider as _, LockState, ManualClock, Outcome, Slot,
};
use shedlock_journal::view::{JobState, current_jobs, journal_findings, taken_locks};

use shedlock_journal::{JournalSettings, JournalWriter, MemoryJournal, MissedSlots, missed_slots};
use shedlock_provider::MemoryProvider;

const PERIOD: u64 = 600;
const ALLOWANCE: u64 = 120;
const DAY: u64 = 86_400;

fn at(second: u64) -> SystemTime {
    // The first slot is a multiple of the period.
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + second)
}

fn next(_: &JobRecord, after: SystemTime) -> Option<SystemTime> {
    let since = after.duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(UNIX_EPOCH + Duration::from_secs((since / PERIOD + 1) * PERIOD))
}

/// One replica of ours beside one of Java's.
struct Fleet {
    clock: Arc<ManualClock>,
    provider: Arc<MemoryProvider>,
    journal: Arc<MemoryJournal>,
    writer: JournalWriter,
    executor: Executor,
    name: LockName,
}

impl Fleet {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::starting_at(at(0) - Duration::from_secs(1)));
        let provider = Arc::new(MemoryProvider::with_clock(clock.clone()));
        let journal = Arc::new(MemoryJournal::with_clock(clock.clone()));
        let settings = JournalSettings::new().clock(clock.clone());
        let writer = JournalWriter::with_settings(journal.clone(), settings);
        let executor = Executor::new(provider.clone()).clock(clock.clone());
        let fleet = Self {
            executor: executor.journal(&writer),
            name: LockName::new("mail").unwrap(),
            clock,
            provider,
            journal,
            writer,
        };
        let registration = JobRegistration::new("mail", "every 10m", |after| {
            next(&JobRecord::new("mail", after), after)
        });
        let registration = registration.allowance(Duration::from_secs(ALLOWANCE));
        fleet.writer.register(registration);
        fleet.flush().await;
        fleet
    }

    async fn flush(&self) {
        assert_eq!(self.writer.flush(Duration::from_secs(5)).await, 0);
    }

    fn now(&self) -> SystemTime {
        self.clock.system_time()
    }

    fn go_to(&self, second: u64) {
        let left = at(second).duration_since(self.now()).unwrap();
        self.clock.advance(left);
    }

    /// Java acquires the lock at this second by its own clock, for this long.
    fn java_takes(&self, second: u64, lasts: u64) {
        let (from, until) = (at(second), at(second + lasts));
        self.provider
            .write_as_shedlock(&self.name, "web-2", from, until);
    }

    /// Our attempt at a slot. Returns whether it ran.
    async fn attempt(&self, slot: u64) -> bool {
        let config = LockConfig::new("mail").lock_at_most_for("5m");
        let config = config.slot(Slot::at(at(slot)).unwrap());
        let outcome = self.executor.execute(&config, async {}).await.unwrap();
        self.flush().await;
        matches!(outcome, Outcome::Executed { .. })
    }

    async fn job(&self) -> JobRecord {
        self.journal.job("mail").await.unwrap().unwrap()
    }

    async fn state(&self) -> JobState {
        let locks = taken_locks(&*self.provider).await.unwrap();
        let now = self.now();
        let jobs = vec![self.job().await];
        let current = current_jobs(&*self.provider, &*self.journal, jobs, &locks, now, next);
        current.await.unwrap()[0].state(now)
    }

    async fn missed(&self) -> MissedSlots {
        let job = self.job().await;
        let missed = missed_slots(&*self.journal, &job, self.now(), next).await;
        missed.unwrap().unwrap()
    }

    async fn warns(&self) -> bool {
        let findings =
            journal_findings(&*self.provider, &*self.journal, false, false, self.now()).await;
        let found = findings.iter().find(|it| it.check == "unverified");
        found.unwrap().level == Level::Warning
    }
}

#[tokio::test]
async fn a_job_that_java_runs_at_every_tick_is_unverified_and_never_overdue() {
    let fleet = Fleet::new().await;
    for (number, slot) in (0..DAY).step_by(PERIOD as usize).enumerate() {
        fleet.go_to(slot + 1);
        // Its task ends, and lockAtLeastFor keeps the lock.
        fleet.java_takes(slot, 540);
        assert_ne!(fleet.state().await, JobState::Overdue, "{slot}");
        fleet.go_to(slot + 2);
        assert!(!fleet.attempt(slot).await, "{slot}");
        // A second replica finds the same.
        assert!(!fleet.attempt(slot).await, "{slot}");
        for second in [3, ALLOWANCE + 1, 541, PERIOD] {
            fleet.go_to(slot + second);
            assert_eq!(fleet.state().await, JobState::Unverified, "{slot}+{second}");
        }
        let taken = fleet.job().await.elsewhere.unwrap();
        assert_eq!(taken.slots as usize, number + 1);
        assert_eq!(fleet.warns().await, number >= 2, "{slot}");
    }
    let job = fleet.job().await;
    assert_eq!((job.last_succeeded, job.last_failed), (None, None));
    let taken = job.elsewhere.unwrap();
    assert_eq!(
        (taken.by.as_deref(), taken.at),
        (Some("web-2"), at(DAY - PERIOD))
    );
    let missed = fleet.missed().await;
    assert_eq!((missed.held, missed.not_started, missed.paused), (0, 0, 0));
    // At most those since the job's 100th latest run.
    assert_eq!(missed.elsewhere, 99);

    // An operator declares that Java watches it.
    let entry = JournalEntry::Watched {
        job: "mail".to_owned(),
        elsewhere: true,
    };
    fleet.journal.record(&[entry]).await.unwrap();
    assert!(!fleet.warns().await);
    assert_eq!(fleet.state().await, JobState::Unverified);

    // A run of ours has a known outcome.
    fleet.go_to(DAY + 1);
    assert!(fleet.attempt(DAY).await);
    assert_eq!(fleet.job().await.elsewhere, None);
    assert_eq!(fleet.state().await, JobState::Ok);
}

/// Java took the first slot, and the attempt at it was registered.
async fn taken_once(lasts: u64) -> Fleet {
    let fleet = Fleet::new().await;
    fleet.go_to(1);
    fleet.java_takes(0, lasts);
    assert!(!fleet.attempt(0).await);
    assert_eq!(fleet.state().await, JobState::Unverified);
    fleet
}

#[tokio::test]
async fn a_job_that_neither_runs_any_more_is_overdue() {
    let fleet = taken_once(540).await;
    fleet.go_to(PERIOD + ALLOWANCE);
    assert_eq!(fleet.state().await, JobState::Unverified);
    fleet.go_to(PERIOD + ALLOWANCE + 1);
    assert_eq!(fleet.state().await, JobState::Overdue);
    let missed = fleet.missed().await;
    assert_eq!((missed.elsewhere, missed.not_started), (1, 1));
}

#[tokio::test]
async fn a_lock_that_java_holds_past_its_slot_moves_no_deadline() {
    let fleet = taken_once(DAY).await;
    fleet.go_to(PERIOD + 1);
    assert!(!fleet.attempt(PERIOD).await);
    let record = fleet.provider.inspect(&fleet.name).await.unwrap().unwrap();
    assert_eq!(record.state, LockState::Taken);
    fleet.go_to(PERIOD + ALLOWANCE + 1);
    assert_eq!(fleet.state().await, JobState::Overdue);
    let missed = fleet.missed().await;
    assert_eq!((missed.elsewhere, missed.held), (1, 1));
}

#[tokio::test]
async fn a_clock_of_java_that_is_a_day_ahead_takes_no_slot() {
    let fleet = Fleet::new().await;
    fleet.go_to(1);
    fleet.java_takes(DAY, 540);
    for slot in [0, PERIOD, 2 * PERIOD] {
        fleet.go_to(slot + 1);
        assert!(!fleet.attempt(slot).await);
        assert_eq!(fleet.job().await.elsewhere, None);
    }
    assert_eq!(fleet.state().await, JobState::Overdue);
    assert_eq!(fleet.missed().await.elsewhere, 0);
}

#[tokio::test]
async fn a_slot_that_we_ran_was_not_taken_by_a_later_run_of_java() {
    let fleet = Fleet::new().await;
    fleet.go_to(1);
    assert!(fleet.attempt(0).await);
    fleet.go_to(3);
    fleet.java_takes(2, 60);
    assert!(!fleet.attempt(0).await);
    assert_eq!(fleet.job().await.elsewhere, None);
    fleet.go_to(70);
    assert_eq!(fleet.state().await, JobState::Ok);
}

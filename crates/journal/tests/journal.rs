//! What a journal learns from an executor, and that a journal never harms a run.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../core/tests/common/mod.rs"]
mod common;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Bench, Fault, Logs, bench, secs};
use shedlock_core::{
    Attempt, AuditRecord, AuditRequest, BoxFuture, Clock as _, Error, ErrorKind, Executor,
    HeldLock, JobRecord, JobRegistration, JobsRequest, Journal, JournalEntry, LockConfig,
    ManualClock, Migration, MigrationStep, Release, Retention, RunEnd, RunOutcome, RunRecord,
    RunsRequest, Slot,
};

use shedlock_journal::{ErrorText, JournalSettings, JournalWriter, MemoryJournal};
use shedlock_provider::MemoryProvider;

const FLUSH: Duration = secs(5);

fn config() -> LockConfig {
    LockConfig::new("a").lock_at_most_for("10s")
}

/// A journal that is first passed to this function, and then reached.
#[derive(Debug)]
struct Guarded {
    inner: MemoryJournal,
    state: AtomicU64,
    prunes: AtomicU64,
}

const WELL: u64 = 0;
const SILENT: u64 = 1;
const AWAY: u64 = 2;
const REFUSING: u64 = 3;
const ABSENT: u64 = 4;
/// Refuses what is about the job `refused`, and what comes with it.
const REFUSING_ONE: u64 = 5;

impl Guarded {
    fn new(state: u64) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryJournal::new(),
            state: AtomicU64::new(state),
            prunes: AtomicU64::new(0),
        })
    }

    fn set(&self, state: u64) {
        self.state.store(state, Ordering::SeqCst);
    }

    fn state(&self) -> u64 {
        self.state.load(Ordering::SeqCst)
    }
}

fn is_of_refused(entry: &JournalEntry) -> bool {
    matches!(entry, JournalEntry::Run { run, .. } if run.job == "refused")
}

impl Journal for Guarded {
    fn record<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            match self.state() {
                SILENT => pending().await,
                AWAY => Err(Error::new(
                    ErrorKind::Unavailable,
                    "no route to the journal",
                )),
                REFUSING => Err(Error::new(ErrorKind::InvalidInput, "too long")),
                REFUSING_ONE if entries.iter().any(is_of_refused) => {
                    Err(Error::new(ErrorKind::InvalidInput, "too long"))
                }
                _ => self.inner.record(entries).await,
            }
        })
    }

    fn job<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Option<JobRecord>, Error>> {
        self.inner.job(job)
    }

    fn jobs<'a>(&'a self, it: &'a JobsRequest) -> BoxFuture<'a, Result<Vec<JobRecord>, Error>> {
        self.inner.jobs(it)
    }

    fn runs<'a>(&'a self, it: &'a RunsRequest) -> BoxFuture<'a, Result<Vec<RunRecord>, Error>> {
        self.inner.runs(it)
    }

    fn audit<'a>(&'a self, it: &'a AuditRequest) -> BoxFuture<'a, Result<Vec<AuditRecord>, Error>> {
        self.inner.audit(it)
    }

    fn prune<'a>(
        &'a self,
        job: &'a str,
        retention: &'a Retention,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        self.prunes.fetch_add(1, Ordering::SeqCst);
        self.inner.prune(job, retention)
    }

    fn forget<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        self.inner.forget(job)
    }

    fn version(&self) -> BoxFuture<'_, Result<Option<u32>, Error>> {
        Box::pin(async move {
            match self.state() {
                ABSENT => Ok(None),
                SILENT => pending().await,
                _ => self.inner.version().await,
            }
        })
    }

    fn identity(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        self.inner.identity()
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        self.inner.migrate()
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>> {
        self.inner.plan_migration()
    }
}

async fn runs(journal: &impl Journal) -> Vec<RunRecord> {
    journal.runs(&RunsRequest::new()).await.unwrap()
}

fn outcomes(runs: &[RunRecord]) -> Vec<Option<RunOutcome>> {
    let outcome = |run: &RunRecord| run.end.as_ref().map(|end| end.outcome);
    runs.iter().map(outcome).collect()
}

#[tokio::test]
async fn runs_are_recorded_with_their_ends() {
    let bench = bench();
    let journal = Arc::new(MemoryJournal::new());
    let writer = JournalWriter::new(journal.clone());
    let executor = bench.executor.clone().journal(&writer);
    let at = bench.clock.system_time();
    let slot = Slot::at(at).unwrap();
    let config = config().slot(slot).job("a of {tenant}");
    let clock = bench.clock.clone();
    let task = async move { clock.advance(secs(3)) };
    assert!(executor.execute(&config, task).await.unwrap().is_executed());
    bench.clock.advance(secs(1));
    // The second run is inside the first, so it is no run of its own.
    let config = self::config();
    let inner = executor.clone();
    let outer = executor.execute(&config, async {
        let nested = self::config();
        inner.execute(&nested, async {}).await.unwrap()
    });
    assert!(outer.await.unwrap().is_executed());
    assert_eq!(writer.flush(FLUSH).await, 0);
    let runs = runs(&*journal).await;
    assert_eq!(runs.len(), 2);
    assert_eq!((&*runs[0].job, runs[0].slot), ("a", None));
    assert_eq!((&*runs[1].job, runs[1].slot), ("a of {tenant}", Some(slot)));
    assert_eq!((&*runs[1].name, runs[1].started), ("a", at));
    assert_eq!(
        runs[1].end,
        Some(RunEnd::new(secs(3), RunOutcome::Succeeded, None))
    );
    let job = journal.job("a of {tenant}").await.unwrap().unwrap();
    assert_eq!(job.last_run.as_ref().map(|run| run.started), Some(at));
    assert_eq!(job.last_succeeded, Some(at + secs(3)));
    assert_eq!(job.last_duration, Some(secs(3)));
    assert_eq!(
        job.last_run.and_then(|run| run.outcome),
        Some(RunOutcome::Succeeded)
    );
    assert_eq!(job.deadline, None);
}

#[tokio::test]
async fn a_run_in_progress_is_an_open_row() {
    let config = config();
    let journal = Arc::new(MemoryJournal::new());
    let writer = JournalWriter::new(journal.clone());
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    let run = executor.execute(&config, async {
        assert_eq!(writer.flush(FLUSH).await, 0);
        let open = journal.runs(&RunsRequest::new().open_only()).await.unwrap();
        assert_eq!(outcomes(&open), [None]);
    });
    assert!(run.await.unwrap().is_executed());
    assert_eq!(writer.flush(FLUSH).await, 0);
    let open = journal.runs(&RunsRequest::new().open_only()).await.unwrap();
    assert_eq!(open, []);
    assert_eq!(
        outcomes(&runs(&*journal).await),
        [Some(RunOutcome::Succeeded)]
    );
}

#[tokio::test]
async fn errors_are_recorded_without_passwords_and_cut() {
    let long = format!("postgres://app:geheim@db/app: {}", "ä".repeat(2_000));
    let cases = [
        (ErrorText::Full, Some("postgres://app:***@db/app: ää")),
        (ErrorText::Kind, Some("postgres")),
        (ErrorText::None, None),
    ];
    for (errors, expected) in cases {
        let journal = Arc::new(MemoryJournal::new());
        let settings = JournalSettings::new().errors(errors);
        let writer = JournalWriter::with_settings(journal.clone(), settings);
        let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
        let config = config();
        let failing = executor.try_execute(&config, async { Err::<(), _>(long.clone()) });
        let outcome = failing.await.unwrap();
        assert!(outcome.is_executed());
        writer.flush(FLUSH).await;
        let end = runs(&*journal).await.remove(0).end.unwrap();
        assert_eq!(end.outcome, RunOutcome::Failed);
        assert_eq!(end.error.is_some(), expected.is_some(), "{errors:?}");
        let (error, expected) = (end.error.unwrap_or_default(), expected.unwrap_or_default());
        assert!(error.starts_with(expected), "{errors:?}: {error}");
        assert!(error.len() <= RunEnd::LONGEST_ERROR && !error.contains("geheim"));
        // What the journal keeps for longer than the run.
        let job = journal.job("a").await.unwrap().unwrap();
        assert_eq!(job.last_error.is_some(), !error.is_empty(), "{errors:?}");
        let (executor, text) = (executor.clone(), long.clone());
        let panicking = async move {
            let task = async { assert!(text.is_empty(), "{text}") };
            executor.execute(&self::config(), task).await
        };
        let panicked = tokio::spawn(panicking).await;
        assert!(panicked.is_err_and(|error| error.is_panic()));
        writer.flush(FLUSH).await;
        // Both runs may have started in the same millisecond.
        let mut ends = runs(&*journal).await.into_iter().filter_map(|run| run.end);
        let panicked = |end: &RunEnd| end.outcome == RunOutcome::Panicked;
        let end = ends.find(panicked).unwrap();
        let kept = format!("{:?}", (&*journal, &job, end));
        assert!(!kept.contains("geheim"), "{errors:?}: {kept}");
        assert_eq!(kept.contains("ää"), errors == ErrorText::Full, "{errors:?}");
    }
}

/// However a task reports its failure, and whatever an operator or a store reports.
#[tokio::test]
async fn no_text_reaches_the_journal_with_a_password() {
    const TEXT: &str = "cannot reach postgres://app:geheim@db/app";
    for (errors, has_text) in [(ErrorText::Full, true), (ErrorText::None, false)] {
        let bench = bench();
        let journal = Arc::new(MemoryJournal::new());
        let settings = JournalSettings::new().errors(errors);
        let writer = JournalWriter::with_settings(journal.clone(), settings);
        let executor = bench.executor.clone().journal(&writer);
        let task = async {
            shedlock_core::current_lock().unwrap().fail_with(TEXT);
        };
        assert!(
            executor
                .execute(&config(), task)
                .await
                .unwrap()
                .is_executed()
        );
        let shedlock_core::Attempt::Acquired(held) = executor.lock(&config()).await.unwrap() else {
            panic!("it is free")
        };
        held.fail_with(Error::new(ErrorKind::Internal, TEXT)).await;
        // A blocking task panics with a text that it has computed.
        let text = TEXT.to_owned();
        let task = move || assert!(text.is_empty(), "{text}");
        let panicking = async move { executor.execute_blocking(&config(), task).await };
        assert!(tokio::spawn(panicking).await.is_err_and(|it| it.is_panic()));
        let actor = shedlock_core::Actor::Claimed("ann@web-1".to_owned());
        let mut record = AuditRecord::new(UNIX_EPOCH, 7, actor, "pause", "a");
        TEXT.clone_into(&mut record.detail);
        record.reason = Some(TEXT.to_owned());
        writer.audit(record);
        assert_eq!(writer.flush(FLUSH).await, 0);

        let runs = runs(&*journal).await;
        assert_eq!(runs.len(), 3);
        for run in &runs {
            let end = run.end.as_ref().unwrap();
            assert!(end.outcome.is_failure(), "{run:?}");
            assert_eq!(end.error.is_some(), has_text, "{run:?}");
        }
        let kept = format!("{journal:?} {runs:?}");
        assert!(!kept.contains("geheim"), "{errors:?}: {kept}");
        let audit = journal.audit(&AuditRequest::new()).await.unwrap();
        assert_eq!(
            audit[0].reason.as_deref(),
            Some("cannot reach postgres://app:***@db/app")
        );
    }
}

/// A lock that is held over a store that fails on command, and the journal of its executor.
async fn held() -> (Bench, Arc<MemoryJournal>, JournalWriter, HeldLock) {
    let bench = bench();
    let journal = Arc::new(MemoryJournal::new());
    let writer = JournalWriter::new(journal.clone());
    let executor = bench.executor.clone().journal(&writer);
    let Attempt::Acquired(lock) = executor.lock(&config()).await.unwrap() else {
        panic!("it is free")
    };
    (bench, journal, writer, lock)
}

#[tokio::test]
async fn a_run_whose_unlock_finds_the_lease_lost_is_no_success() {
    let (bench, journal, writer, lock) = held().await;
    // The store loses the record while the task runs: only the unlock notices.
    bench.faulty.store.clear();
    // What the end of the task wrote has reached the journal by then.
    bench.faulty.next([Fault::Slow]);
    lock.unlock().await;
    assert_eq!(writer.flush(FLUSH).await, 0);
    let runs = runs(&*journal).await;
    assert_eq!(outcomes(&runs), [Some(RunOutcome::Lost)]);
    let jobs = journal.jobs(&JobsRequest::new()).await.unwrap();
    let (last, succeeded) = (
        jobs[0].last_run.as_ref().and_then(|run| run.outcome),
        jobs[0].last_succeeded,
    );
    assert_eq!((last, succeeded), (Some(RunOutcome::Lost), None));
}

#[tokio::test]
async fn a_success_is_recorded_although_its_unlock_failed() {
    let (bench, journal, writer, lock) = held().await;
    // The lease has ended when the request turns out to be lost.
    bench.clock.advance(secs(3));
    bench.faulty.next([Fault::StoppedThenLost]);
    let release = lock.unlock().await;
    assert!(matches!(release, Release::Failed(_)), "{release:?}");
    assert_eq!(writer.flush(FLUSH).await, 0);
    let runs = runs(&*journal).await;
    assert_eq!(outcomes(&runs), [Some(RunOutcome::Succeeded)]);
}

#[tokio::test]
async fn a_flush_records_a_success_whose_unlock_goes_on() {
    let (bench, journal, writer, lock) = held().await;
    // The caller gives up, and the unlock that goes on in the background hangs too.
    bench.faulty.next([Fault::Hang; 2]);
    tokio::select! {
        biased;
        _ = lock.unlock() => panic!("it hangs"),
        () = tokio::task::yield_now() => {}
    }
    tokio::task::yield_now().await;
    assert_eq!(writer.flush(FLUSH).await, 0);
    let runs = runs(&*journal).await;
    assert_eq!(outcomes(&runs), [Some(RunOutcome::Succeeded)]);
}

#[tokio::test]
async fn a_journal_that_never_replies_delays_no_run_and_its_entries_are_counted() {
    let config = config();
    let journal = Guarded::new(SILENT);
    // The clock stands still, so nothing here can end by a time limit.
    let clock = Arc::new(ManualClock::new());
    let settings = JournalSettings::new().queue(10).clock(clock);
    let writer = JournalWriter::with_settings(journal.clone(), settings);
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    for _ in 0..100 {
        let run = executor.execute(&config, tokio::task::yield_now());
        assert!(run.await.unwrap().is_executed());
    }
    assert!(writer.dropped() > 0, "{writer:?}");
    assert_eq!(runs(&*journal).await, []);
}

/// As many as start at once, or go on after an outage.
#[tokio::test]
async fn a_fleet_of_many_jobs_drops_nothing_when_all_of_them_start() {
    const JOBS: usize = 3_000;
    let journal = Guarded::new(WELL);
    let writer = JournalWriter::new(journal.clone());
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    for nth in 0..JOBS {
        let next = |after| Some(after + secs(60));
        writer.register(JobRegistration::new(format!("a{nth}"), "every 1m", next));
    }
    for nth in 0..JOBS {
        let config = LockConfig::new(format!("a{nth}")).lock_at_most_for(secs(60));
        assert!(
            executor
                .execute(&config, async {})
                .await
                .unwrap()
                .is_executed()
        );
    }
    assert_eq!(writer.dropped(), 0);
    assert_eq!(writer.flush(FLUSH).await, 0);
    let last = journal.job("a2999").await.unwrap().unwrap();
    let ended = last.last_run.and_then(|run| run.outcome);
    assert_eq!(ended, Some(RunOutcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn what_a_journal_missed_while_it_was_away_is_written_later_in_order() {
    let config = config();
    let journal = Guarded::new(AWAY);
    let writer = JournalWriter::new(journal.clone());
    let clock = Arc::new(ManualClock::new());
    let provider = MemoryProvider::with_clock(clock.clone());
    let executor = Executor::new(Arc::new(provider)).journal(&writer);
    for fails in [false, true, false] {
        let task = async move { if fails { Err("no mail") } else { Ok(()) } };
        let run = executor.try_execute(&config, task).await.unwrap();
        assert!(run.is_executed());
        clock.advance(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(writer.flush(Duration::from_millis(1)).await, 3);
    journal.set(WELL);
    assert_eq!(writer.flush(FLUSH).await, 0);
    let job = journal.job("a").await.unwrap().unwrap();
    assert_eq!(
        job.last_run.and_then(|run| run.outcome),
        Some(RunOutcome::Succeeded)
    );
    assert_eq!(job.last_error.as_deref(), Some("no mail"));
    assert_eq!(runs(&*journal).await.len(), 3);
    assert_eq!(writer.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_the_journal_refuses_does_not_hold_up_the_next() {
    let config = config();
    let journal = Guarded::new(REFUSING);
    let writer = JournalWriter::new(journal.clone());
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    assert!(
        executor
            .execute(&config, async {})
            .await
            .unwrap()
            .is_executed()
    );
    assert_eq!(writer.flush(secs(60)).await, 0);
    assert_eq!(writer.dropped(), 1);
    journal.set(WELL);
    assert!(
        executor
            .execute(&config, async {})
            .await
            .unwrap()
            .is_executed()
    );
    assert_eq!(writer.flush(FLUSH).await, 0);
    assert_eq!(runs(&*journal).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_the_journal_refuses_is_dropped_without_those_that_wait_with_it() {
    let journal = Guarded::new(AWAY);
    let writer = JournalWriter::new(journal.clone());
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    let run = async |name: &'static str| {
        let config = LockConfig::new(name).lock_at_most_for("1m");
        let run = executor.execute(&config, async {}).await;
        assert!(run.unwrap().is_executed());
    };
    for name in ["a", "b", "refused", "c", "refused", "d"] {
        run(name).await;
    }
    journal.set(REFUSING_ONE);
    assert_eq!(writer.flush(secs(600)).await, 0);
    assert_eq!(writer.dropped(), 2);
    let recorded = runs(&*journal).await;
    let mut jobs: Vec<_> = recorded.iter().map(|run| &*run.job).collect();
    jobs.sort_unstable();
    assert_eq!(jobs, ["a", "b", "c", "d"]);

    // Entries are written together again.
    run("e").await;
    assert_eq!(writer.flush(FLUSH).await, 0);
    assert_eq!(writer.dropped(), 2);
    assert_eq!(runs(&*journal).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn without_a_journal_nothing_waits_if_none_is_required() {
    let config = config();
    let journal = Guarded::new(ABSENT);
    let settings = JournalSettings::new().optional();
    let writer = JournalWriter::with_settings(journal.clone(), settings);
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    assert!(
        executor
            .execute(&config, async {})
            .await
            .unwrap()
            .is_executed()
    );
    assert_eq!(writer.flush(FLUSH).await, 0);
    assert_eq!((writer.dropped(), runs(&*journal).await.len()), (0, 0));
    // If one is required, its entries wait for `shedlock migrate`.
    let writer = JournalWriter::new(journal.clone());
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    assert!(
        executor
            .execute(&config, async {})
            .await
            .unwrap()
            .is_executed()
    );
    assert_eq!(writer.flush(Duration::from_millis(1)).await, 1);
    journal.set(WELL);
    assert_eq!(writer.flush(FLUSH).await, 0);
    assert_eq!(runs(&*journal).await.len(), 1);
}

/// A job of every minute, which may be late and run for 20 s together.
fn minutely(schedule: &str) -> JobRegistration {
    JobRegistration::new("a", schedule, |after| {
        let since = after.duration_since(UNIX_EPOCH).ok()?.as_secs();
        Some(UNIX_EPOCH + secs((since / 60 + 1) * 60))
    })
    .allowance(secs(20))
}

fn minute(minute: u64, second: u64) -> SystemTime {
    UNIX_EPOCH + secs(60 * minute + second)
}

#[tokio::test]
async fn only_a_success_moves_the_deadline() {
    let config = config();
    let clock = Arc::new(ManualClock::starting_at(minute(10, 30)));
    let journal = Arc::new(MemoryJournal::with_clock(clock.clone()));
    let provider = Arc::new(MemoryProvider::with_clock(clock.clone()));
    // Each deployment is a new writer.
    let deployed = || {
        let settings = JournalSettings::new().clock(clock.clone());
        JournalWriter::with_settings(journal.clone(), settings)
    };
    let job = async || journal.job("a").await.unwrap().unwrap();

    let writer = deployed();
    writer.register(minutely("every 1m"));
    assert_eq!(writer.flush(FLUSH).await, 0);
    assert_eq!(job().await.deadline, Some(minute(11, 20)));
    assert_eq!(job().await.last_run, None);

    // It fails, and is deployed again.
    clock.advance(secs(60));
    let executor = Executor::new(provider.clone()).clock(clock.clone());
    let executor = executor.journal(&writer);
    let failing = executor.try_execute(&config, async { Err::<(), _>("no mail") });
    failing.await.map(drop).unwrap();
    writer.flush(FLUSH).await;
    clock.advance(secs(60));
    let writer = deployed();
    writer.register(minutely("every 1m"));
    writer.flush(FLUSH).await;
    assert_eq!(job().await.deadline, Some(minute(11, 20)));
    assert!(job().await.is_overdue(clock.system_time()));

    // It succeeds, for the slot of minute 12.
    let executor = Executor::new(provider)
        .clock(clock.clone())
        .journal(&writer);
    let slot = Slot::at(minute(12, 0)).unwrap();
    let run = executor.execute(&config.clone().slot(slot), async {}).await;
    assert!(run.unwrap().is_executed());
    writer.flush(FLUSH).await;
    assert_eq!(job().await.deadline, Some(minute(13, 20)));
    assert_eq!(job().await.next_slot, Slot::at(minute(13, 0)).ok());

    // A replica starts that has not heard of it, and one that knows from the lock's record of a
    // later success.
    let writer = deployed();
    writer.register(minutely("every 1m"));
    writer.flush(FLUSH).await;
    assert_eq!(job().await.deadline, Some(minute(13, 20)));
    writer.register(minutely("every 1m").done(Slot::at(minute(20, 0)).ok()));
    writer.flush(FLUSH).await;
    assert_eq!(job().await.deadline, Some(minute(21, 20)));

    // Another schedule counts from its registration.
    clock.advance(secs(600));
    writer.register(minutely("0 * * * * *"));
    writer.flush(FLUSH).await;
    assert_eq!(job().await.deadline, Some(minute(23, 20)));
    assert_eq!(job().await.schedule.as_deref(), Some("0 * * * * *"));
}

#[tokio::test]
async fn a_job_of_another_scheduler_has_a_deadline_from_its_first_run_on() {
    let clock = Arc::new(ManualClock::starting_at(minute(10, 0)));
    let journal = Arc::new(MemoryJournal::with_clock(clock.clone()));
    let provider = Arc::new(MemoryProvider::with_clock(clock.clone()));
    let settings = JournalSettings::new().clock(clock.clone());
    let writer = JournalWriter::with_settings(journal.clone(), settings);
    let executor = Executor::new(provider).clock(clock.clone());
    let executor = executor.journal(&writer);
    let job = async || {
        writer.flush(FLUSH).await;
        journal.job("expire-{tenant}").await.unwrap().unwrap()
    };
    let config = |name: &str| {
        let config = LockConfig::new(name).job("expire-{tenant}");
        config.lock_at_most_for("2m").expect_every("1h")
    };

    // The first run fails.
    let failing = async { Err::<(), _>("no mail") };
    let failed = executor.try_execute(&config("expire-a"), failing).await;
    assert!(failed.unwrap().is_executed());
    let registered = job().await;
    assert_eq!(registered.schedule.as_deref(), Some("expected every 1h"));
    assert_eq!(registered.lock_at_most_for, Some(secs(120)));
    assert_eq!(registered.deadline, Some(minute(72, 0)));
    clock.advance(secs(3_600));
    let run = executor.execute(&config("expire-b"), async {}).await;
    assert!(run.unwrap().is_executed());
    assert_eq!(job().await.deadline, Some(minute(132, 0)));

    let zero = config("expire-a").expect_every("0s");
    let refused = executor.execute(&zero, async {}).await.unwrap_err();
    assert_eq!(refused.kind(), shedlock_core::ErrorKind::InvalidInput);

    // A job with a schedule keeps it.
    writer.register(minutely("every 1m"));
    let scheduled = LockConfig::new("a").lock_at_most_for("2m");
    let scheduled = scheduled.expect_every("1h");
    let run = executor.execute(&scheduled, async {}).await;
    assert!(run.unwrap().is_executed());
    writer.flush(FLUSH).await;
    let kept = journal.job("a").await.unwrap().unwrap();
    assert_eq!(kept.schedule.as_deref(), Some("every 1m"));
}

/// Looking for old runs costs as much as writing one.
#[tokio::test(start_paused = true)]
async fn old_runs_are_looked_for_after_few_of_the_runs() {
    for (kept, all) in [(1_000, false), (10, true)] {
        let journal = Guarded::new(WELL);
        let settings = JournalSettings::new().runs_per_job(kept);
        let writer = JournalWriter::with_settings(journal.clone(), settings);
        let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
        for _ in 0..640 {
            let run = executor.execute(&config(), async {}).await.unwrap();
            assert!(run.is_executed());
            assert_eq!(writer.flush(FLUSH).await, 0);
        }
        let prunes = journal.prunes.load(Ordering::SeqCst);
        if all {
            assert!(prunes >= 640, "{prunes}");
            assert!(runs(&*journal).await.len() <= 11);
        } else {
            assert!((2..80).contains(&prunes), "{prunes}");
        }
    }
}

/// Such as a process with a job a day.
#[tokio::test]
async fn a_process_with_few_runs_looks_for_old_ones_too() {
    const DAYS: u64 = 40;
    let journal = Guarded::new(WELL);
    let clock = Arc::new(ManualClock::new());
    let settings = JournalSettings::new().clock(clock.clone());
    let writer = JournalWriter::with_settings(journal.clone(), settings);
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    for day in 0..DAYS {
        let run = executor.execute(&config(), async {}).await.unwrap();
        assert!(run.is_executed());
        while runs(&*journal).await.len() as u64 <= day {
            tokio::task::yield_now().await;
        }
        clock.advance(secs(86_400));
    }
    let prunes = journal.prunes.load(Ordering::SeqCst);
    assert!(prunes >= DAYS - 2, "{prunes}");
}

#[tokio::test(start_paused = true)]
async fn dropped_entries_are_reported_again_after_the_journal_has_kept_up() {
    let (logs, _guard) = Logs::of_thread();
    let count = || logs.text().matches("does not keep up").count();
    let journal = Guarded::new(AWAY);
    let settings = JournalSettings::new().queue(4);
    let writer = JournalWriter::with_settings(journal.clone(), settings);
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    for round in 1..=2 {
        journal.set(AWAY);
        for _ in 0..10 {
            let run = executor.execute(&config(), async {}).await.unwrap();
            assert!(run.is_executed());
            tokio::task::yield_now().await;
        }
        assert_eq!(count(), round);
        journal.set(WELL);
        assert_eq!(writer.flush(secs(60)).await, 0);
    }
}

//! `#[scheduled]` with `#[scheduler_lock]`: what the job does when it is due.

#![cfg(all(feature = "macros", feature = "scheduler"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use shedlock::scheduler::{Handle, Job, JobRun, Observer, Scheduler, Tick, Trigger};
use shedlock::{
    Clock, ErrorKind, Event, Executor, Listener, LockName, LockState, ManualClock, MemoryProvider,
    Slot, current_lock, scheduled, scheduler_lock, with_executor,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Seen = UnboundedSender<(Option<Slot>, Option<Slot>, String)>;

#[scheduled(every = "10m")]
#[scheduler_lock(name = "report-{tenant}", lock_at_most_for = "9m")]
async fn report(tenant: String, seen: Seen, run: JobRun) -> Result<(), shedlock::Error> {
    let lock = current_lock().unwrap();
    seen.send((run.slot(), lock.slot(), format!("{tenant} {}", lock.name())))
        .unwrap();
    Ok(())
}

#[scheduler_lock(name = "blocking", lock_at_most_for = "9m")]
#[scheduled(every = "10m", anchor = "2027-01-16T00:05:00Z", run_at_start)]
fn blocking(seen: Seen, run: JobRun) {
    let lock = current_lock().unwrap();
    seen.send((run.slot(), lock.slot(), run.trigger().to_string()))
        .unwrap();
}

#[scheduled(fixed_delay = "10s")]
#[scheduler_lock(name = "fails", lock_at_most_for = "9m")]
async fn fails() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Err("no paper".into())
}

#[scheduled(cron = CRON, zone = "Mars/".to_owned() + "Olympus")]
#[scheduler_lock(name = "wrong", lock_at_most_for = "9m")]
async fn wrong() {}

const CRON: &str = "* * * * *";

type Attempts = UnboundedSender<u32>;

#[scheduled(every = "10m", must_not_be_lost, max_attempts = 3, backoff = "1m")]
#[scheduler_lock(name = "kept", lock_at_most_for = "9m")]
async fn kept(attempts: Attempts, run: JobRun) -> Result<(), shedlock::Error> {
    attempts.send(run.slot_attempt().unwrap()).unwrap();
    match run.slot_attempt() {
        Some(3) => Ok(()),
        _ => Err(no_mail_server()),
    }
}

#[scheduled(every = "10m", must_not_be_lost = true, backoff = Duration::from_secs(60))]
#[scheduler_lock(name = "kept", lock_at_most_for = "9m")]
fn kept_blocking(attempts: Attempts, run: JobRun) -> Result<(), shedlock::Error> {
    attempts.send(run.slot_attempt().unwrap()).unwrap();
    match run.slot_attempt() {
        Some(3) => Ok(()),
        _ => Err(no_mail_server()),
    }
}

fn no_mail_server() -> shedlock::Error {
    shedlock::Error::new(ErrorKind::Unavailable, "no mail server")
}

/// The lint is expected once, and allowed in all code of the expansion.
#[scheduled(every = "10m")]
#[scheduler_lock(name = "wide", lock_at_most_for = "9m")]
#[expect(clippy::too_many_arguments, reason = "that is the test")]
async fn wide(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, seen: UnboundedSender<u8>) {
    seen.send(a + b + c + d + e + f + g).unwrap();
}

#[derive(Debug, Default)]
struct Ears {
    starts: AtomicU32,
    attempts: AtomicU32,
    ends: Mutex<Vec<String>>,
}

impl Listener for Ears {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::TaskStarted { .. } => self.starts.fetch_add(1, Ordering::Relaxed),
            Event::Attempt { .. } => self.attempts.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

impl Observer for Ears {
    fn on_tick(&self, tick: &Tick<'_>) {
        self.ends.lock().unwrap().push(tick.end.to_string());
    }
}

/// A scheduler on a clock that only the test moves.
struct Bench {
    clock: ManualClock,
    ears: Arc<Ears>,
    executor: Executor,
}

impl Bench {
    fn new() -> Self {
        let clock = ManualClock::new();
        // The clock starts at a full hour, which is a slot: move away from it.
        clock.advance(Duration::from_secs(1));
        let ears = Arc::new(Ears::default());
        let provider = MemoryProvider::with_clock(Arc::new(clock.clone()));
        let executor = Executor::new(Arc::new(provider))
            .clock(Arc::new(clock.clone()))
            .listener(ears.clone());
        Self {
            clock,
            ears,
            executor,
        }
    }

    fn start(&self, job: Job) -> Handle {
        Scheduler::new(self.executor.clone())
            .clock(Arc::new(self.clock.clone()))
            .observer(self.ears.clone())
            .job(job)
            .start()
            .unwrap()
    }

    /// Returns the next point of a ten-minute grid that contains this second of the hour, and how far
    /// ahead it is.
    fn next(&self, offset: u64) -> (SystemTime, Duration) {
        let now = self.clock.system_time();
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let period = Duration::from_secs(600).as_micros();
        let offset = Duration::from_secs(offset).as_micros();
        let ahead = period - (since.as_micros() + period - offset) % period;
        let ahead = Duration::from_micros(u64::try_from(ahead).unwrap());
        (now + ahead, ahead)
    }
}

#[tokio::test]
async fn a_job_takes_its_arguments_its_name_and_its_slot() {
    let bench = Bench::new();
    let (seen, mut told) = unbounded_channel();
    let handle = bench.start(report::job("acme".to_owned(), seen));
    let (due, ahead) = bench.next(0);
    // The scheduler plans the tick before its time comes.
    assert_eq!(handle.jobs().await.unwrap()[0].name, "report-acme");
    bench.clock.advance(ahead + Duration::from_secs(2));
    let slot = Some(Slot::at(due).unwrap());
    let said = told.recv().await.unwrap();
    assert_eq!(said, (slot, slot, "acme report-acme".to_owned()));
    handle.shutdown(Duration::from_secs(60)).await.unwrap();
    // One attempt and one task: the attribute's lock is the job's lock, not a second one inside it.
    assert_eq!(bench.ears.attempts.load(Ordering::Relaxed), 1);
    assert_eq!(bench.ears.starts.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_same_function_by_hand_is_locked_and_has_no_slot() {
    let bench = Bench::new();
    let (seen, mut told) = unbounded_channel();
    let call = || {
        let run = JobRun::at(bench.clock.system_time(), "by hand");
        let call = report("acme".to_owned(), seen.clone(), run);
        with_executor(bench.executor.clone(), call)
    };
    call().await.unwrap();
    let said = told.recv().await.unwrap();
    assert_eq!(said, (None, None, "acme report-acme".to_owned()));

    let held = shedlock::LockConfig::new("report-acme").lock_at_most_for("1m");
    let held = bench.executor.lock(&held).await.unwrap();
    call().await.unwrap();
    assert!(told.try_recv().is_err(), "a held lock skips");
    drop(held);
}

#[tokio::test]
async fn a_blocking_function_is_a_job_too() {
    let bench = Bench::new();
    let (seen, mut told) = unbounded_channel();
    let handle = bench.start(blocking::job(seen));
    // At its start the job takes the newest slot that is due, on the grid that contains 00:05.
    let slot = Slot::at(bench.next(300).0 - Duration::from_secs(600)).unwrap();
    let said = told.recv().await.unwrap();
    assert_eq!(said, (Some(slot), Some(slot), Trigger::Start.to_string()));
    handle.shutdown(Duration::from_secs(60)).await.unwrap();
}

#[tokio::test]
async fn a_job_can_have_many_arguments() {
    let bench = Bench::new();
    let (seen, mut told) = unbounded_channel();
    let handle = bench.start(wide::job(1, 2, 3, 4, 5, 6, 7, seen));
    handle.run_now("wide").await.unwrap();
    assert_eq!(told.recv().await, Some(28));
    handle.shutdown(Duration::from_secs(60)).await.unwrap();
}

#[tokio::test]
async fn what_a_function_fails_with_reaches_the_observer() {
    let bench = Bench::new();
    let handle = bench.start(fails::job());
    handle.run_now("fails").await.unwrap();
    // Wait for the run to end.
    while bench.ears.ends.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(*bench.ears.ends.lock().unwrap(), ["failed: no paper"]);
}

#[tokio::test]
async fn an_expression_that_is_wrong_is_refused_at_the_start() {
    let bench = Bench::new();
    let error = Scheduler::new(bench.executor).job(wrong::job()).start();
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("unknown time zone \"Mars/Olympus\""),
        "{error}"
    );
}

/// The job's slot fails with each `Err` and is done with the `Ok`, before the next slot is due.
async fn is_tried_until_it_succeeds(job: impl FnOnce(Attempts) -> Job) {
    let bench = Bench::new();
    let (attempts, mut made) = unbounded_channel();
    let handle = bench.start(job(attempts));
    let (due, ahead) = bench.next(0);
    let slot = Slot::at(due).unwrap();
    assert_eq!(handle.jobs().await.unwrap()[0].name, "kept");
    bench.clock.advance(ahead + Duration::from_secs(2));
    let name = LockName::new("kept").unwrap();
    let provider = bench.executor.provider();
    for attempt in 1..=3 {
        assert_eq!(made.recv().await, Some(attempt));
        // The record contains the run's result once its lock is released.
        let record = loop {
            let record = provider.inspect(&name).await.unwrap().unwrap();
            if record.state != LockState::Held {
                break record;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(record.last_slot, Some(slot));
        if attempt < 3 {
            assert_eq!(record.slot_attempts, Some(attempt));
            assert_eq!(record.state, LockState::AtLeast, "it backs off");
        } else {
            assert_eq!(record.slot_attempts, None);
            assert_eq!(record.last_slot_done, Some(slot));
        }
        // Advance the clock until the next attempt begins.
        while attempt < 3 && made.is_empty() {
            let record = provider.inspect(&name).await.unwrap().unwrap();
            if record.state != LockState::Held {
                bench.clock.advance(Duration::from_secs(1));
            }
            tokio::task::yield_now().await;
        }
    }
    handle.shutdown(Duration::from_secs(60)).await.unwrap();
}

#[tokio::test]
async fn an_err_fails_a_slot_that_must_not_be_lost() {
    is_tried_until_it_succeeds(kept::job).await;
}

#[tokio::test]
async fn an_err_of_a_blocking_function_fails_it_too() {
    is_tried_until_it_succeeds(kept_blocking::job).await;
}

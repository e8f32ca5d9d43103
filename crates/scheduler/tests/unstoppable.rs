//! Faults that must not stop the scheduler or its other jobs: panics, times that no clock can
//! represent, and more ticks than there is time for.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{MIDNIGHT, Node, NodeClock, alone, block_on, every, lock, millis, secs};
use shedlock::MemoryProvider;
use shedlock_core::{BoxFuture, Clock, ErrorKind, Executor, LockConfig, Moment};
use shedlock_scheduler::{Job, Schedule, Scheduler};

/// Real time, since a scheduler that hangs does not advance simulated time.
const HANG: Duration = Duration::from_secs(60);

/// A clock on which each read takes a millisecond.
#[derive(Debug, Default)]
struct Laborious(AtomicU64);

impl Laborious {
    fn look(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl Clock for Laborious {
    fn now(&self) -> Moment {
        Moment::from_origin(self.look())
    }
    fn system_time(&self) -> SystemTime {
        UNIX_EPOCH + secs(MIDNIGHT) + self.look()
    }
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let asleep = moment.saturating_since(self.now());
        self.0.fetch_add(
            u64::try_from(asleep.as_millis()).unwrap(),
            Ordering::Relaxed,
        );
        Box::pin(tokio::task::yield_now())
    }
}

#[test]
fn a_shutdown_is_answered_however_many_jobs_are_due() {
    let (done, answered) = mpsc::channel();
    std::thread::spawn(move || {
        block_on(async {
            let clock = Arc::new(Laborious::default());
            let store = MemoryProvider::with_clock(clock.clone());
            let jobs = (0..500).map(|number| {
                let config = LockConfig::new(format!("job-{number}")).lock_at_most_for("10m");
                Job::new(config, Schedule::every("1ms"), |_| async {
                    Ok::<_, String>(())
                })
            });
            let scheduler = Scheduler::new(Executor::new(Arc::new(store)));
            let handle = scheduler.clock(clock).jobs(jobs).start().unwrap();
            tokio::task::yield_now().await;
            drop(handle.shutdown(secs(3_600)).await.unwrap());
        });
        done.send(()).unwrap();
    });
    assert_eq!(answered.recv_timeout(HANG), Ok(()));
}

#[test]
fn a_delay_that_no_clock_can_hold_is_refused() {
    block_on(async {
        let (_, _, node) = alone();
        let job = Job::new(
            lock("10m"),
            Schedule::fixed_delay(Duration::MAX),
            |_| async { Ok::<_, String>(()) },
        );
        let refused = node.scheduler([job]).start().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("100 years"), "{refused}");
    });
}

#[test]
fn no_duration_is_too_long_for_the_driver() {
    block_on(async {
        let (world, log, node) = alone();
        let fixed = LockConfig::new("fixed").lock_at_most_for("10m");
        let fixed = node.job(fixed, Schedule::fixed_delay("36500d").unwrap(), secs(1));
        let late = LockConfig::new("late").lock_at_most_for("10m");
        let late = node
            .job(late, every(60), secs(1))
            .initial_delay(Duration::MAX);
        let jobs = [node.job(lock("10m"), every(60), secs(1)), fixed, late];
        let scheduler = node.scheduler(jobs).clock_check(Duration::MAX);
        let handle = scheduler.start().unwrap();
        world.run_until(secs(2)).await;
        assert_eq!(log.slots(), [0]);
        handle.run_now("fixed").await.unwrap();
        world.run_until(secs(4)).await;
        assert_eq!(log.runs().len(), 2);
        drop(handle.shutdown(Duration::MAX).await.unwrap());
    });
}

/// An error of a task whose formatting fails as well.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words for it")
    }
}

impl std::error::Error for Unspeakable {}

/// Formats every log field, like a subscriber that writes logs.
struct Everything;

impl tracing::field::Visit for Everything {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn fmt::Debug) {
        drop(format!("{value:?}"));
    }
}

impl tracing::Subscriber for Everything {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Everything);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn an_error_that_cannot_be_shown_stops_no_job() {
    // While there is one subscriber, a thread without it can disable a log line for all threads.
    let _second = tracing::Dispatch::new(Everything);
    let _logging = tracing::subscriber::set_default(Everything);
    block_on(async {
        let (world, log, node) = alone();
        let other = LockConfig::new("other").lock_at_most_for("10m");
        let failing = Job::new(other, every(60), |_| async { Err::<(), _>(Unspeakable) });
        let handle = node.start([failing, node.job(lock("10m"), every(60), secs(1))]);
        world.run_until(secs(70)).await;
        assert_eq!(log.slots(), [0, 60]);
        drop(handle.shutdown(secs(1)).await.unwrap());
    });
}

/// A clock that panics at the next read: once, or at every read if `for_good` is set.
#[derive(Debug)]
struct Fragile {
    clock: NodeClock,
    breaks: Arc<AtomicBool>,
    for_good: bool,
}

impl Clock for Fragile {
    fn now(&self) -> Moment {
        self.clock.now()
    }
    fn system_time(&self) -> SystemTime {
        if self.breaks.swap(false, Ordering::Relaxed) {
            self.breaks.store(self.for_good, Ordering::Relaxed);
            panic!("the clock broke");
        }
        self.clock.system_time()
    }
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(moment)
    }
}

impl Fragile {
    /// Creates a clock that breaks, and the switch that breaks it.
    fn of(node: &Node, for_good: bool) -> (Arc<AtomicBool>, Arc<Self>) {
        let breaks = Arc::new(AtomicBool::new(false));
        let clock = Self {
            clock: node.clock.clone(),
            breaks: breaks.clone(),
            for_good,
        };
        (breaks, Arc::new(clock))
    }
}

#[test]
fn a_panic_in_the_driver_stops_no_job() {
    block_on(async {
        let (world, log, node) = alone();
        let (breaks, clock) = Fragile::of(&node, false);
        let job = node.job(lock("10m"), every(10), secs(1));
        let handle = node.scheduler([job]).clock(clock).start().unwrap();
        world.run_until(secs(1)).await;
        breaks.store(true, Ordering::Relaxed);
        world.run_until(secs(50)).await;
        assert!(log.slots().contains(&20), "{:?}", log.slots());
        assert!(log.runs().len() > 3, "{:?}", log.runs());
        assert_eq!(handle.jobs().await.unwrap().len(), 1);
        assert_eq!(log.panics(), ["the clock broke"]);
    });
}

#[test]
fn a_handle_reports_a_driver_that_panics_for_good() {
    block_on(async {
        let (world, log, node) = alone();
        let (breaks, clock) = Fragile::of(&node, true);
        let job = node.job(lock("10m"), every(10), millis(10));
        let handle = node.scheduler([job]).clock(clock).start().unwrap();
        world.run_until(secs(1)).await;
        breaks.store(true, Ordering::Relaxed);
        world.run_until(secs(100)).await;
        let error = handle.jobs().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(error.to_string().contains("the clock broke"), "{error}");
        assert!((5..20).contains(&log.panics().len()), "{:?}", log.panics());
    });
}

//! A world whose time only the tests move: nodes with separate clocks, and a store with the correct
//! one.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test file uses its part"
)]
#![allow(clippy::unwrap_used, reason = "a poisoned lock is a failed test")]

mod flaky;

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock::MemoryProvider;
use shedlock_core::{BoxFuture, Clock, Executor, LockConfig, Moment, Slot, current_lock};
use shedlock_scheduler::{Handle, Job, JobRun, Observer, Schedule, Scheduler, Tick};

pub use flaky::{Fault, Flaky};

/// 2030-01-01 00:00:00 UTC, a midnight.
pub const MIDNIGHT: u64 = 1_893_456_000;

/// The true time, on which all clocks are based.
#[derive(Clone)]
pub struct World {
    time: Arc<Mutex<Time>>,
    pub store: MemoryProvider,
}

struct Time {
    /// The time since midnight, of the calendar and of the running clocks.
    now: Duration,
    sleepers: BTreeMap<(Duration, u64), Waker>,
    next_sleeper: u64,
}

impl World {
    /// Creates a world at this time before midnight.
    pub fn before_midnight(before: Duration) -> Self {
        let time = Arc::new(Mutex::new(Time {
            now: DAY - before,
            sleepers: BTreeMap::new(),
            next_sleeper: 0,
        }));
        let clock = NodeClock::new(time.clone(), 0);
        Self {
            time,
            store: MemoryProvider::with_clock(Arc::new(clock)),
        }
    }

    pub fn clock(&self, offset_micros: i64) -> NodeClock {
        NodeClock::new(self.time.clone(), offset_micros)
    }

    /// Returns the true time since midnight, or zero before midnight.
    pub fn since_midnight(&self) -> Duration {
        self.now().saturating_sub(DAY)
    }

    fn now(&self) -> Duration {
        self.time.lock().unwrap().now
    }

    /// Lets time pass until this long after midnight.
    pub async fn run_until(&self, since_midnight: Duration) {
        self.run(DAY + since_midnight).await;
    }

    /// Lets this much time pass.
    pub async fn run_for(&self, duration: Duration) {
        self.run(self.now() + duration).await;
    }

    /// Steps from one sleeper to the next.
    async fn run(&self, until: Duration) {
        loop {
            settle().await;
            let woken = {
                let mut time = self.time.lock().unwrap();
                let next = time.sleepers.keys().next().map_or(until, |(at, _)| *at);
                time.now = next.min(until).max(time.now);
                let now = time.now;
                let later = time.sleepers.split_off(&(now, u64::MAX));
                std::mem::replace(&mut time.sleepers, later)
            };
            if woken.is_empty() && self.now() >= until {
                return;
            }
            for waker in woken.into_values() {
                waker.wake();
            }
        }
    }
}

/// The world begins at most a day before midnight.
pub const DAY: Duration = Duration::from_secs(86_400);

/// Runs everything that is ready.
pub async fn settle() {
    for _ in 0..6 {
        tokio::task::yield_now().await;
    }
}

/// A node's clocks. Its calendar has an offset, its timers fire late, and when the node is dead
/// they no longer fire.
#[derive(Clone)]
pub struct NodeClock {
    time: Arc<Mutex<Time>>,
    state: Arc<Mutex<ClockState>>,
}

struct ClockState {
    offset_micros: i64,
    /// How late a timer fires that is set for this long after the beginning of the world.
    timer_lateness: Box<dyn FnMut(Duration) -> Duration + Send>,
    dead: bool,
    /// How many sleeps were started.
    sleeps: u64,
}

impl NodeClock {
    fn new(time: Arc<Mutex<Time>>, offset_micros: i64) -> Self {
        let state = ClockState {
            offset_micros,
            timer_lateness: Box::new(|_| Duration::ZERO),
            dead: false,
            sleeps: 0,
        };
        Self {
            time,
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub fn set_offset(&self, micros: i64) {
        self.state.lock().unwrap().offset_micros = micros;
    }

    pub fn set_timer_lateness(&self, lateness: impl FnMut(Duration) -> Duration + Send + 'static) {
        self.state.lock().unwrap().timer_lateness = Box::new(lateness);
    }

    /// Like kill -9: nothing on this node runs any more.
    pub fn kill(&self) {
        self.state.lock().unwrap().dead = true;
    }

    pub fn is_dead(&self) -> bool {
        self.state.lock().unwrap().dead
    }

    pub fn sleeps(&self) -> u64 {
        self.state.lock().unwrap().sleeps
    }

    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now() + duration).await;
    }
}

impl fmt::Debug for NodeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeClock")
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Moment {
        Moment::from_origin(self.time.lock().unwrap().now)
    }

    fn system_time(&self) -> SystemTime {
        let now = self.time.lock().unwrap().now;
        let offset = self.state.lock().unwrap().offset_micros;
        let calendar = UNIX_EPOCH + Duration::from_secs(MIDNIGHT) - DAY + now;
        let by = Duration::from_micros(offset.unsigned_abs());
        if offset < 0 {
            calendar - by
        } else {
            calendar + by
        }
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        let mut late = None;
        let mut key = None;
        Box::pin(poll_fn(move |context| {
            let mut state = clock.state.lock().unwrap();
            if state.dead {
                return Poll::Pending;
            }
            let mut time = clock.time.lock().unwrap();
            if moment.since_origin() <= time.now && late.is_none() {
                return Poll::Ready(());
            }
            let wake = *late.get_or_insert_with(|| {
                state.sleeps += 1;
                moment.since_origin() + (state.timer_lateness)(moment.since_origin())
            });
            if wake <= time.now {
                return Poll::Ready(());
            }
            let key = key.get_or_insert_with(|| {
                time.next_sleeper += 1;
                (wake, time.next_sleeper)
            });
            time.sleepers.insert(*key, context.waker().clone());
            Poll::Pending
        }))
    }
}

/// The events, in order.
#[derive(Clone, Default)]
pub struct Log {
    runs: Arc<Mutex<Vec<RunSeen>>>,
    ticks: Arc<Mutex<Vec<TickSeen>>>,
    panics: Arc<Mutex<Vec<String>>>,
}

type TickSeen = (Option<Slot>, String);

#[derive(Clone, Debug)]
pub struct RunSeen {
    pub node: usize,
    pub slot: Option<Slot>,
    /// The true time since midnight.
    pub started: Duration,
    pub token: u64,
}

impl Log {
    pub fn runs(&self) -> Vec<RunSeen> {
        self.runs.lock().unwrap().clone()
    }

    pub fn push(&self, run: RunSeen) {
        self.runs.lock().unwrap().push(run);
    }

    /// Returns when runs started, since midnight.
    pub fn starts(&self) -> Vec<Duration> {
        self.runs().iter().map(|run| run.started).collect()
    }

    /// Returns the slots of the runs, in seconds since midnight.
    pub fn slots(&self) -> Vec<i64> {
        let runs = self.runs();
        runs.iter()
            .filter_map(|run| run.slot)
            .map(seconds)
            .collect()
    }

    /// Returns the slots whose ticks have ended, in milliseconds since midnight.
    pub fn ended_slots(&self) -> std::collections::BTreeSet<i64> {
        let ticks = self.ticks.lock().unwrap();
        let slots = ticks.iter().filter_map(|tick| tick.0);
        let midnight = i64::try_from(MIDNIGHT * 1_000).unwrap();
        slots
            .map(|slot| slot.as_micros() / 1_000 - midnight)
            .collect()
    }

    /// Returns the panics of the schedulers.
    pub fn panics(&self) -> Vec<String> {
        self.panics.lock().unwrap().clone()
    }

    /// Returns how the ticks ended, with their slots in seconds since midnight.
    pub fn ticks(&self) -> Vec<(Option<i64>, String)> {
        let ticks = self.ticks.lock().unwrap().clone();
        ticks
            .into_iter()
            .map(|(slot, end)| (slot.map(seconds), end))
            .collect()
    }
}

pub fn seconds(slot: Slot) -> i64 {
    slot.as_micros() / 1_000_000 - i64::try_from(MIDNIGHT).unwrap()
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

impl Observer for Log {
    fn on_tick(&self, tick: &Tick<'_>) {
        let end = tick.end.to_string();
        self.ticks.lock().unwrap().push((tick.slot, end));
    }

    fn on_panic(&self, _: Option<&str>, message: &str) {
        self.panics.lock().unwrap().push(message.to_owned());
    }
}

/// A node of the world. All nodes share one log.
pub struct Node {
    pub number: usize,
    pub world: World,
    pub clock: NodeClock,
    pub log: Log,
    pub store: Flaky,
}

impl Node {
    pub fn new(world: &World, number: usize, log: &Log) -> Self {
        Self::with_faults(world, number, log, || Fault::None)
    }

    pub fn with_faults(
        world: &World,
        number: usize,
        log: &Log,
        fault: impl FnMut() -> Fault + Send + 'static,
    ) -> Self {
        let clock = world.clock(0);
        Self {
            number,
            world: world.clone(),
            store: Flaky::new(&world.store, &clock, fault),
            clock,
            log: log.clone(),
        }
    }

    pub fn executor(&self) -> Executor {
        Executor::new(Arc::new(self.store.clone()))
    }

    /// A job with this run time.
    pub fn job(&self, config: LockConfig, schedule: Schedule, run_time: Duration) -> Job {
        self.job_of(config, schedule, move || run_time)
    }

    /// A job whose run times this function returns.
    pub fn job_of(
        &self,
        config: LockConfig,
        schedule: Schedule,
        run_time: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Job {
        let (world, clock, log, node) = (
            self.world.clone(),
            self.clock.clone(),
            self.log.clone(),
            self.number,
        );
        Job::new(config, schedule, move |run: JobRun| {
            let (world, clock, log, run_time) =
                (world.clone(), clock.clone(), log.clone(), run_time());
            async move {
                let lock = current_lock().expect("a run holds its lock");
                assert_eq!(lock.slot(), run.slot());
                assert_eq!(lock.fencing_token(), run.fencing_token());
                log.push(RunSeen {
                    node,
                    slot: run.slot(),
                    started: world.since_midnight(),
                    token: run.fencing_token().expect("memory has tokens"),
                });
                clock.sleep(run_time).await;
                Ok::<_, String>(())
            }
        })
    }

    pub fn scheduler(&self, jobs: impl IntoIterator<Item = Job>) -> Scheduler {
        Scheduler::new(self.executor())
            .clock(Arc::new(self.clock.clone()))
            .observer(Arc::new(self.log.clone()))
            .seed(self.number as u64)
            .jobs(jobs)
    }

    pub fn start(&self, jobs: impl IntoIterator<Item = Job>) -> Handle {
        self.scheduler(jobs).start().unwrap()
    }
}

pub fn block_on<F: Future>(test: F) -> F::Output {
    // No timer is enabled: a test that slept in real time would panic.
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(test)
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn lock(at_most: &str) -> LockConfig {
    LockConfig::new("job").lock_at_most_for(at_most)
}

pub fn cron(expression: &str) -> Schedule {
    Schedule::cron(expression).unwrap()
}

pub fn every(period: u64) -> Schedule {
    Schedule::every(secs(period)).unwrap()
}

/// A single node that starts half a minute before midnight.
pub fn alone() -> (World, Log, Node) {
    let world = World::before_midnight(secs(30));
    let log = Log::default();
    let node = Node::new(&world, 0, &log);
    (world, log, node)
}

//! The cost of a scheduler while nothing is due, and how late it fires when much is.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use hdrhistogram::Histogram;
use shedlock::MemoryProvider;
use shedlock_core::{Executor, LockConfig};
use shedlock_scheduler::{Handle, Job, Schedule, Scheduler};
use tokio::runtime::Runtime;

use crate::Effort;
use crate::provider::AT_MOST;
use crate::report::{Report, Unit};
use crate::rounds::median;
use crate::store::Store;

/// Waiting jobs.
const IDLE: u32 = 100_000;

/// Jobs that fire each second, one per millisecond.
const BUSY: u32 = 1_000;

/// Time for the store's replies about each job at startup.
const ANSWERS: Duration = Duration::from_secs(3);

/// How long wake-ups are counted.
const QUIET: Duration = Duration::from_secs(10);

/// How long a round of firing lasts.
const FIRING: Duration = Duration::from_secs(3);

/// All measurements, on separate threads, because the counters are per thread.
pub(crate) async fn measure(effort: Effort, report: &mut Report) -> anyhow::Result<()> {
    let rounds = effort.rounds.min(7);
    let measured = tokio::task::spawn_blocking(move || {
        anyhow::Ok((bytes_of_a_job()?, all_wake_ups()?, firing(rounds)?))
    });
    let (bytes, wake_ups, firing) = measured
        .await
        .context("the scheduler's thread panicked")??;
    let mut add = |what: &str, unit, own: f64, base: Option<f64>| {
        let base = base.map(|base| (base, own / base));
        report.add(Store::MEMORY, what, unit, own, base);
    };
    add("idle_job", Unit::Bytes, bytes, None);
    if let Some([nothing, calendar, seldom, running]) = wake_ups {
        for (what, own) in [
            ("idle_wake_ups", calendar),
            ("idle_wake_ups_seldom_check", seldom),
            ("idle_wake_ups_fixed_delay", running),
        ] {
            add(what, Unit::WakeUpsPerSecond, own, Some(nothing));
        }
    }
    for (word, [own, base]) in [("p50", firing.p50), ("p99", firing.p99)] {
        let what = format!("firing_error_{word}");
        add(&what, Unit::Microseconds, own, Some(base));
    }
    Ok(())
}

fn runtime() -> anyhow::Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.context("cannot create a runtime")
}

fn executor() -> Executor {
    Executor::new(Arc::new(MemoryProvider::new()))
}

fn idle_job(number: u32, schedule: Schedule) -> Job {
    let config = LockConfig::new(format!("a-job-with-a-name-{number}")).lock_at_most_for(AT_MOST);
    Job::new(config, schedule, |_| async { anyhow::Ok(()) })
}

/// A cron schedule whose next time is hours away, at any time of day.
fn hours_away(number: u32) -> anyhow::Result<Schedule> {
    let seconds = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)?
        .as_secs();
    let hour = (seconds / 3_600 + 2 + u64::from(number / 60 % 20)) % 24;
    Ok(Schedule::cron_in(
        &format!("{} {hour} * * *", number % 60),
        "UTC",
    )?)
}

/// The bytes that stay allocated per job, measured over very many jobs.
fn bytes_of_a_job() -> anyhow::Result<f64> {
    let runtime = runtime()?;
    let mut started = None;
    let info = allocation_counter::measure(|| {
        started = Some(runtime.block_on(async {
            let jobs: Result<Vec<Job>, _> = (0..IDLE)
                .map(|number| anyhow::Ok(idle_job(number, hours_away(number)?)))
                .collect();
            settled(Scheduler::new(executor()).jobs(jobs?).start()?).await
        }));
    });
    let handle = started.context("the scheduler did not start")??;
    ensure!(info.bytes_current > 0, "nothing was allocated for the jobs");
    drop(handle);
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    Ok(info.bytes_current as f64 / f64::from(IDLE))
}

/// Waits until all jobs are planned, and the store has answered the requests about them.
async fn settled(handle: Handle) -> anyhow::Result<Handle> {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let jobs = handle.jobs().await?;
        if jobs.iter().all(|job| job.next.is_some()) {
            drop(jobs);
            tokio::time::sleep(ANSWERS).await;
            return Ok(handle);
        }
    }
}

#[derive(Clone, Copy)]
enum Waits {
    /// With a check of the wall clock at this interval.
    ByTheCalendar(Duration),
    ByTheRunningClock,
}

/// With no scheduler at all, with the default check of the wall clock, with one each hour, and with
/// nothing that is due by the wall clock.
fn all_wake_ups() -> anyhow::Result<Option<[f64; 4]>> {
    if !cfg!(target_os = "linux") {
        eprintln!("bench: wake-ups are NOT counted: only Linux counts them for a single thread");
        return Ok(None);
    }
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3_600));
    Ok(Some([
        wake_ups(None)?,
        wake_ups(Some(Waits::ByTheCalendar(second)))?,
        wake_ups(Some(Waits::ByTheCalendar(hour)))?,
        wake_ups(Some(Waits::ByTheRunningClock))?,
    ]))
}

/// How often per second a thread with a waiting scheduler wakes, or a thread without one.
fn wake_ups(waits: Option<Waits>) -> anyhow::Result<f64> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let mut handle = None;
        if let Some(waits) = waits {
            let jobs: Result<Vec<Job>, _> = (0..1_000)
                .map(|number| {
                    let schedule = match waits {
                        Waits::ByTheCalendar(_) => hours_away(number)?,
                        Waits::ByTheRunningClock => Schedule::fixed_delay("2h")?,
                    };
                    anyhow::Ok(idle_job(number, schedule))
                })
                .collect();
            let mut scheduler = Scheduler::new(executor()).jobs(jobs?);
            if let Waits::ByTheCalendar(check) = waits {
                scheduler = scheduler.clock_check(check);
            }
            handle = Some(settled(scheduler.start()?).await?);
        }
        let before = times_slept()?;
        tokio::time::sleep(QUIET).await;
        // The last one is the end of our own sleep.
        let slept = times_slept()?.saturating_sub(before + 1);
        drop(handle);
        Ok(f64::from(slept) / QUIET.as_secs_f64())
    })
}

/// How often this thread has yielded its processor to wait for something.
fn times_slept() -> anyhow::Result<u32> {
    let status = fs::read_to_string("/proc/thread-self/status")?;
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
        .context("this kernel does not count how often a thread sleeps")?;
    Ok(count.trim().parse()?)
}

/// How late ticks fired, in microseconds: ours, and a bare timer's. Medians of the rounds.
struct Firing {
    p50: [f64; 2],
    p99: [f64; 2],
}

/// A second has a thousand ticks, a millisecond apart. The scheduler and a bare timer alternate.
fn firing(rounds: u32) -> anyhow::Result<Firing> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let (mut p50, mut p99) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..rounds {
        let lateness = runtime
            .block_on(async { anyhow::Ok([fire_by_scheduler().await?, fire_by_timer().await?]) })?;
        for (side, lateness) in lateness.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let at = |quantile| lateness.value_at_quantile(quantile) as f64;
            p50[side].push(at(0.5));
            p99[side].push(at(0.99));
        }
    }
    Ok(Firing {
        p50: p50.map(|side| median(&side)),
        p99: p99.map(|side| median(&side)),
    })
}

type Lateness = Histogram<u64>;

fn lateness() -> anyhow::Result<Lateness> {
    Ok(Histogram::new_with_bounds(1, 60_000_000, 3)?)
}

fn micros_late(at: SystemTime) -> u64 {
    let late = SystemTime::now().duration_since(at).unwrap_or_default();
    u64::try_from(late.as_micros()).unwrap_or(u64::MAX)
}

/// The first full second that leaves enough time for preparation.
fn first_second() -> anyhow::Result<SystemTime> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs() + 2))
}

async fn fire_by_scheduler() -> anyhow::Result<Lateness> {
    let late = Arc::new(Mutex::new(lateness()?));
    let first = first_second()?;
    let jobs: Result<Vec<Job>, _> = (0..BUSY)
        .map(|number| {
            let late = late.clone();
            let anchor = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::from(number));
            let config = LockConfig::new(format!("busy-{number}")).lock_at_most_for(AT_MOST);
            let task = move |run: shedlock_scheduler::JobRun| {
                let micros = micros_late(run.scheduled_at());
                if run.scheduled_at() >= first {
                    let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
                    late.saturating_record(micros);
                }
                async { anyhow::Ok(()) }
            };
            anyhow::Ok(Job::new(
                config,
                Schedule::every("1s")?.anchored_at(anchor),
                task,
            ))
        })
        .collect();
    let handle = Scheduler::new(executor()).jobs(jobs?).start()?;
    let until = first + FIRING;
    tokio::time::sleep(until.duration_since(SystemTime::now()).unwrap_or_default()).await;
    handle.shutdown(Duration::from_secs(10)).await?;
    let late = late.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let expected = u64::from(BUSY) * FIRING.as_secs();
    ensure!(
        late.len() * 10 >= expected * 9,
        "{} of {expected} ticks were fired",
        late.len()
    );
    Ok(late)
}

/// The minimum that fires as often: one timer, and a task for each tick.
async fn fire_by_timer() -> anyhow::Result<Lateness> {
    let late = Arc::new(Mutex::new(lateness()?));
    let first = first_second()?;
    for tick in 0..BUSY * u32::try_from(FIRING.as_secs())? {
        let at = first + Duration::from_millis(u64::from(tick));
        // The shortest sleep is a millisecond. What is already due is fired without one.
        if let Ok(left) = at.duration_since(SystemTime::now()) {
            tokio::time::sleep(left).await;
        }
        let late = late.clone();
        tokio::spawn(async move {
            let micros = micros_late(at);
            let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
            late.saturating_record(micros);
        });
    }
    let late = late.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(late)
}

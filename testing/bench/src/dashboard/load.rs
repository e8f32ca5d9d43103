//! How late the jobs of a fleet start while many people look at the dashboard.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use shedlock_core::{Executor, LockConfig};

use shedlock_journal::JournalWriter;
use shedlock_scheduler::{Handle, Job, JobRun, Schedule, Scheduler};
use tokio::task::JoinSet;

use super::pages::router;
use super::{Latencies, get, latencies, micros, millis_at};
use crate::provider::AT_MOST;
use crate::site::Site;

const REPLICAS: usize = 10;

/// Jobs that fire each second, spread over it.
const JOBS: u32 = 20;

/// 50 requests a second.
const BETWEEN: Duration = Duration::from_millis(20);

/// How long the replicas get to settle.
const SETTLING: Duration = Duration::from_secs(3);

/// The lateness of the fleet's jobs without and with requests, each for this long.
pub(super) async fn measure(site: &Site, lasts: Duration) -> anyhow::Result<()> {
    let late = Arc::new(Mutex::new(latencies()?));
    let mut fleet = Vec::new();
    for _ in 0..REPLICAS {
        fleet.push(replica(site, &late).await?);
    }
    tokio::time::sleep(SETTLING).await;
    take(&late)?;
    tokio::time::sleep(lasts).await;
    let alone = take(&late)?;
    let pages = requests(site, lasts).await?;
    let watched = take(&late)?;
    for (handle, writer) in fleet {
        handle.shutdown(Duration::from_secs(10)).await?;
        ensure!(writer.dropped() == 0, "the journal fell behind");
    }
    println!(
        "{REPLICAS} replicas, {JOBS} jobs that fire each second, {} s without requests and {} s with",
        lasts.as_secs(),
        lasts.as_secs()
    );
    for (what, seen) in [
        ("lateness without requests", &alone),
        ("lateness with 50 requests a second of /now", &watched),
        ("the requests", &pages),
    ] {
        let [p50, p99] = [0.5, 0.99].map(|quantile| millis_at(seen, quantile));
        println!(
            "- {what}: p50 {p50:.1} ms, p99 {p99:.1} ms, of {}",
            seen.len()
        );
    }
    Ok(())
}

async fn replica(
    site: &Site,
    late: &Arc<Mutex<Latencies>>,
) -> anyhow::Result<(Handle, JournalWriter)> {
    let provider = site.provider(4).await?;
    let journal = provider.journal().context("PostgreSQL keeps a journal")?;
    let writer = JournalWriter::new(journal);
    let executor = Executor::new(provider).journal(&writer);
    let jobs: anyhow::Result<Vec<Job>> = (0..JOBS)
        .map(|number| {
            let late = late.clone();
            let offset = Duration::from_secs(1) / JOBS * number;
            let schedule = Schedule::every("1s")?.anchored_at(SystemTime::UNIX_EPOCH + offset);
            let config = LockConfig::new(format!("load-{number}")).lock_at_most_for(AT_MOST);
            let task = move |run: JobRun| {
                let since = SystemTime::now().duration_since(run.scheduled_at());
                let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
                late.saturating_record(micros(since.unwrap_or_default()));
                async { anyhow::Ok(()) }
            };
            Ok(Job::new(config, schedule, task))
        })
        .collect();
    Ok((Scheduler::new(executor).jobs(jobs?).start()?, writer))
}

/// What was recorded so far.
fn take(late: &Mutex<Latencies>) -> anyhow::Result<Latencies> {
    let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::replace(&mut *late, latencies()?))
}

/// Requests *Now* at a fixed rate, whether or not earlier requests have been answered.
async fn requests(site: &Site, lasts: Duration) -> anyhow::Result<Latencies> {
    let router = router(&site.provider(4).await?)?;
    let (mut seen, mut pending) = (latencies()?, JoinSet::new());
    let (mut timer, end) = (tokio::time::interval(BETWEEN), Instant::now() + lasts);
    while Instant::now() < end {
        timer.tick().await;
        let router = router.clone();
        pending.spawn(async move {
            let start = Instant::now();
            get(&router, "/now").await?;
            anyhow::Ok(start.elapsed())
        });
        while let Some(done) = pending.try_join_next() {
            seen.saturating_record(micros(done??));
        }
    }
    while let Some(done) = pending.join_next().await {
        seen.saturating_record(micros(done??));
    }
    Ok(seen)
}

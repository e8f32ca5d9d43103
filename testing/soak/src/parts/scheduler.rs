//! Many jobs that end in every way, with a journal and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use metrics_exporter_prometheus::PrometheusBuilder;
use shedlock::scheduler::{Job, MetricsObserver, Schedule, Scheduler};
use shedlock::{
    Completion, Executor, JournalSettings, JournalWriter, ListRequest, LockConfig, MetricsListener,
    Retries, RunsRequest,
};

use crate::Load;
use crate::part::{
    AT_MOST, Place, Samples, Times, Workers, Yardstick, count, note, nothing_is_held, run_once,
};
use crate::quantity::{LINES, PAIR, RECORDS, ROWS};

const JOBS: usize = 500;

/// All together 100 runs a second, which a busy machine with two cores keeps up with.
const PERIOD: Duration = Duration::from_secs(5);

/// As in `examples/prometheus`.
const SECONDS: [f64; 7] = [0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0];

/// The runs that the journal keeps of a job: so few that each job has them after the warm-up.
const RUNS: usize = 20;

/// The jobs of which the rows in the journal are counted.
const COUNTED: usize = 4;

/// What `--plant-leak` leaks in a run.
const LEAK: usize = 100;

pub(super) async fn run(place: &Place, load: Load) -> anyhow::Result<()> {
    let recorder = PrometheusBuilder::new()
        .set_buckets(&SECONDS)?
        .install_recorder()?;
    MetricsListener::describe();
    MetricsObserver::describe();
    let provider = place.provider().await?;
    let journal = provider.journal().context("this store keeps no journal")?;
    let settings = JournalSettings::new().runs_per_job(RUNS);
    let writer = JournalWriter::with_settings(journal.clone(), settings);
    let executor = Executor::new(provider.clone())
        .listener(Arc::new(MetricsListener))
        .journal(&writer);
    let yardstick = Yardstick::new(&executor).await?;
    let runs = Arc::new(AtomicUsize::new(0));
    let jobs: anyhow::Result<Vec<Job>> = (0..JOBS)
        .map(|nth| job(nth, load.plants_leak, &runs))
        .collect();
    let scheduler = Scheduler::new(executor.clone())
        .observer(Arc::new(MetricsObserver))
        .jobs(jobs?)
        .start()?;
    let (pairs, reads) = (Times::default(), yardstick.times.clone());
    let (records, rows) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // What asks the store, so that no sample waits for it.
    let mut workers = Workers::default();
    let yardstick = Arc::new(yardstick);
    let work = (pairs.clone(), Executor::new(provider.clone()));
    workers.add(Duration::from_millis(50), move || {
        let (yardstick, (pairs, plain)) = (yardstick.clone(), work.clone());
        async move {
            let hot = LockConfig::new("hot").lock_at_most_for(AT_MOST);
            yardstick.read().await?;
            pairs.of(run_once(&plain, &hot)).await
        }
    });
    let work = (provider.clone(), journal, records.clone(), rows.clone());
    workers.add(load.every, move || {
        let (provider, journal, records, rows) = work.clone();
        async move {
            let locks = provider
                .list(&ListRequest::new().with_limit(2 * JOBS))
                .await?;
            let jobs = locks
                .iter()
                .filter(|lock| lock.name.as_str().starts_with("job-"));
            records.store(jobs.count(), Ordering::SeqCst);
            let mut kept = 0;
            for nth in 0..COUNTED {
                let request = RunsRequest::new()
                    .with_job(name(10 * nth))
                    .with_limit(10 * RUNS);
                kept += journal.runs(&request).await?.len();
            }
            rows.store(kept, Ordering::SeqCst);
            Ok(())
        }
    });
    let mut samples = Samples::new(load);
    while samples.next().await {
        workers.check()?;
        samples.add_own()?;
        Times::sample(&[(&PAIR, &pairs)], &reads, &samples);
        recorder.run_upkeep();
        samples.add(&LINES, count(recorder.render().lines().count()));
        samples.add(
            &RECORDS,
            count(records.load(Ordering::SeqCst)) / count(JOBS),
        );
        samples.add(&ROWS, count(rows.load(Ordering::SeqCst)) / count(COUNTED));
    }
    workers.stop().await?;
    scheduler.shutdown(Duration::from_secs(10)).await?;
    writer.flush(Duration::from_secs(10)).await;
    nothing_is_held(&executor).await?;
    note(&format!(
        "{} runs; the journal dropped {} entries",
        runs.load(Ordering::SeqCst),
        writer.dropped()
    ));
    Ok(())
}

fn name(nth: usize) -> String {
    format!("job-{nth:03}")
}

/// In ten, six succeed; one blocks its thread, one fails, one panics, and one outlives its lease. Some of those that
/// succeed are kept alive, and some must not be lost.
fn job(nth: usize, leaks: bool, runs: &Arc<AtomicUsize>) -> anyhow::Result<Job> {
    let kind = nth % 10;
    let offset = PERIOD / u32::try_from(JOBS)? * u32::try_from(nth)?;
    let schedule = Schedule::every(PERIOD)?.anchored_at(SystemTime::UNIX_EPOCH + offset);
    let config = LockConfig::new(name(nth));
    let config = match kind {
        0 => config.lock_at_most_for(AT_MOST).keep_alive(),
        1 => config
            .lock_at_most_for(AT_MOST)
            .completion(Completion::OnSuccess(Retries::new().max_attempts(2))),
        9 => config.lock_at_most_for(Duration::from_millis(500)),
        _ => config.lock_at_most_for(AT_MOST),
    };
    let runs = runs.clone();
    let begin = move || {
        runs.fetch_add(1, Ordering::SeqCst);
        if leaks {
            #[expect(clippy::mem_forget, reason = "this is the leak that must be found")]
            std::mem::forget(std::hint::black_box(vec![1_u8; LEAK]));
        }
    };
    if kind == 6 {
        return Ok(Job::blocking(config, schedule, move |_| {
            begin();
            std::thread::sleep(Duration::from_millis(5));
            anyhow::Ok(())
        }));
    }
    Ok(Job::new(config, schedule, move |_| {
        begin();
        async move {
            match kind {
                7 => bail!("it fails, as planned"),
                // As a panic, but nothing is printed.
                8 => std::panic::resume_unwind(Box::new("it panics, as planned")),
                9 => tokio::time::sleep(Duration::from_secs(1)).await,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
            Ok(())
        }
    }))
}

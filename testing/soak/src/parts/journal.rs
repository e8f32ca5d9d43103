//! Runs whose jobs have as many runs in the journal as it keeps.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use shedlock::{
    Executor, JournalEntry, JournalWriter, LockConfig, Retention, RunEnd, RunOutcome, RunRecord,
    RunsRequest,
};

use crate::Load;
use crate::part::{AT_MOST, Place, Samples, Times, Workers, Yardstick, count, end, note, run_once};
use crate::quantity::{PAIR, RECORDED, ROWS};

const JOBS: usize = 8;

/// How many entries travel together.
const BATCH: usize = 200;

const FLUSH: Duration = Duration::from_secs(10);

pub(super) async fn run(place: &Place, load: Load) -> anyhow::Result<()> {
    let provider = place.provider().await?;
    let journal = provider.journal().context("this store keeps no journal")?;
    let runs = Retention::default().runs_per_job;
    for nth in 0..JOBS {
        let entries: Vec<_> = (0..runs).map(|age| ended(nth, runs - age)).collect();
        for batch in entries.chunks(BATCH) {
            journal.record(batch).await?;
        }
    }
    let writer = JournalWriter::new(journal.clone());
    let plain = Executor::new(provider);
    let executor = plain.clone().journal(&writer);
    let yardstick = Arc::new(Yardstick::new(&plain).await?);
    let reads = yardstick.times.clone();
    let (recorded, pairs) = (Times::default(), Times::default());
    let mut workers = Workers::default();
    let work = (recorded.clone(), pairs.clone(), writer.clone());
    let mut nth = 0;
    workers.add(Duration::from_millis(5), move || {
        nth = (nth + 1) % JOBS;
        let (recorded, pairs, writer) = work.clone();
        let (executor, plain, yardstick) = (executor.clone(), plain.clone(), yardstick.clone());
        async move {
            yardstick.read().await?;
            pairs
                .of(run_once(&plain, &of("not-recorded".to_owned())))
                .await?;
            let left = recorded.of(async {
                run_once(&executor, &of(name(nth))).await?;
                anyhow::Ok(writer.flush(FLUSH).await)
            });
            ensure!(left.await? == 0, "the journal does not keep up");
            Ok(())
        }
    });
    let mut samples = Samples::new(load);
    while samples.next().await {
        workers.check()?;
        samples.add_own()?;
        let works = [(&RECORDED, &recorded), (&PAIR, &pairs)];
        Times::sample(&works, &reads, &samples);
        let request = RunsRequest::new().with_job(name(0)).with_limit(2 * runs);
        samples.add(&ROWS, count(journal.runs(&request).await?.len()));
    }
    let steps = workers.stop().await?;
    end("entries dropped", usize::try_from(writer.dropped())?, 0);
    note(&format!(
        "{steps} recorded runs of {JOBS} jobs that had {runs} each"
    ));
    Ok(())
}

fn name(nth: usize) -> String {
    format!("recorded-{nth}")
}

fn of(name: String) -> LockConfig {
    LockConfig::new(name).lock_at_most_for(AT_MOST)
}

/// A run of some seconds ago.
fn ended(nth: usize, age: usize) -> JournalEntry {
    let age = Duration::from_secs(u64::try_from(age).unwrap_or_default());
    let started = SystemTime::now() - age;
    let mut run = RunRecord::new(
        name(nth),
        name(nth),
        format!("soak/1/{}", age.as_secs()),
        started,
    );
    run.end = Some(RunEnd::new(
        Duration::from_millis(5),
        RunOutcome::Succeeded,
        None,
    ));
    JournalEntry::Run { run, next: None }
}

//! A run with a journal, next to the same run without one.

use std::time::Duration;

use anyhow::{Context as _, bail};
use shedlock_core::{BoxFuture, Executor, LockConfig, Outcome, Release};

use shedlock_journal::JournalWriter;

use crate::Effort;
use crate::provider::AT_MOST;
use crate::report::{Report, Unit};
use crate::rounds::{Side, Worker, take_turns};
use crate::site::Site;

/// Jobs that run at the same time, each with a lock of its own.
const JOBS: usize = 4;

/// How long a task takes, and how long its job then waits: together about 100 runs a second.
const TASK: Duration = Duration::from_millis(20);

/// A round is this many times as long as others, so that there are enough runs for a 99th percentile.
const LONGER: u32 = 5;

/// How long the entries of the last runs may take.
const FLUSH: Duration = Duration::from_secs(10);

pub(crate) async fn measure(
    site: &Site,
    effort: Effort,
    report: &mut Report,
) -> anyhow::Result<()> {
    let with = site.provider(JOBS).await?;
    let Some(journal) = with.journal() else {
        return Ok(());
    };
    journal.migrate().await?;
    let writer = JournalWriter::new(journal);
    let without = Executor::new(site.provider(JOBS).await?);
    let with = Executor::new(with).journal(&writer);
    let jobs = |executor: &Executor, word: &str| {
        let job = |nth| Box::new(Job::new(executor, &format!("{word}-{nth}"))) as Box<dyn Worker>;
        Side::new((0..JOBS).map(job).collect())
    };
    let mut sides = [jobs(&without, "plain"), jobs(&with, "recorded")];
    take_turns(&mut sides, effort.rounds, effort.slice * LONGER).await?;
    let left = writer.flush(FLUSH).await;
    let dropped = writer.dropped();
    if left > 0 || dropped > 0 {
        bail!("the journal fell behind: {left} entries are not written, {dropped} were dropped");
    }
    let [without, with] = &sides;
    for (word, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let (own, base) = (with.micros_at(quantile), without.micros_at(quantile));
        report.add(
            site.store,
            &format!("run_with_journal_{word}"),
            Unit::Microseconds,
            own,
            Some((base, own / base)),
        );
    }
    Ok(())
}

struct Job {
    executor: Executor,
    config: LockConfig,
}

impl Job {
    fn new(executor: &Executor, name: &str) -> Self {
        Self {
            executor: executor.clone(),
            config: LockConfig::new(name).lock_at_most_for(AT_MOST),
        }
    }
}

impl Worker for Job {
    fn step(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async {
            let run = self
                .executor
                .execute(&self.config, tokio::time::sleep(TASK));
            match run.await.context("a run failed")? {
                Outcome::Executed {
                    release: Release::Released,
                    ..
                } => Ok(()),
                other => bail!("expected a run, got {other:?}"),
            }
        })
    }

    fn rest(&self) -> Duration {
        TASK
    }
}

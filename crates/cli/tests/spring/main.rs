//! Two processes of an application with Spring Boot and ShedLock (`testing/interop/spring`) and two schedulers of ours
//! share their jobs. Each tick runs once, and the command reports nothing wrong with the healthy jobs.
//!
//! `SHEDLOCK_SPRING_SECONDS` sets how long; `cargo xtask spring` sets it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod jobs;
mod readers;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use jobs::JOBS;
use libtest_mimic::{Arguments, Failed, Trial};
use readers::Readers;
use shedlock::scheduler::{Handle, Scheduler};
use shedlock::{Executor, JournalWriter};
use shedlock_interop::{Fleets, Place, Spring, SpringRuns};
use shedlock_rig::{given, wait};
use tokio::runtime::Runtime;

/// How often the command reads the jobs.
const LOOK: Duration = Duration::from_secs(5);
/// How long the short form lasts. A job of every 30 s may have no whole period in it.
const SECONDS: u64 = 32;

fn main() {
    given::needs("real ShedLock");
    let arguments = Arguments::from_args();
    let stores = [
        ("on_postgres", Fleets::PostgresDbTime),
        ("on_redis", Fleets::RedisSafe),
    ];
    let trials = stores
        .into_iter()
        .filter(|(_, how)| given::is_wanted(how.store()));
    let trials = trials.map(|(name, how)| {
        Trial::test(name, move || {
            share(how).map_err(|why| Failed::from(format!("{why:#}")))
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Shares the jobs for a while, and judges what happened.
fn share(how: Fleets) -> anyhow::Result<()> {
    let seconds = std::env::var("SHEDLOCK_SPRING_SECONDS");
    let seconds = seconds.map_or(Ok(SECONDS), |seconds| seconds.parse())?;
    let runtime = Runtime::new()?;
    let server = how.server().context("its server is unavailable")?;
    let place = runtime.block_on(async {
        let place = Place::make(how, &server).await?;
        place.make_table().await?;
        anyhow::Ok(place)
    })?;
    let mut readers = Readers::of(place.url.as_str())?;
    let runs = SpringRuns::default();
    let _spring = [Spring::start(&place, &runs)?, Spring::start(&place, &runs)?];
    let nodes = runtime.block_on(async {
        let first = node(&place, &runs).await?;
        anyhow::Ok([first, node(&place, &runs).await?])
    })?;

    let from = jobs::now();
    let until = from + seconds * 1_000;
    while jobs::now() < until {
        let left = Duration::from_millis(until.saturating_sub(jobs::now()));
        wait::pause(left.min(LOOK));
        readers.look()?;
    }
    let until = jobs::now();
    runtime.block_on(async {
        for node in nodes {
            node.shutdown(Duration::from_secs(30)).await?;
        }
        anyhow::Ok(())
    })?;

    let tallies = JOBS.map(|job| job.tally(&runs.of(job.name), from, until));
    println!("{}", jobs::table(how.name(), seconds, &tallies));
    let looked = readers.looks;
    println!(
        "jobs, metrics and doctor: read {looked} times, {} false alarms",
        readers.alarms.len()
    );
    let wrong = tallies.iter().flat_map(|tally| &tally.wrong);
    let wrong: Vec<&str> = wrong.chain(&readers.alarms).map(String::as_str).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    pause(&readers, &runs)
}

/// Pauses and resumes a job that only Spring runs. The manual says what Spring then does, and what it logs.
fn pause(readers: &Readers, runs: &SpringRuns) -> anyhow::Result<()> {
    let name = "spring-only";
    let last = || runs.of(name).last().map_or(0, |ran| ran.begun);
    readers.shedlock(&["pause", name, "--create", "--reason", "maintenance"])?;
    let before = last();
    runs.take_log();
    let mut log = Vec::new();
    let skip = format!("Not executing '{name}'. It's locked.");
    wait::eventually("Spring skips the job", || {
        log.extend(runs.take_log());
        log.iter().any(|line| line.contains(&skip))
    });
    ensure!(last() == before, "the paused job has run");
    let speaks = |line: &&String| line.contains(name) && !line.contains(" DEBUG ");
    let lines: Vec<_> = log.iter().filter(speaks).collect();
    ensure!(
        lines.is_empty(),
        "Spring says more than the manual: {lines:?}"
    );
    ensure!(
        !log.iter().any(|line| line.contains("maintenance")),
        "Spring has logged the reason"
    );
    readers.shedlock(&["resume", name])?;
    wait::eventually("Spring runs the job again", || last() > before);
    Ok(())
}

/// A scheduler of ours, with a journal.
async fn node(place: &Place, runs: &SpringRuns) -> anyhow::Result<Handle> {
    let provider = shedlock::connect(place.url.as_str()).await?;
    let journal = provider.journal().context("this store keeps no journal")?;
    let executor = Executor::new(Arc::clone(&provider)).journal(&JournalWriter::new(journal));
    jobs::without_slots(&executor, runs);
    let ours = JOBS
        .into_iter()
        .filter_map(|job| job.scheduled(runs).transpose());
    let ours = ours.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Scheduler::new(executor).jobs(ours).start()?)
}

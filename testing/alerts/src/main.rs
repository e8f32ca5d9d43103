//! A replica whose jobs succeed or fail, with its metrics over HTTP.
//!
//! `alerts-replica STORE JOB=OUTCOME…` prints the address of its metrics, and ends when its standard
//! input does.

#![allow(clippy::print_stdout, reason = "prints its address for the test")]

use std::time::Duration;

use anyhow::Context as _;
use shedlock::http::Endpoints;
use shedlock::scheduler::{Job, LatePolicy, Schedule, Scheduler};
use shedlock::{Executor, JournalWriter, LockConfig};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let store = arguments.next().context("no store")?;
    let provider = shedlock::connect(&store).await?;
    let journal = provider.journal().context("no journal")?;
    let executor = Executor::new(provider).journal(&JournalWriter::new(journal));
    let mut scheduler = Scheduler::new(executor.clone());
    for argument in arguments {
        let (name, outcome) = argument.split_once('=').context("no outcome")?;
        let config = LockConfig::new(name.to_owned()).lock_at_most_for("3s");
        let fails = outcome == "fails";
        let job = Job::new(config, Schedule::every("1s"), move |_run| async move {
            if fails { Err("no paper") } else { Ok(()) }
        });
        scheduler = scheduler.job(job.late(LatePolicy::Within(Duration::from_secs(1))));
    }
    let handle = scheduler.start()?;
    let router = Endpoints::of(&executor).scheduler(&handle).router();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    tokio::select! {
        served = axum::serve(listener, router) => served?,
        ended = async { tokio::io::stdin().read_to_end(&mut Vec::new()).await } => drop(ended?),
    }
    Ok(())
}

//! A year of a platform in forty minutes: two PostgreSQL servers, three hosts with cron, two exporters, Prometheus and
//! Alertmanager, all real. One [event](phase::Phase) after the other happens to them; meanwhile two jobs are due each
//! minute. The [judge](mod@judge) checks every slot and every alert.
//!
//! `cargo xtask drill year` builds this program and the command, and starts it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for the terminal: what it prints is its product"
)]
#![allow(clippy::disallowed_methods, reason = "it runs in real time")]

mod address;
mod alerts;
mod databases;
mod hosts;
mod judge;
mod monitoring;
mod phase;
mod world;

use std::process::ExitCode;

use clap::{Parser, ValueEnum as _};

use phase::Phase;
use world::World;

/// Live through what happens to a platform in a year, and judge every slot and every alert.
#[derive(Parser)]
struct Cli {
    /// Only this event; can be repeated.
    #[arg(long = "phase", value_name = "PHASE", value_enum)]
    phases: Vec<Phase>,
    /// Let the first host run its jobs without a lock, which must be found.
    #[arg(long)]
    plant_bare: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("drill: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// True if everything was as it must be.
fn run(cli: &Cli) -> anyhow::Result<bool> {
    let phases = match &cli.phases[..] {
        [] => Phase::value_variants(),
        named => named,
    };
    let mut world = World::start(cli.plant_bare)?;
    let episodes = phases.iter().map(|phase| world.live_through(*phase));
    let episodes: Vec<_> = episodes.collect::<anyhow::Result<_>>()?;
    let verdict = judge::judge(&episodes, &world.record()?);
    println!("\n{}\n", verdict.table());
    for fault in &verdict.faults {
        println!("FAULT: {fault}");
    }
    Ok(verdict.faults.is_empty())
}

//! The cost of locks, next to the cost of the driver and the store alone.
//!
//! `cargo xtask bench` starts throw-away servers, names them in the environment (see [`site`]) and
//! runs this program. Every number is compared with a baseline that was measured in the same run,
//! interleaved with it, because a machine is never quiet.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for the terminal: what it prints is its product"
)]
#![allow(clippy::disallowed_methods, reason = "it measures with the real clock")]

mod bare;
mod contend;
mod counts;
mod dashboard;
mod jobs;
mod journal;
mod lost;
mod memory;
mod meter;
mod names;
mod pairs;
mod peers;
mod provider;
mod report;
mod rounds;
mod site;
mod store;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use report::Report;
use site::{Durability, Site};
use store::Store;

/// Measure locks over the stores that the environment names.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    /// Use only this store; can be repeated. All stores if none is named.
    #[arg(long = "store", value_name = "STORE", value_enum)]
    stores: Vec<Store>,
    /// How often to measure each side of a comparison.
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Run only a few short rounds, for a first impression.
    #[arg(long)]
    quick: bool,
    /// Also write the rows to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The roles in which this program starts itself.
#[derive(Subcommand)]
enum Role {
    /// One of the processes that contend for a slot.
    #[command(hide = true)]
    Contend,
    /// Compare with ShedLock and other locks.
    Peers {
        /// Use only this store; can be repeated. All stores that others support, too, if none is
        /// named.
        #[arg(long = "store", value_name = "STORE", value_enum)]
        stores: Vec<Store>,
        /// How often to measure each contender.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: Option<u32>,
        /// Run only a few short rounds, for a first impression.
        #[arg(long)]
        quick: bool,
        /// Also write the outcome to this file.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Measure the pages of the dashboard over a journal with 1,000,000 runs.
    Dashboard {
        /// Measure the jobs of a fleet for 10 s instead of 60 s while its dashboard is requested.
        #[arg(long)]
        quick: bool,
    },
    /// One of the contenders that are compared.
    #[command(hide = true)]
    Peer {
        /// Which one.
        who: String,
        #[arg(value_enum)]
        store: Store,
        /// At most.
        connections: usize,
    },
}

/// How thorough the measurement is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Rounds of a comparison.
    pub(crate) rounds: u32,
    /// How long one side is measured per round.
    pub(crate) slice: Duration,
    /// Calls of one kind between two readings of a counter.
    pub(crate) batch: usize,
    /// Names in a large table.
    pub(crate) names: u32,
}

impl Cli {
    fn effort(&self) -> Effort {
        if self.quick {
            return Effort {
                rounds: self.rounds.min(5),
                slice: Duration::from_millis(100),
                batch: 20,
                names: 100_000,
            };
        }
        Effort {
            rounds: self.rounds,
            slice: Duration::from_millis(200),
            batch: 100,
            names: 1_000_000,
        }
    }
}

fn main() -> ExitCode {
    // Some clients require the program to choose a TLS library, although nothing here uses TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let ran = match &cli.role {
        Some(Role::Contend) => runtime.block_on(contend::obey()),
        Some(Role::Peers {
            stores,
            rounds,
            quick,
            json,
        }) => {
            let lengths = peers::Lengths::new(*rounds, *quick);
            runtime.block_on(peers::run(stores, lengths, json.as_deref()))
        }
        Some(Role::Dashboard { quick }) => runtime.block_on(dashboard::run(*quick)),
        Some(Role::Peer {
            who,
            store,
            connections,
        }) => runtime.block_on(peers::serve(who, *store, *connections)),
        None => runtime.block_on(run(&cli)),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("bench: {error:#}");
    ExitCode::FAILURE
}

async fn run(cli: &Cli) -> anyhow::Result<()> {
    let stores = if cli.stores.is_empty() {
        Store::all()
    } else {
        &cli.stores[..]
    };
    let effort = cli.effort();
    let mut report = Report::new();
    let mut shipped = Vec::new();
    for store in stores.iter().copied() {
        if store == Store::MEMORY {
            continue;
        }
        for durability in [Durability::AsShipped, Durability::Off] {
            if durability == Durability::Off && !store.is_sql() {
                continue;
            }
            let Some(site) = Site::find(store, durability).await? else {
                continue;
            };
            let title = format!("{}, {}", site.version(), site.durability_words());
            eprintln!("bench: {title}");
            let named = || format!("{title} could not be measured");
            pairs::measure(&site, effort, &mut report)
                .await
                .with_context(named)?;
            if durability == Durability::AsShipped {
                lost::measure(&site, effort, &mut report)
                    .await
                    .with_context(named)?;
                wire::measure(&site, &mut report)
                    .await
                    .with_context(named)?;
                journal::measure(&site, effort, &mut report)
                    .await
                    .with_context(named)?;
                shipped.push(site);
            } else {
                // A wait for the disk would hide everything else.
                names::measure(&site, effort, &mut report)
                    .await
                    .with_context(named)?;
            }
        }
    }
    if stores.contains(&Store::MEMORY) {
        memory::measure(effort, &mut report).await?;
        jobs::measure(effort, &mut report).await?;
    }
    // Last, because counting SQLite's statements needs a log subscriber, which would slow down the
    // rest.
    for site in shipped.iter().filter(|site| site.store.is_sql()) {
        if site.store == Store::POSTGRES {
            contend::measure(site, effort, &mut report).await?;
        }
        counts::measure(site, effort, &mut report)
            .await
            .with_context(|| format!("{}: counting failed", site.version()))?;
    }
    println!("{report}");
    if let Some(path) = &cli.json {
        report.write(path)?;
    }
    Ok(())
}

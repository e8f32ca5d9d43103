//! `cargo xtask bench --peers`: real ShedLock, other locks in Rust, and the bare statements next to ours,
//! in one run on the same servers.
//!
//! Each contender is a separate process ([`process`]), so that its CPU time can be measured separately.
//! Measurements are interleaved. The result is [`outcome`], and `docs/performance.md` shows it as tables.

mod contender;
mod document;
mod duel;
mod machine;
mod once;
mod outcome;
mod own;
mod plot;
mod process;
mod table;
mod verdict;
mod wire;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use machine::Machine;
use outcome::Outcome;

use crate::site::{Durability, Site};
use crate::store::Store;

pub(crate) use own::serve;

/// The stores on which there is something to compare with.
const STORES: [Store; 3] = [Store::POSTGRES, Store::MARIADB, Store::REDIS];

/// How thorough the measurement is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// Rounds of a comparison.
    rounds: u32,
    /// How long one contender is measured per round.
    slice: Duration,
    /// How long a JVM may take to warm up.
    warm_up: Duration,
    /// How often a program with one lock is started.
    starts: u32,
}

impl Lengths {
    pub(crate) fn new(rounds: Option<u32>, quick: bool) -> Self {
        if quick {
            return Self {
                rounds: rounds.unwrap_or(5),
                slice: Duration::from_millis(400),
                warm_up: Duration::from_secs(6),
                starts: 3,
            };
        }
        Self {
            rounds: rounds.unwrap_or(15),
            slice: Duration::from_secs(1),
            warm_up: Duration::from_secs(20),
            starts: 11,
        }
    }
}

/// Measures all contenders on these stores, or on all stores.
pub(crate) async fn run(
    stores: &[Store],
    lengths: Lengths,
    json: Option<&Path>,
) -> anyhow::Result<()> {
    let stores = if stores.is_empty() { &STORES } else { stores };
    let mut outcome = Outcome::new(Machine::look(), lengths.rounds, lengths.slice);
    if let Some(other) = stores.iter().find(|store| !STORES.contains(store)) {
        bail!("there is nothing to compare with on {}", other.name());
    }
    let measured = measure(stores, lengths, &mut outcome).await;
    // Even if a later store failed: the measurements so far took long.
    println!("{}", table::markdown(&outcome));
    if let Some(path) = json {
        fs::write(path, outcome.json()?)
            .with_context(|| format!("{} could not be written", path.display()))?;
    }
    measured?;
    if document::is_wanted() {
        document::write(&outcome)?;
    }
    Ok(())
}

async fn measure(stores: &[Store], lengths: Lengths, outcome: &mut Outcome) -> anyhow::Result<()> {
    for store in stores.iter().copied() {
        for durability in [Durability::AsShipped, Durability::Off] {
            if durability == Durability::Off && !store.is_sql() {
                continue;
            }
            let site = Site::find(store, durability).await?;
            let site = site.with_context(|| format!("{} is not there", store.name()))?;
            eprintln!(
                "bench: peers on {}, {}",
                site.version(),
                site.durability_words()
            );
            outcome.saw_server(store, site.version());
            duel::measure(&site, lengths, outcome).context("the contenders' rounds failed")?;
            if durability == Durability::AsShipped {
                wire::measure(&site, outcome)
                    .await
                    .context("what goes over the wire could not be counted")?;
                once::measure(&site, lengths, outcome)
                    .context("the programs with one lock failed")?;
            }
        }
    }
    Ok(())
}

//! The result of a run, as stored in `docs/peers.json`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::machine::Machine;
use crate::store::Store;

/// The whole result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) machine: Machine,
    pub(crate) rounds: u32,
    pub(crate) slice_millis: u64,
    /// The versions that the servers report.
    pub(crate) servers: BTreeMap<String, String>,
    /// The components that the contenders report.
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) wire: Vec<OnWire>,
    pub(crate) programs: Vec<Program>,
}

/// Medians of the rounds of one contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) store: String,
    pub(crate) fsync: bool,
    pub(crate) who: String,
    #[serde(flatten)]
    pub(crate) mode: Mode,
    pub(crate) pairs_per_second: f64,
    /// Over all pairs of all rounds, like the next field.
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
    /// User and system time of the client's process.
    pub(crate) cpu_micros_per_pair: f64,
    pub(crate) lost_per_second: f64,
    /// Our pairs per second divided by this contender's: the median of the rounds' ratios.
    pub(crate) ours_by_this: f64,
}

/// How many workers there are, and whether they share a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mode {
    pub(crate) workers: usize,
    /// All workers use one lock. Otherwise each has its own.
    pub(crate) contended: bool,
}

/// For one pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OnWire {
    pub(crate) store: String,
    pub(crate) who: String,
    /// Counted by the server, if it does.
    pub(crate) statements: Option<f64>,
    pub(crate) round_trips: f64,
    pub(crate) bytes_sent: f64,
    pub(crate) bytes_received: f64,
}

/// From its start to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) store: String,
    pub(crate) who: String,
    pub(crate) millis: f64,
    pub(crate) peak_mib: f64,
}

impl Mode {
    /// All measured modes. One worker alone has no contention.
    pub(crate) const ALL: [Self; 5] = [
        Self::free(1),
        Self::free(16),
        Self::free(64),
        Self::contended(16),
        Self::contended(64),
    ];

    /// Each worker with its own lock.
    pub(crate) const fn free(workers: usize) -> Self {
        Self {
            workers,
            contended: false,
        }
    }

    /// All workers at one lock.
    pub(crate) const fn contended(workers: usize) -> Self {
        Self {
            workers,
            contended: true,
        }
    }
}

impl Outcome {
    /// Nothing measured yet.
    pub(crate) fn new(machine: Machine, rounds: u32, slice: Duration) -> Self {
        Self {
            machine,
            rounds,
            slice_millis: u64::try_from(slice.as_millis()).unwrap_or(u64::MAX),
            servers: BTreeMap::new(),
            versions: BTreeMap::new(),
            cells: Vec::new(),
            wire: Vec::new(),
            programs: Vec::new(),
        }
    }

    /// Records the version that a server reports.
    pub(crate) fn saw_server(&mut self, store: Store, version: &str) {
        let store = store.name().to_owned();
        self.servers.insert(store, version.to_owned());
    }

    /// Records a contender's components on this store.
    pub(crate) fn saw_contender(&mut self, who: Contender, store: Store, versions: &str) {
        let key = format!("{} on {}", who.key(), store.name());
        self.versions.insert(key, versions.to_owned());
    }

    /// The stores, in the order in which they were measured, and with fsync or without.
    pub(crate) fn sites(&self) -> Vec<(&str, bool)> {
        let mut sites: Vec<(&str, bool)> = Vec::new();
        for cell in &self.cells {
            if !sites.contains(&(&*cell.store, cell.fsync)) {
                sites.push((&cell.store, cell.fsync));
            }
        }
        sites
    }

    /// One cell.
    pub(crate) fn cell(&self, site: (&str, bool), who: Contender, mode: Mode) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            (&*cell.store, cell.fsync) == site && cell.who == who.key() && cell.mode == mode
        })
    }

    /// The contenders that were measured there, in their order.
    pub(crate) fn contenders(&self, store: &str) -> Vec<Contender> {
        let mut found = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.store == store) {
            if let Some(who) = Contender::of_key(&cell.who).filter(|who| !found.contains(who)) {
                found.push(who);
            }
        }
        found
    }

    /// The stored form.
    pub(crate) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

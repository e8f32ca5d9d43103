//! Rounds of all contenders, interleaved.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use shedlock_bench_contender::{Order, histogram};

use super::Lengths;
use super::contender::Contender;
use super::outcome::{Cell, Mode, Outcome};
use super::process::{Process, Ran};
use crate::rounds::median;
use crate::site::{Durability, Site};

/// As many connections as the largest number of workers needs.
pub(super) const CONNECTIONS: usize = 64;

/// How many pairs a JVM makes, with sixteen workers, until it counts as warm.
const WARM: u64 = 50_000;

/// Measures all contenders that support the store.
pub(super) fn measure(site: &Site, lengths: Lengths, outcome: &mut Outcome) -> anyhow::Result<()> {
    let mut sides = Vec::new();
    for contender in Contender::of(site.store) {
        let named = || format!("{} on {}", contender.key(), site.store.name());
        let process = Process::start(contender.serve(site, CONNECTIONS)?).with_context(named)?;
        outcome.saw_contender(contender, site.store, process.versions());
        let mut side = Side::new(contender, process);
        side.warm_up(lengths.warm_up).with_context(named)?;
        sides.push(side);
    }
    for mode in Mode::ALL {
        take_turns(&mut sides, mode, lengths)?;
        add(site, mode, &mut sides, outcome);
    }
    Ok(())
}

/// One contender, and the results of its rounds of one mode.
struct Side {
    contender: Contender,
    process: Process,
    rates: Vec<f64>,
    lost: Vec<f64>,
    latencies: Histogram<u64>,
    cpu: Duration,
    pairs: u64,
}

impl Side {
    fn new(contender: Contender, process: Process) -> Self {
        Self {
            contender,
            process,
            rates: Vec::new(),
            lost: Vec::new(),
            latencies: histogram(),
            cpu: Duration::ZERO,
            pairs: 0,
        }
    }

    /// Lets it connect and prepare, and lets a JVM's compiler optimize it.
    fn warm_up(&mut self, limit: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut pairs = 0;
        loop {
            let mode = Mode::free(16);
            pairs += self.round(mode, Duration::from_secs(1))?.answer.pairs();
            if !self.contender.warms_up() || pairs >= WARM || begun.elapsed() >= limit {
                return Ok(());
            }
        }
    }

    fn takes_part(&self, mode: Mode) -> bool {
        self.contender.excludes() || !mode.contended
    }

    fn round(&mut self, mode: Mode, slice: Duration) -> anyhow::Result<Ran> {
        let kind = if mode.contended { "one" } else { "own" };
        let order = Order {
            name: format!("{}-{kind}", self.contender.key()),
            workers: mode.workers,
            contended: mode.contended,
            millis: u64::try_from(slice.as_millis()).unwrap_or(u64::MAX),
            pairs: 0,
        };
        self.process
            .round(&order)
            .with_context(|| format!("{} failed", self.contender.key()))
    }

    fn add(&mut self, ran: &Ran) -> anyhow::Result<()> {
        let seconds = Duration::from_nanos(ran.answer.nanos).as_secs_f64();
        let pairs = ran.answer.pairs();
        self.rates.push(count(pairs) / seconds);
        self.lost.push(count(ran.answer.lost) / seconds);
        for (nanos, times) in &ran.answer.latencies {
            self.latencies.record_n(*nanos, *times)?;
        }
        self.cpu += ran.cpu;
        self.pairs += pairs;
        Ok(())
    }

    fn forget(&mut self) {
        self.rates.clear();
        self.lost.clear();
        self.latencies.clear();
        self.cpu = Duration::ZERO;
        self.pairs = 0;
    }

    fn micros_at(&self, quantile: f64) -> f64 {
        Duration::from_nanos(self.latencies.value_at_quantile(quantile)).as_secs_f64() * 1e6
    }
}

/// In alternating order, so that whatever slows the machine for a while slows all of them. A round
/// before the first one does not count.
fn take_turns(sides: &mut [Side], mode: Mode, lengths: Lengths) -> anyhow::Result<()> {
    for round in 0..=lengths.rounds {
        let mut order: Vec<&mut Side> = sides.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for side in order.into_iter().filter(|side| side.takes_part(mode)) {
            let ran = side.round(mode, lengths.slice)?;
            if round > 0 {
                side.add(&ran)?;
            }
        }
    }
    Ok(())
}

fn add(site: &Site, mode: Mode, sides: &mut [Side], outcome: &mut Outcome) {
    let ours = sides.iter().find(|side| side.contender == Contender::Ours);
    let ours = ours.map_or_else(Vec::new, |side| side.rates.clone());
    for side in sides.iter_mut().filter(|side| side.takes_part(mode)) {
        let ratios: Vec<f64> = ours
            .iter()
            .zip(&side.rates)
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        outcome.cells.push(Cell {
            store: site.store.name().to_owned(),
            fsync: site.durability == Durability::AsShipped,
            who: side.contender.key().to_owned(),
            mode,
            pairs_per_second: round(median(&side.rates)),
            p50_micros: round(side.micros_at(0.5)),
            p99_micros: round(side.micros_at(0.99)),
            cpu_micros_per_pair: round(side.cpu.as_secs_f64() * 1e6 / count(side.pairs)),
            lost_per_second: round(median(&side.lost)),
            ours_by_this: round(median(&ratios)),
        });
        side.forget();
    }
}

/// Rounds to one digit more than is ever shown.
fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

fn count(number: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = number as f64;
    count
}

//! How the number of names in a lock table affects an attempt.

use std::time::{Duration, Instant};

use anyhow::ensure;
use shedlock_core::{LockName, LockProvider};

use crate::Effort;
use crate::provider::{give_back, take};
use crate::report::{Report, Unit};
use crate::rounds::median;
use crate::site::Site;

/// The names of the small table. As many names of the large table are used.
const FEW: u32 = 100;

/// Winning attempts in a table of very many names and in one of a few.
///
/// Both use the same number of names. In the large table they are far apart, or (`all_over`) a
/// different one each time, which on a fresh table is each row's first change.
pub(crate) async fn measure(
    site: &Site,
    effort: Effort,
    report: &mut Report,
) -> anyhow::Result<()> {
    let few = Table::new(site, "few_names", FEW).await?;
    let many = Table::new(site, "many_names", effort.names).await?;
    let mut small = Walk::new(&few, 1);
    let mut large = Walk::new(&many, effort.names / FEW);
    let mut all_over = Walk::new(&many, 611_953);
    for round in 0..=effort.rounds {
        let mut order = [&mut small, &mut large, &mut all_over];
        if round % 2 == 1 {
            order.reverse();
        }
        for walk in order {
            walk.go(effort.slice, round > 0).await?;
        }
    }
    for (what, walk) in [
        ("attempt_among_many_names", &large),
        ("attempt_all_over_many_names", &all_over),
    ] {
        let ratios: Vec<f64> = walk
            .medians
            .iter()
            .zip(&small.medians)
            .map(|(many, few)| many / few)
            .collect();
        report.add(
            site.store,
            what,
            Unit::Microseconds,
            median(&walk.medians),
            Some((median(&small.medians), median(&ratios))),
        );
    }
    Ok(())
}

/// A lock table with this many free locks.
struct Table {
    provider: std::sync::Arc<dyn LockProvider>,
    names: u32,
}

impl Table {
    async fn new(site: &Site, table: &str, names: u32) -> anyhow::Result<Self> {
        let provider = site.table_provider(table).await?;
        // A row that the provider wrote is the template for all others.
        let pattern = LockName::new("0")?;
        let lease = take(&*provider, &pattern).await?;
        give_back(&*provider, &lease).await?;
        let rows = site.fill(table, names).await?;
        ensure!(
            rows == u64::from(names),
            "table {table} has {rows} rows, but should have {names}"
        );
        Ok(Self { provider, names })
    }
}

/// One attempt and unlock after the other, a fixed number of names further each time.
struct Walk<'a> {
    table: &'a Table,
    stride: u32,
    at: u32,
    /// The median of the attempts in each round, in microseconds.
    medians: Vec<f64>,
}

impl<'a> Walk<'a> {
    fn new(table: &'a Table, stride: u32) -> Self {
        Self {
            table,
            stride,
            at: 0,
            medians: Vec::new(),
        }
    }

    async fn go(&mut self, slice: Duration, counts: bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut micros = Vec::new();
        while begun.elapsed() < slice {
            let name = LockName::new(self.at.to_string())?;
            self.at = (self.at + self.stride) % self.table.names;
            let asked = Instant::now();
            let lease = take(&*self.table.provider, &name).await?;
            micros.push(asked.elapsed().as_secs_f64() * 1e6);
            give_back(&*self.table.provider, &lease).await?;
        }
        if counts {
            self.medians.push(median(&micros));
        }
        Ok(())
    }
}

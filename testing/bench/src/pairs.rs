//! Pairs of lock and unlock per second, next to pairs of bare UPDATEs.

use crate::Effort;
use crate::provider::{BarePair, Direct, Executed};
use crate::report::{Report, Unit};
use crate::rounds::{Side, Worker, take_turns};
use crate::site::{Durability, Site};
use crate::store::Store;

/// Workers of the second comparison.
const MANY: usize = 16;

/// One connection: the bare pair, and our provider in each variant.
pub(crate) async fn measure(
    site: &Site,
    effort: Effort,
    report: &mut Report,
) -> anyhow::Result<()> {
    one(site, effort, report).await?;
    many(site, effort, report).await
}

async fn one(site: &Site, effort: Effort, report: &mut Report) -> anyhow::Result<()> {
    let mut names = Vec::new();
    let mut sides = vec![Side::new(bare(site, 1).await?)];
    let mut add = |name: &str, worker: Box<dyn Worker>| {
        names.push(format!("pairs_per_second{name}"));
        sides.push(Side::new(vec![worker]));
    };
    let mut run = None;
    if has_own_connections(site) {
        let own = site.provider(1).await?;
        add("", Box::new(Direct::new(&own, "own")?));
        run = Some(own);
    }
    if site.store.is_sql() {
        let pool = site.pool_provider(1).await?;
        add("_pool", Box::new(Direct::new(&pool, "pool")?));
        run.get_or_insert(pool);
    }
    if let Some(provider) = run {
        add("_executor", Box::new(Executed::new(&provider, "executor")));
    }
    take_turns(&mut sides, effort.rounds, effort.slice).await?;
    let Some((bare, ours)) = sides.split_first() else {
        return Ok(());
    };
    for (name, side) in names.iter().zip(ours) {
        rates(site, report, name, side, bare);
    }
    if let Some(first) = ours.first() {
        latencies(site, report, "pair", first, bare);
    }
    Ok(())
}

/// Sixteen workers, each with its own lock and connection. SQLite has one writer at a time, so
/// there they share a connection, on our side and on the bare one.
async fn many(site: &Site, effort: Effort, report: &mut Report) -> anyhow::Result<()> {
    let connections = if site.store == Store::SQLITE { 1 } else { MANY };
    let mut provider = if has_own_connections(site) {
        site.provider(connections).await?
    } else {
        site.pool_provider(1).await?
    };
    let mut ours: Vec<Box<dyn Worker>> = Vec::new();
    for worker in 0..MANY {
        if !site.store.is_sql() {
            // Their clients send all calls over one connection.
            provider = site.provider(1).await?;
        }
        ours.push(Box::new(Direct::new(&provider, &format!("many-{worker}"))?));
    }
    let mut sides = [Side::new(bare(site, MANY).await?), Side::new(ours)];
    take_turns(&mut sides, effort.rounds, effort.slice).await?;
    let [bare, ours] = &sides;
    rates(site, report, "pairs_per_second_16_workers", ours, bare);
    latencies(site, report, "pair_16_workers", ours, bare);
    Ok(())
}

async fn bare(site: &Site, workers: usize) -> anyhow::Result<Vec<Box<dyn Worker>>> {
    let mut made: Vec<Box<dyn Worker>> = Vec::new();
    let shared = site.bare().await?;
    for worker in 0..workers {
        let mut bare = if site.store == Store::SQLITE || worker == 0 {
            shared.clone()
        } else {
            site.bare().await?
        };
        let name = format!("bare-{worker}-of-{workers}");
        bare.create(&name).await?;
        made.push(Box::new(BarePair { bare, name }));
    }
    Ok(made)
}

/// A provider that opens a SQLite file itself always waits for the disk.
fn has_own_connections(site: &Site) -> bool {
    site.store != Store::SQLITE || site.durability == Durability::AsShipped
}

fn rates(site: &Site, report: &mut Report, what: &str, ours: &Side, bare: &Side) {
    report.add(
        site.store,
        &format!("{what}{}", site.durability.suffix()),
        Unit::PairsPerSecond,
        ours.rate(),
        Some((bare.rate(), ours.ratio_to(bare))),
    );
}

fn latencies(site: &Site, report: &mut Report, what: &str, ours: &Side, bare: &Side) {
    for (word, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let (own, base) = (ours.micros_at(quantile), bare.micros_at(quantile));
        report.add(
            site.store,
            &format!("{what}_{word}{}", site.durability.suffix()),
            Unit::Microseconds,
            own,
            Some((base, own / base)),
        );
    }
}

//! The cost of one pair on the wire: statements, round trips and bytes.

use std::time::Duration;

use anyhow::Context as _;
use shedlock_bench_contender::Order;
use shedlock_conformance::proxy::{Fault, Proxy};
use sqlx::{ConnectOptions as _, Connection as _};

use super::contender::Contender;
use super::outcome::{OnWire, Outcome};
use super::process::Process;
use crate::meter::Meter;
use crate::rounds::median;
use crate::site::Site;
use crate::store::Store;

/// Pairs before anything is counted: drivers connect, and some prepare a statement only at its fifth use.
const BEFORE: u64 = 30;

/// The number of batches, whose median counts, and the pairs of each.
const BATCHES: usize = 5;
const PAIRS: u32 = 5;

/// The delay of replies, so that requests that are sent together count as one round trip.
const LATER: Duration = Duration::from_millis(15);

/// Counts for all contenders that support the store, one after the other, because the server counts the statements of
/// all clients.
pub(super) async fn measure(site: &Site, outcome: &mut Outcome) -> anyhow::Result<()> {
    let mut meter = if site.store.is_sql() {
        let (meter, _) = Meter::new(site).await?;
        Some(meter)
    } else {
        None
    };
    if site.store == Store::POSTGRES {
        // For all sessions from now on, of any driver.
        let mut connection = site.postgres()?.connect().await?;
        sqlx::raw_sql("ALTER DATABASE shedlock_bench SET log_statement = 'all'")
            .execute(&mut connection)
            .await?;
        connection.close().await?;
    }
    for contender in Contender::of(site.store) {
        let counted = one(site, contender, meter.as_mut())
            .await
            .with_context(|| format!("{} on {}", contender.key(), site.store.name()))?;
        outcome.wire.push(counted);
    }
    Ok(())
}

async fn one(
    site: &Site,
    contender: Contender,
    mut meter: Option<&mut Meter>,
) -> anyhow::Result<OnWire> {
    let server = site.address().context("the server has an address")?;
    let proxy = Proxy::start(server).await?;
    let mut process = Process::start(contender.serve(&site.through(proxy.addr())?, 1)?)?;
    let mut order = Order {
        name: format!("{}-wire", contender.key()),
        workers: 1,
        contended: false,
        millis: 0,
        pairs: BEFORE,
    };
    process.round(&order)?;
    let to_store = Duration::ZERO;
    let to_client = LATER;
    proxy
        .set(Fault::Delay {
            to_store,
            to_client,
        })
        .await?;
    order.pairs = PAIRS.into();
    let (mut statements, mut round_trips, mut sent, mut received) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        let before = read(meter.as_deref_mut()).await?;
        let counting = proxy.measure(site.store.chatter());
        process.round(&order)?;
        let traffic = counting.settled().await;
        let after = read(meter.as_deref_mut()).await?;
        if let (Some(before), Some(after)) = (before, after) {
            statements.push(per_pair(after - before));
        }
        round_trips.push(per_pair(u64::try_from(traffic.round_trips)?));
        sent.push(per_pair(traffic.to_store));
        received.push(per_pair(traffic.to_client));
    }
    Ok(OnWire {
        store: site.store.name().to_owned(),
        who: contender.key().to_owned(),
        statements: (!statements.is_empty()).then(|| median(&statements)),
        round_trips: median(&round_trips),
        bytes_sent: median(&sent),
        bytes_received: median(&received),
    })
}

async fn read(meter: Option<&mut Meter>) -> anyhow::Result<Option<u64>> {
    Ok(match meter {
        Some(meter) => Some(meter.read().await?.statements),
        None => None,
    })
}

fn per_pair(all: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let all = all as f64;
    all / f64::from(PAIRS)
}

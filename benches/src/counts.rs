//! Statements and bytes of log for each kind of call, as the server counts them.

use shedlock_core::{ExtendRequest, Extension, Lease, LockName, LockProvider};

use crate::Effort;
use crate::bare::Bare;
use crate::meter::{Meter, Reading};
use crate::provider::{AT_MOST, give_back, lose, take};
use crate::report::{Report, Unit};
use crate::rounds::median;
use crate::site::Site;

/// Batches of each kind; their median counts, since a server also does things of its own.
const BATCHES: usize = 5;

/// Kinds of calls, in the order in which a batch makes them.
const KINDS: [&str; 5] = [
    "first_attempt",
    "lost_attempt",
    "extend",
    "unlock",
    "won_attempt",
];

/// Readings around each kind of call, batch by batch.
#[derive(Default)]
struct Counted {
    statements: Vec<f64>,
    log_bytes: Vec<f64>,
}

/// Counts ours, and for a yardstick the bare statements.
pub(crate) async fn measure(
    site: &Site,
    effort: Effort,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (mut meter, provider) = Meter::new(site).await?;
    let mut ours: [Counted; 5] = Default::default();
    // The first batch connects, prepares and fills pages, and does not count.
    for batch in 0..=BATCHES {
        let names: Result<Vec<_>, _> = (0..effort.batch)
            .map(|lock| LockName::new(format!("counted-{batch}-{lock}")))
            .collect();
        let readings = count(&mut meter, &*provider, &names?).await?;
        if batch > 0 {
            for (kind, pair) in readings.windows(2).enumerate() {
                ours[kind].add(pair, effort.batch);
            }
        }
    }
    let bare = Yardstick::measure(site, &mut meter, effort).await?;
    for (kind, counted) in KINDS.iter().zip(&ours) {
        let bare = bare.of(kind);
        let against = |ours: f64, bare: Option<f64>| bare.map(|bare| (bare, ours / bare));
        let own = median(&counted.statements);
        let base = bare.map(|bare| median(&bare.statements));
        report.add(
            site.store,
            &format!("statements_{kind}"),
            Unit::Statements,
            own,
            against(own, base),
        );
        if counted.log_bytes.is_empty() {
            continue;
        }
        let own = median(&counted.log_bytes);
        let base = bare.map(|bare| median(&bare.log_bytes));
        report.add(
            site.store,
            &format!("wal_bytes_{kind}"),
            Unit::Bytes,
            own,
            against(own, base),
        );
    }
    Ok(())
}

/// One reading before the first kind of call and one after each.
async fn count(
    meter: &mut Meter,
    provider: &dyn LockProvider,
    names: &[LockName],
) -> anyhow::Result<Vec<Reading>> {
    let mut readings = vec![meter.read().await?];
    let mut leases: Vec<Lease> = Vec::new();
    for name in names {
        leases.push(take(provider, name).await?);
    }
    readings.push(meter.read().await?);
    for name in names {
        lose(provider, name).await?;
    }
    readings.push(meter.read().await?);
    for lease in &mut leases {
        match provider.extend(lease, &ExtendRequest::new(AT_MOST)).await? {
            Extension::Extended(extended) => *lease = extended,
            other => anyhow::bail!("{} could not be extended: {other:?}", lease.name()),
        }
    }
    readings.push(meter.read().await?);
    for lease in leases.drain(..) {
        give_back(provider, &lease).await?;
    }
    readings.push(meter.read().await?);
    for name in names {
        leases.push(take(provider, name).await?);
    }
    readings.push(meter.read().await?);
    for lease in &leases {
        give_back(provider, lease).await?;
    }
    Ok(readings)
}

impl Counted {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn add(&mut self, pair: &[Reading], calls: usize) {
        let [before, after] = pair else { return };
        let per_call = |total: u64| total as f64 / calls as f64;
        self.statements
            .push(per_call(after.statements - before.statements));
        if let (Some(before), Some(after)) = (before.log_bytes, after.log_bytes) {
            self.log_bytes.push(per_call(after - before));
        }
    }
}

/// The bare statements, counted in the same way.
#[derive(Default)]
struct Yardstick {
    take: Counted,
    free: Counted,
    miss: Counted,
}

impl Yardstick {
    async fn measure(site: &Site, meter: &mut Meter, effort: Effort) -> anyhow::Result<Self> {
        let mut bare = site.counted_bare().await?;
        let mut yardstick = Self::default();
        for batch in 0..=BATCHES {
            let names: Vec<_> = (0..effort.batch)
                .map(|row| format!("yardstick-{batch}-{row}"))
                .collect();
            for name in &names {
                bare.create(name).await?;
            }
            let readings = Self::count(&mut bare, meter, &names).await?;
            if batch > 0 {
                for (counted, pair) in [
                    &mut yardstick.free,
                    &mut yardstick.take,
                    &mut yardstick.miss,
                ]
                .into_iter()
                .zip(readings.windows(2))
                {
                    counted.add(pair, effort.batch);
                }
            }
        }
        Ok(yardstick)
    }

    async fn count(
        bare: &mut Bare,
        meter: &mut Meter,
        names: &[String],
    ) -> anyhow::Result<Vec<Reading>> {
        let mut readings = vec![meter.read().await?];
        for name in names {
            bare.free(name).await?;
        }
        readings.push(meter.read().await?);
        for name in names {
            bare.take(name).await?;
        }
        readings.push(meter.read().await?);
        for name in names {
            bare.miss(name).await?;
        }
        readings.push(meter.read().await?);
        Ok(readings)
    }

    fn of(&self, kind: &str) -> Option<&Counted> {
        match kind {
            "won_attempt" => Some(&self.take),
            "unlock" => Some(&self.free),
            "lost_attempt" => Some(&self.miss),
            _ => None,
        }
    }
}

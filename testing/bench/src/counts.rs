//! Statements and bytes of log for each kind of call, counted by the server.

use shedlock_core::{ExtendRequest, Extension, Lease, LockName, LockProvider};

use crate::Effort;
use crate::bare::Bare;
use crate::meter::{Meter, Reading};
use crate::provider::{AT_MOST, give_back, lose, take};
use crate::report::{Report, Unit};
use crate::rounds::median;
use crate::site::Site;

/// Batches of each kind. Their median counts, because a server also has background work.
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

/// Counts ours, and the bare statements as the baseline.
pub(crate) async fn measure(
    site: &Site,
    effort: Effort,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (mut meter, provider) = Meter::new(site).await?;
    let mut ours: [Counted; 5] = Default::default();
    // The first batch, which connects, prepares and fills pages, does not count.
    for batch in 0..=BATCHES {
        let names: Result<Vec<_>, _> = (0..effort.batch)
            .map(|lock| LockName::new(format!("counted-{batch}-{lock}")))
            .collect();
        let readings = count(&mut meter, &*provider, &names?).await?;
        if batch > 0 {
            for (counted, pair) in ours.iter_mut().zip(&readings) {
                counted.add(pair, effort.batch);
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

/// Readings before and after each kind of call.
async fn count(
    meter: &mut Meter,
    provider: &dyn LockProvider,
    names: &[LockName],
) -> anyhow::Result<[[Reading; 2]; 5]> {
    let mut leases: Vec<Lease> = Vec::new();
    let before_first = meter.read().await?;
    for name in names {
        leases.push(take(provider, name).await?);
    }
    let after_first = meter.read().await?;
    // The first access to a page cleans up after earlier updates, and logs that. This is not a cost
    // of losing.
    for name in names {
        lose(provider, name).await?;
    }
    let before_lost = meter.read().await?;
    for name in names {
        lose(provider, name).await?;
    }
    let after_lost = meter.read().await?;
    for lease in &mut leases {
        match provider.extend(lease, &ExtendRequest::new(AT_MOST)).await? {
            Extension::Extended(extended) => *lease = extended,
            other => anyhow::bail!("{} could not be extended: {other:?}", lease.name()),
        }
    }
    let extended = meter.read().await?;
    for lease in leases.drain(..) {
        give_back(provider, &lease).await?;
    }
    let unlocked = meter.read().await?;
    for name in names {
        leases.push(take(provider, name).await?);
    }
    let won = meter.read().await?;
    for lease in &leases {
        give_back(provider, lease).await?;
    }
    Ok([
        [before_first, after_first],
        [before_lost, after_lost],
        [after_lost, extended],
        [extended, unlocked],
        [unlocked, won],
    ])
}

impl Counted {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn add(&mut self, [before, after]: &[Reading; 2], calls: usize) {
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
                let [free, take, miss] = &readings;
                yardstick.free.add(free, effort.batch);
                yardstick.take.add(take, effort.batch);
                yardstick.miss.add(miss, effort.batch);
            }
        }
        Ok(yardstick)
    }

    async fn count(
        bare: &mut Bare,
        meter: &mut Meter,
        names: &[String],
    ) -> anyhow::Result<[[Reading; 2]; 3]> {
        let start = meter.read().await?;
        for name in names {
            bare.free(name).await?;
        }
        let freed = meter.read().await?;
        for name in names {
            bare.take(name).await?;
        }
        let taken = meter.read().await?;
        for name in names {
            bare.miss(name).await?;
        }
        let settled = meter.read().await?;
        for name in names {
            bare.miss(name).await?;
        }
        let missed = meter.read().await?;
        Ok([[start, freed], [freed, taken], [settled, missed]])
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

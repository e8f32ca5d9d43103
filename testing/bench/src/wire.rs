//! Round trips and bytes of each call, counted by a proxy between client and server.

use std::time::Duration;

use anyhow::ensure;
use shedlock_conformance::proxy::{Fault, Matcher, Proxy, Traffic};
use shedlock_core::{ExtendRequest, Extension, LockName, LockProvider};

use crate::bare::Bare;
use crate::provider::{AT_MOST, give_back, lose, take};
use crate::report::{Report, Unit};
use crate::rounds::median;
use crate::site::Site;

/// How often each call is counted. A first call, which connects and prepares, is not counted.
const TIMES: usize = 5;

/// The delay of replies, so that requests that are sent together count as one round trip.
const LATER: Duration = Duration::from_millis(15);

const KINDS: [&str; 5] = [
    "first_attempt",
    "lost_attempt",
    "extend",
    "unlock",
    "won_attempt",
];

/// Counts ours, and the bare writes as the baseline. Does nothing for a store without a server.
pub(crate) async fn measure(site: &Site, report: &mut Report) -> anyhow::Result<()> {
    let Some(server) = site.address() else {
        return Ok(());
    };
    let proxy = Proxy::start(server).await?;
    let through = site.through(proxy.addr())?;
    let provider = through.provider(1).await?;
    let mut bare = through.bare().await?;
    let chatter = site.store.chatter();
    let wire = Wire { proxy, chatter };
    let (mut ours, mut yardstick) = (Vec::new(), Vec::new());
    for time in 0..=TIMES {
        let name = LockName::new(format!("wire-{time}"))?;
        let own = wire.of_ours(&*provider, &name).await?;
        let base = wire
            .of_bare(&mut bare, &format!("wire-bare-{time}"))
            .await?;
        if time == 0 {
            let to_store = Duration::ZERO;
            let to_client = LATER;
            wire.proxy
                .set(Fault::Delay {
                    to_store,
                    to_client,
                })
                .await?;
            continue;
        }
        ours.push(own);
        yardstick.push(base);
    }
    for (kind, what) in KINDS.into_iter().enumerate() {
        let own: Vec<_> = ours.iter().map(|time| time[kind]).collect();
        let base: Vec<_> = yardstick.iter().filter_map(|time| time[kind]).collect();
        add(site, report, what, &own, &base);
    }
    Ok(())
}

/// The proxy between client and server.
struct Wire {
    proxy: Proxy,
    chatter: Option<Matcher>,
}

impl Wire {
    /// Each kind of call once.
    async fn of_ours(
        &self,
        provider: &dyn LockProvider,
        name: &LockName,
    ) -> anyhow::Result<[Traffic; 5]> {
        let (first, lease) = self.count(take(provider, name)).await?;
        let (lost, ()) = self.count(lose(provider, name)).await?;
        let longer = ExtendRequest::new(AT_MOST);
        let extend = async { Ok(provider.extend(&lease, &longer).await?) };
        let (extend, extended) = self.count(extend).await?;
        let Extension::Extended(lease) = extended else {
            anyhow::bail!("{name} could not be extended: {extended:?}");
        };
        let (unlock, ()) = self.count(give_back(provider, &lease)).await?;
        let (won, lease) = self.count(take(provider, name)).await?;
        give_back(provider, &lease).await?;
        Ok([first, lost, extend, unlock, won])
    }

    /// The corresponding bare writes.
    async fn of_bare(&self, bare: &mut Bare, name: &str) -> anyhow::Result<[Option<Traffic>; 5]> {
        bare.create(name).await?;
        let (take, ()) = self.count(bare.take(name)).await?;
        let (miss, ()) = self.count(bare.miss(name)).await?;
        let (free, ()) = self.count(bare.free(name)).await?;
        Ok([None, Some(miss), None, Some(free), Some(take)])
    }

    /// The traffic of a call.
    async fn count<T>(
        &self,
        call: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<(Traffic, T)> {
        let _ = self.proxy.measure(self.chatter.clone()).settled().await;
        let meter = self.proxy.measure(self.chatter.clone());
        let answer = call.await?;
        let traffic = meter.settled().await;
        ensure!(
            traffic.round_trips > 0,
            "a call sent nothing through the proxy"
        );
        Ok((traffic, answer))
    }
}

/// A column of the counts.
type Column = fn(&Traffic) -> f64;

fn add(site: &Site, report: &mut Report, what: &str, own: &[Traffic], base: &[Traffic]) {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let columns: [(&str, Unit, Column); 3] = [
        ("round_trips", Unit::RoundTrips, |it| it.round_trips as f64),
        ("bytes_sent", Unit::Bytes, |it| it.to_store as f64),
        ("bytes_received", Unit::Bytes, |it| it.to_client as f64),
    ];
    for (word, unit, column) in columns {
        let middle = |of: &[Traffic]| median(&of.iter().map(column).collect::<Vec<_>>());
        let own = middle(own);
        let base = (!base.is_empty()).then(|| middle(base));
        let base = base.map(|base| (base, own / base));
        report.add(site.store, &format!("{word}_{what}"), unit, own, base);
    }
}

//! Attempts per second at a lock that another owner holds, next to one bare write whose condition
//! does not hold.

use shedlock_core::LockName;

use crate::Effort;
use crate::provider::{BareMiss, Losing, take};
use crate::report::{Report, Unit};
use crate::rounds::{Side, take_turns};
use crate::site::Site;

/// Measures on one connection.
pub(crate) async fn measure(
    site: &Site,
    effort: Effort,
    report: &mut Report,
) -> anyhow::Result<()> {
    const HELD: &str = "held";
    let provider = site.provider(1).await?;
    let _lease = take(&*provider, &LockName::new(HELD)?).await?;
    let losing = Losing::new(&provider, HELD)?;
    let mut bare = BareMiss {
        bare: site.bare().await?,
        name: "bare-held".to_owned(),
    };
    bare.bare.create(&bare.name).await?;
    bare.bare.take(&bare.name).await?;
    let mut sides = [
        Side::new(vec![Box::new(bare)]),
        Side::new(vec![Box::new(losing)]),
    ];
    take_turns(&mut sides, effort.rounds, effort.slice).await?;
    let [bare, ours] = &sides;
    report.add(
        site.store,
        "lost_attempts_per_second",
        Unit::AttemptsPerSecond,
        ours.rate(),
        Some((bare.rate(), ours.ratio_to(bare))),
    );
    Ok(())
}

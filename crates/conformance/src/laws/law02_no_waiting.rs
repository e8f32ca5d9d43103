//! Law 2: an attempt on a held lock returns immediately and reports who holds it and until when.

use std::time::Duration;

use shedlock_core::SkipReason;

use crate::case::cases;
use crate::context::name;
use crate::steps::{abandon, acquire, record, skip_as, skipped_as};
use crate::verdict::ensure;
use crate::wait::now;
use crate::{TestContext, Verdict};

cases!("law02_no_waiting" [Exclusion]:
    a_skip_comes_at_once,
    a_skip_names_holder_and_end [Smoke, Time],
    a_losing_attempt_writes_nothing,
);

/// A skip returns immediately, even if the holder's lease still has long to run.
pub async fn a_skip_comes_at_once(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    abandon(&first, &context.request(&job)).await?;
    let started = now();
    for _ in 0..5 {
        skipped_as(&second, &context.request(&job), SkipReason::Held).await?;
    }
    let took = now().saturating_since(started);
    ensure!(
        took < Duration::from_secs(10),
        "five skips took {took:?}: an attempt must not wait for the lock"
    );
    Ok(())
}

/// A skip contains the holder and the end of its lease.
pub async fn a_skip_names_holder_and_end(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let lease = acquire(&first, &context.request(&job)).await?;
    let skip = skip_as(&second, &context.request(&job), SkipReason::Held).await?;
    ensure!(
        skip.owner.as_deref() == Some(lease.owner().as_str()),
        "the holder is {}, but the skip names {:?}",
        lease.owner(),
        skip.owner
    );
    if let (Some(end), Some(until)) = (lease.locked_until(), skip.until) {
        ensure!(
            end == until,
            "the lease ends at {end:?}, but the skip reports {until:?}"
        );
    }
    Ok(())
}

/// A losing attempt leaves the record unchanged.
pub async fn a_losing_attempt_writes_nothing(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    abandon(&first, &context.request(&job)).await?;
    let mut before = record(&first, &job).await?;
    for _ in 0..3 {
        skipped_as(&second, &context.request(&job), SkipReason::Held).await?;
    }
    let after = record(&first, &job).await?;
    before.read_at = after.read_at;
    ensure!(
        before == after,
        "losing attempts changed the record from {before:?} to {after:?}"
    );
    Ok(())
}

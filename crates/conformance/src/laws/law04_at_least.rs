//! Law 4: after unlock the lock stays taken until acquisition + at-least.

use std::time::Duration;

use shedlock_core::{ExtendRequest, SkipReason, Unlock, UnlockRequest};

use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, extend, not_earlier, not_later, record, skipped_as, still_holds, take,
    unlock, unlock_stale,
};
use crate::verdict::ensure;
use crate::wait::now;
use crate::{TestContext, Verdict};

cases!("law04_at_least" [Time]:
    at_least_is_kept_after_unlock [Smoke],
    at_least_is_counted_from_acquisition,
    at_least_that_is_over_frees_at_once,
    an_extension_neither_shortens_nor_moves_at_least,
    an_extension_may_lengthen_at_least,
    an_extension_may_not_lower_at_least,
    at_least_as_long_as_at_most,
    an_unlock_may_ignore_at_least,
);

/// The lock stays taken until at-least has passed, however quickly the task ends, and no longer.
pub async fn at_least_is_kept_after_unlock(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let at_least = context.timing().medium();
    let request = context.request(&job).with_lock_at_least_for(at_least);
    let taken = take(&first, &request).await?;
    unlock(&first, &taken.lease).await?;
    let next = context
        .take_when_free(&second, &job, context.timing().long())
        .await?;
    not_earlier(&taken, at_least, &next)?;
    not_later(&taken, at_least, context.timing().lateness(), &next)
}

/// At-least counts from the acquisition, not from the unlock.
pub async fn at_least_is_counted_from_acquisition(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let at_least = context.timing().long();
    let request = context.request(&job).with_lock_at_least_for(at_least);
    let taken = take(&provider, &request).await?;
    context.pass(context.timing().short()).await;
    unlock(&provider, &taken.lease).await?;
    ends_at(context, &provider, &taken, at_least).await
}

/// An unlock after at-least has passed frees the lock immediately.
pub async fn at_least_that_is_over_frees_at_once(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let short = context.timing().short();
    let request = context.request(&job).with_lock_at_least_for(short);
    let lease = acquire(&first, &request).await?;
    context.pass(context.timing().past(short)).await;
    unlock(&first, &lease).await?;
    abandon(&second, &context.request(&job)).await
}

/// An extension does not change the end of at-least, which counts from the acquisition.
pub async fn an_extension_neither_shortens_nor_moves_at_least(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let at_least = context.timing().long();
    let request = context.request(&job).with_lock_at_least_for(at_least);
    let taken = take(&provider, &request).await?;
    context.pass(context.timing().short()).await;
    let longer = ExtendRequest::new(2 * context.timing().long());
    let lease = extend(&provider, &taken.lease, &longer).await?;
    unlock(&provider, &lease).await?;
    skipped_as(&provider, &context.request(&job), SkipReason::AtLeast).await?;
    ends_at(context, &provider, &taken, at_least).await
}

/// An extension may lengthen at-least, which still counts from the acquisition.
pub async fn an_extension_may_lengthen_at_least(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let at_least = context.timing().long();
    let taken = take(&provider, &context.request(&job)).await?;
    context.pass(context.timing().short()).await;
    let longer = ExtendRequest::new(2 * at_least).with_lock_at_least_for(at_least);
    let lease = extend(&provider, &taken.lease, &longer).await?;
    ensure!(
        lease.lock_at_least_for() == at_least,
        "the extended lease should have an at-least of {at_least:?}, but has {:?}",
        lease.lock_at_least_for()
    );
    unlock(&provider, &lease).await?;
    skipped_as(&provider, &context.request(&job), SkipReason::AtLeast).await?;
    ends_at(context, &provider, &taken, at_least).await
}

/// An extension with a lower at-least does not lower it; an at-most below at-least is refused.
pub async fn an_extension_may_not_lower_at_least(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let at_least = context.timing().long();
    let request = context.request(&job).with_lock_at_least_for(at_least);
    let taken = take(&provider, &request).await?;
    let lower = ExtendRequest::new(at_least).with_lock_at_least_for(Duration::ZERO);
    let lease = extend(&provider, &taken.lease, &lower).await?;
    let shorter = ExtendRequest::new(at_least / 2);
    let error = provider.extend(&lease, &shorter).await.err();
    ensure!(
        error.as_ref().map(shedlock_core::Error::kind)
            == Some(shedlock_core::ErrorKind::InvalidInput),
        "an extension that ends before at-least does should be refused as invalid input, but \
         returned {error:?}"
    );
    unlock(&provider, &lease).await?;
    ends_at(context, &provider, &taken, at_least).await
}

/// At-least may equal at-most: the unlock then does not change the end.
pub async fn at_least_as_long_as_at_most(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let medium = context.timing().medium();
    let request = context
        .request_for(&job, medium)
        .with_lock_at_least_for(medium);
    let taken = take(&first, &request).await?;
    let answer = first.unlock(&taken.lease, &UnlockRequest::new()).await?;
    // On a loaded machine the lease may expire before it is unlocked.
    ensure!(
        answer == Unlock::Unlocked || now().saturating_since(taken.asked) >= medium,
        "unlocking the running {:?} returned {answer:?}",
        taken.lease
    );
    let next = context
        .take_when_free(&second, &job, context.timing().long())
        .await?;
    not_earlier(&taken, medium, &next)?;
    not_later(&taken, medium, context.timing().lateness(), &next)
}

/// An unlock may ignore at-least, for a task that never ran: the lock is free immediately, and the
/// lease has ended.
pub async fn an_unlock_may_ignore_at_least(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let request = context
        .request(&job)
        .with_lock_at_least_for(context.timing().long());
    let lease = acquire(&first, &request).await?;
    let at_once = UnlockRequest::new().ignoring_at_least();
    for _ in 0..2 {
        let answer = first.unlock(&lease, &at_once).await?;
        ensure!(
            answer == Unlock::Unlocked,
            "an unlock that ignores at-least should work, even twice, but returned {answer:?}"
        );
    }
    let next = acquire(&second, &context.request(&job)).await?;
    ensure!(
        unlock_stale(&first, &lease, &at_once).await? == Unlock::Lost,
        "an unlock that ignores at-least was not lost although another owner holds the lock"
    );
    still_holds(&second, &next).await
}

/// Checks in the store's record that an unlocked lock ends `kept` after its acquisition.
async fn ends_at(
    context: &TestContext,
    provider: &crate::Provider,
    taken: &crate::steps::Taken,
    kept: Duration,
) -> Verdict {
    let found = record(provider, taken.lease.name()).await?;
    let (Some(from), Some(until)) = (
        taken.lease.acquired_at().or(found.locked_at),
        found.locked_until,
    ) else {
        // No times to read. The skip still shows that the lock is kept.
        skipped_as(
            provider,
            &context.request(taken.lease.name()),
            SkipReason::AtLeast,
        )
        .await?;
        return Ok(());
    };
    let found = until.duration_since(from).unwrap_or_default();
    let tolerance = context.capabilities().granularity + Duration::from_millis(1);
    ensure!(
        found >= kept && found <= kept + tolerance,
        "{} should be kept {kept:?} from its acquisition, but its record shows {found:?}",
        taken.lease.name()
    );
    Ok(())
}

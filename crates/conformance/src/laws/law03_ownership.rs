//! Law 3: unlock and extend act only on the lease they were called with, while it runs.

use std::time::Duration;

use shedlock_core::{ExtendRequest, Extension, LockState, SkipReason, Unlock, UnlockRequest};

use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, extend, extend_is_lost, is_free, record, skipped_as, still_holds, unlock,
    unlock_is_lost,
};
use crate::verdict::ensure;
use crate::{Stop, TestContext, Verdict};

cases!("law03_ownership" [Ownership]:
    stale_unlock_by_another_client [Smoke],
    stale_extend_by_another_client,
    stale_unlock_by_another_lease_of_this_client,
    stale_extend_by_another_lease_of_this_client,
    unlock_after_expiry_is_lost [Time],
    extend_after_expiry_is_lost [Time],
    unlock_twice_is_not_lost [Smoke],
    unlock_twice_is_lost_once_another_owner_holds,
    extend_after_unlock_is_lost [Smoke],
    extend_after_unlock_with_at_least_left_is_lost,
    a_lock_kept_by_at_least_belongs_to_no_one [Record],
    calls_with_a_lease_from_before_an_extension_are_answered_correctly,
    stale_calls_on_a_deleted_record_are_lost [Record],
    any_client_may_act_with_the_lease,
    a_set_of_extensions_is_answered_in_its_order,
);

/// Each extension of a set is answered as it would be alone, in the order of the leases.
pub async fn a_set_of_extensions_is_answered_in_its_order(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let over = acquire(&provider, &context.request(&name("over"))).await?;
    unlock(&provider, &over).await?;
    let runs = acquire(&provider, &context.request(&name("runs"))).await?;
    let (longer, never) = (2 * context.timing().long(), Duration::ZERO);
    let leases = [
        (over, ExtendRequest::new(longer)),
        (runs.clone(), ExtendRequest::new(never)),
        (runs, ExtendRequest::new(longer)),
    ];
    let results = provider.extend_set(&leases).await;
    let [
        Ok(Extension::Lost),
        Err(_),
        Ok(Extension::Extended(extended)),
    ] = &results[..]
    else {
        return Err(Stop::failed(format!(
            "an ended lease, a bad request and a lease that runs had the results {results:?}"
        )));
    };
    still_holds(&provider, extended).await?;
    unlock(&provider, extended).await
}

/// If a lease expired and another client acquired the lock, a late unlock is lost and changes
/// nothing.
pub async fn stale_unlock_by_another_client(context: &TestContext) -> Verdict {
    let (late, next) = context.two().await?;
    let job = name("job");
    let short = context.timing().short();
    let stale = acquire(&late, &context.request_for(&job, short)).await?;
    let taken = context
        .take_when_free(&next, &job, context.timing().long())
        .await?;
    unlock_is_lost(&late, &stale).await?;
    still_holds(&next, &taken.lease).await?;
    unlock(&next, &taken.lease).await
}

/// If a lease expired and another client acquired the lock, a late extension is lost and changes
/// nothing.
pub async fn stale_extend_by_another_client(context: &TestContext) -> Verdict {
    let (late, next) = context.two().await?;
    let job = name("job");
    let short = context.timing().short();
    let stale = acquire(&late, &context.request_for(&job, short)).await?;
    let taken = context
        .take_when_free(&next, &job, context.timing().long())
        .await?;
    extend_is_lost(&late, &stale, context.timing().long()).await?;
    still_holds(&next, &taken.lease).await?;
    unlock(&next, &taken.lease).await
}

/// A late unlock is lost even if both leases belong to one client in one process.
pub async fn stale_unlock_by_another_lease_of_this_client(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let short = context.timing().short();
    let stale = acquire(&provider, &context.request_for(&job, short)).await?;
    let taken = context
        .take_when_free(&provider, &job, context.timing().long())
        .await?;
    unlock_is_lost(&provider, &stale).await?;
    still_holds(&provider, &taken.lease).await?;
    unlock(&provider, &taken.lease).await
}

/// A late extension is lost even if both leases belong to one client in one process.
pub async fn stale_extend_by_another_lease_of_this_client(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let short = context.timing().short();
    let stale = acquire(&provider, &context.request_for(&job, short)).await?;
    let taken = context
        .take_when_free(&provider, &job, context.timing().long())
        .await?;
    extend_is_lost(&provider, &stale, context.timing().long()).await?;
    still_holds(&provider, &taken.lease).await?;
    unlock(&provider, &taken.lease).await
}

/// An unlock of an expired lease is lost, even if no one has acquired the lock since.
pub async fn unlock_after_expiry_is_lost(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let short = context.timing().short();
    let stale = acquire(&provider, &context.request_for(&job, short)).await?;
    context.pass(context.timing().past(short)).await;
    unlock_is_lost(&provider, &stale).await?;
    is_free(&provider, &job).await?;
    abandon(&provider, &context.request(&job)).await
}

/// An extension must not revive an expired lease, even if no one has acquired the lock since.
pub async fn extend_after_expiry_is_lost(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let short = context.timing().short();
    let stale = acquire(&provider, &context.request_for(&job, short)).await?;
    context.pass(context.timing().past(short)).await;
    extend_is_lost(&provider, &stale, context.timing().long()).await?;
    is_free(&provider, &job).await?;
    abandon(&provider, &context.request(&job)).await
}

/// A repeated unlock is not lost, because the first reply may have been; with and without at-least
/// remaining.
pub async fn unlock_twice_is_not_lost(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let long = context.timing().long();
    for at_least in [std::time::Duration::ZERO, long] {
        let job = name(if at_least.is_zero() {
            "at once"
        } else {
            "kept"
        });
        let request = context.request(&job).with_lock_at_least_for(at_least);
        let lease = acquire(&first, &request).await?;
        unlock(&first, &lease).await?;
        unlock(&first, &lease).await?;
        // The connection of the first call may be gone along with its reply.
        unlock(&second, &lease).await?;
    }
    Ok(())
}

/// A repeated unlock must not free the next owner's lease.
pub async fn unlock_twice_is_lost_once_another_owner_holds(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let lease = acquire(&first, &context.request(&job)).await?;
    unlock(&first, &lease).await?;
    let next = acquire(&second, &context.request(&job)).await?;
    unlock_is_lost(&first, &lease).await?;
    still_holds(&second, &next).await?;
    unlock(&second, &next).await
}

/// An extension after the unlock is lost: an unlock ends ownership.
pub async fn extend_after_unlock_is_lost(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let lease = acquire(&provider, &context.request(&job)).await?;
    unlock(&provider, &lease).await?;
    extend_is_lost(&provider, &lease, context.timing().long()).await?;
    is_free(&provider, &job).await
}

/// A delayed extension that arrives after the unlock must not revive the lease, although the record
/// is still locked.
pub async fn extend_after_unlock_with_at_least_left_is_lost(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let request = context
        .request(&job)
        .with_lock_at_least_for(context.timing().long());
    let lease = acquire(&provider, &request).await?;
    unlock(&provider, &lease).await?;
    let before = record(&provider, &job).await?;
    extend_is_lost(&provider, &lease, 2 * context.timing().long()).await?;
    let after = record(&provider, &job).await?;
    ensure!(
        after.state == LockState::AtLeast && after.locked_until == before.locked_until,
        "a delayed extension changed a lock kept by at-least: before {before:?}, after {after:?}"
    );
    Ok(())
}

/// While at-least keeps the lock taken, the record names no holder, and a skip gives the reason.
pub async fn a_lock_kept_by_at_least_belongs_to_no_one(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let request = context
        .request(&job)
        .with_lock_at_least_for(context.timing().long());
    let lease = acquire(&first, &request).await?;
    unlock(&first, &lease).await?;
    let found = record(&second, &job).await?;
    ensure!(
        found.state == LockState::AtLeast,
        "after an unlock with at-least left the record should show at-least, but shows {found:?}"
    );
    skipped_as(&second, &context.request(&job), SkipReason::AtLeast).await?;
    skipped_as(&first, &context.request(&job), SkipReason::AtLeast).await
}

/// If the reply to an extension is lost, the call is repeated with the lease from before: that must
/// work. An unlock with that old lease may work or be lost, but its result must be true.
pub async fn calls_with_a_lease_from_before_an_extension_are_answered_correctly(
    context: &TestContext,
) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let first = acquire(&provider, &context.request(&job)).await?;
    let request = ExtendRequest::new(2 * context.timing().long());
    let _ = extend(&provider, &first, &request).await?;
    let newest = match provider.extend(&first, &request).await? {
        Extension::Extended(lease) => lease,
        answer => {
            return Err(Stop::failed(format!(
                "an extension repeated with the same lease should work, but returned {answer:?}: \
                 after a lost reply, a client can only repeat the call"
            )));
        }
    };
    still_holds(&provider, &newest).await?;
    match provider.unlock(&first, &UnlockRequest::new()).await? {
        Unlock::Unlocked => is_free(&provider, &job).await,
        _ => {
            still_holds(&provider, &newest).await?;
            unlock(&provider, &newest).await
        }
    }
}

/// If an operator deleted the record by hand, the lease is gone, and its calls are lost.
pub async fn stale_calls_on_a_deleted_record_are_lost(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let lease = acquire(&provider, &context.request(&job)).await?;
    context.delete_record(&job).await?;
    extend_is_lost(&provider, &lease, context.timing().long()).await?;
    is_free(&provider, &job).await?;
    unlock_is_lost(&provider, &lease).await?;
    is_free(&provider, &job).await
}

/// A lease is not bound to the connection that won it: after a reconnect, another client can extend
/// and unlock it.
pub async fn any_client_may_act_with_the_lease(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let mut lease = acquire(&first, &context.request(&job)).await?;
    drop(first);
    let request = ExtendRequest::new(context.timing().long());
    lease = extend(&second, &lease, &request).await?;
    unlock(&second, &lease).await?;
    is_free(&second, &job).await
}

//! Law 11: a provider never joins the caller's transaction, nor one that was left open in its pool.

use std::sync::{Arc, Mutex, PoisonError};

use crate::case::cases;
use crate::context::{granted, name};
use shedlock_core::{ErrorKind, ExtendRequest};

use crate::steps::{acquire, attempt_error_as, extend, is_free, skipped, still_holds, unlock};
use crate::{LeftOpen, Stop, TestContext, Verdict};

cases!("law11_own_connection" [Connection]:
    a_lock_outlives_the_callers_rollback [Smoke],
    an_unlock_outlives_the_callers_rollback,
    a_lock_is_not_written_into_a_transaction_that_was_left_open [Smoke],
    a_lock_that_was_released_since_is_not_seen_as_held,
    a_lock_that_was_taken_since_is_not_seen_as_free,
    a_pool_that_lends_only_open_transactions_is_refused,
);

/// A lock that is acquired while the caller has an open transaction outlives that transaction's
/// rollback.
pub async fn a_lock_outlives_the_callers_rollback(context: &TestContext) -> Verdict {
    let result = Arc::new(Mutex::new(None));
    let request = context.request(&name("job"));
    let keep = Arc::clone(&result);
    let work: crate::Work = Box::new(|provider| {
        Box::pin(async move {
            let lease = acquire(&provider, &request).await;
            *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
        })
    });
    inside(context, work).await?;
    let lease = result
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
        .ok_or_else(|| Stop::failed("the harness did not run the work"))??;
    let provider = context.provider().await?;
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

/// An unlock while the caller has an open transaction outlives that transaction's rollback.
pub async fn an_unlock_outlives_the_callers_rollback(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let lease = acquire(&provider, &context.request(&name("job"))).await?;
    let result = Arc::new(Mutex::new(None));
    let (keep, held) = (Arc::clone(&result), lease.clone());
    let work: crate::Work = Box::new(|provider| {
        Box::pin(async move {
            let unlocked = unlock(&provider, &held).await;
            *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(unlocked);
        })
    });
    inside(context, work).await?;
    let unlocked = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    unlocked.ok_or_else(|| Stop::failed("the harness did not run the work"))??;
    is_free(&provider, lease.name()).await
}

/// Each call over connections that were left in open transactions has the same effect as over
/// others.
pub async fn a_lock_is_not_written_into_a_transaction_that_was_left_open(
    context: &TestContext,
) -> Verdict {
    let other = context.provider().await?;
    let pool = left_open(context).await?;
    // The record exists already, or the first call creates it.
    for _ in 0..2 {
        leave(&pool).await?;
        let request = context.request(&name("job"));
        let mut lease = acquire(&pool.provider, &request).await?;
        skipped(&other, &context.request(&name("job"))).await?;
        still_holds(&other, &lease).await?;
        leave(&pool).await?;
        let longer = ExtendRequest::new(context.timing().long());
        lease = extend(&pool.provider, &lease, &longer).await?;
        still_holds(&other, &lease).await?;
        leave(&pool).await?;
        unlock(&pool.provider, &lease).await?;
        is_free(&other, &name("job")).await?;
    }
    Ok(())
}

/// A transaction that was left open while the lock was held does not make an attempt lose.
pub async fn a_lock_that_was_released_since_is_not_seen_as_held(context: &TestContext) -> Verdict {
    let other = context.provider().await?;
    let pool = left_open(context).await?;
    let lease = acquire(&other, &context.request(&name("job"))).await?;
    leave(&pool).await?;
    unlock(&other, &lease).await?;
    let lease = acquire(&pool.provider, &context.request(&name("job"))).await?;
    still_holds(&other, &lease).await
}

/// A transaction that was left open while the lock was free does not let an attempt win.
pub async fn a_lock_that_was_taken_since_is_not_seen_as_free(context: &TestContext) -> Verdict {
    let other = context.provider().await?;
    let pool = left_open(context).await?;
    let lease = acquire(&other, &context.request(&name("job"))).await?;
    unlock(&other, &lease).await?;
    leave(&pool).await?;
    let lease = acquire(&other, &context.request(&name("job"))).await?;
    skipped(&pool.provider, &context.request(&name("job"))).await?;
    still_holds(&other, &lease).await
}

/// A pool whose connections are all in transactions is an error of configuration, and nothing was
/// written.
pub async fn a_pool_that_lends_only_open_transactions_is_refused(context: &TestContext) -> Verdict {
    let other = context.provider().await?;
    let pool = left_open(context).await?;
    let held = acquire(&pool.provider, &context.request(&name("held"))).await?;
    (pool.always)();
    let request = context.request(&name("job"));
    attempt_error_as(&pool.provider, &request, &[ErrorKind::Configuration]).await?;
    let lease = acquire(&other, &context.request(&name("job"))).await?;
    still_holds(&other, &lease).await?;
    still_holds(&other, &held).await
}

async fn left_open(context: &TestContext) -> Result<LeftOpen, Stop> {
    granted(
        context.namespace().left_open(),
        "create a pool whose connections are left in transactions",
        "Namespace::left_open",
    )
    .await
}

async fn leave(pool: &LeftOpen) -> Verdict {
    (pool.leave)()
        .await
        .map_err(|error| Stop::failed(format!("cannot leave transactions open: {error}")))
}

async fn inside(context: &TestContext, work: crate::Work) -> Verdict {
    granted(
        context.namespace().inside_rolled_back_transaction(work),
        "open a transaction of the caller's",
        "Namespace::inside_rolled_back_transaction",
    )
    .await
}

//! Law 11: a provider never joins the caller's transaction.

use std::sync::{Arc, Mutex, PoisonError};

use crate::case::cases;
use crate::context::{granted, name};
use crate::steps::{acquire, is_free, still_holds, unlock};
use crate::{Stop, TestContext, Verdict};

cases!("law11_own_connection" [Connection]:
    a_lock_outlives_the_callers_rollback [Smoke],
    an_unlock_outlives_the_callers_rollback,
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

async fn inside(context: &TestContext, work: crate::Work) -> Verdict {
    granted(
        context.namespace().inside_rolled_back_transaction(work),
        "open a transaction of the caller's",
        "Namespace::inside_rolled_back_transaction",
    )
    .await
}

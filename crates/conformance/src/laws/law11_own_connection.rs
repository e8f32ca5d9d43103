//! Law 11: a provider never joins the caller's transaction.

use std::sync::{Arc, Mutex, PoisonError};

use crate::case::cases;
use crate::setting::{granted, name};
use crate::steps::{acquire, is_free, still_holds, unlock};
use crate::{Setting, Stop, Verdict};

cases!("law11_own_connection":
    a_lock_outlives_the_callers_rollback,
    an_unlock_outlives_the_callers_rollback,
);

/// Taken while a transaction of the caller's is open that is rolled back then.
pub async fn a_lock_outlives_the_callers_rollback(setting: &Setting) -> Verdict {
    let result = Arc::new(Mutex::new(None));
    let request = setting.request(&name("job"));
    let keep = Arc::clone(&result);
    let work: crate::Work = Box::new(|provider| {
        Box::pin(async move {
            let lease = acquire(&provider, &request).await;
            *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
        })
    });
    inside(setting, work).await?;
    let lease = result
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
        .ok_or_else(|| Stop::failed("the harness did not run the work"))??;
    let provider = setting.provider().await?;
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

/// The same for the unlock.
pub async fn an_unlock_outlives_the_callers_rollback(setting: &Setting) -> Verdict {
    let provider = setting.provider().await?;
    let lease = acquire(&provider, &setting.request(&name("job"))).await?;
    let result = Arc::new(Mutex::new(None));
    let (keep, held) = (Arc::clone(&result), lease.clone());
    let work: crate::Work = Box::new(|provider| {
        Box::pin(async move {
            let unlocked = unlock(&provider, &held).await;
            *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(unlocked);
        })
    });
    inside(setting, work).await?;
    let unlocked = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    unlocked.ok_or_else(|| Stop::failed("the harness did not run the work"))??;
    is_free(&provider, lease.name()).await
}

async fn inside(setting: &Setting, work: crate::Work) -> Verdict {
    granted(
        setting.space().inside_rolled_back_transaction(work),
        "open a transaction of the caller's",
        "Space::inside_rolled_back_transaction",
    )
    .await
}

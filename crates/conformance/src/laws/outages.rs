//! Law 6 while the store is unreachable: every call returns a retryable error, and when the store
//! is back, the same provider continues.

use shedlock_core::{Error, ErrorKind, ExtendRequest, Lease, ListRequest, UnlockRequest, admin};

use super::faults::{extended, is_retryable};
use crate::case::cases;
use crate::context::name;
use crate::line::Line;
use crate::proxy::Fault;
use crate::steps::{acquire, is_free, still_holds, unlock};
use crate::verdict::ensure;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("law06_held_is_not_broken" [Connection]:
    a_provider_that_cannot_reach_its_store_says_so_and_recovers,
    a_store_that_goes_away_is_an_error_of_every_call_and_recovers,
    a_store_that_restarts_is_used_again,
);

/// If connections are refused, the error reports that nothing was written, once the provider's
/// existing connections are used up. When the store is back, the provider works again.
pub async fn a_provider_that_cannot_reach_its_store_says_so_and_recovers(
    context: &TestContext,
) -> Verdict {
    let line = Line::new(context).await?;
    let fresh = line.another_through(context).await?;
    line.proxy.set(Fault::Refuse).await?;
    let mut error = None;
    for i in 0..5 {
        // A call on an existing connection may only discover that it is broken; then an unknown
        // outcome is correct.
        let request = context.request(&name(&format!("job-{i}")));
        let refused = failed("an attempt", fresh.attempt(&request).await)?;
        let is_certain = refused.kind() == ErrorKind::Unavailable;
        error = Some(refused);
        if is_certain {
            break;
        }
    }
    ensure!(
        error
            .as_ref()
            .is_some_and(|error| error.kind() == ErrorKind::Unavailable),
        "an attempt without a connection cannot have written anything, so its error should be of \
         kind Unavailable, but is {error:?}"
    );
    let request = context.request(&name("job"));
    line.proxy.heal().await?;
    let lease = line.recovers(&fresh, &request).await?;
    still_holds(&line.direct, &lease).await?;
    unlock(&fresh, &lease).await
}

/// If the store goes away, every call returns an error (attempt, extend, unlock, withdraw, inspect,
/// list and forced unlock). None reports that another owner holds the lock or that the lease is
/// lost. When the store is back, the provider and its lease continue.
pub async fn a_store_that_goes_away_is_an_error_of_every_call_and_recovers(
    context: &TestContext,
) -> Verdict {
    let line = Line::new(context).await?;
    let request = context.request(&name("held"));
    let lease = acquire(&line.through, &request).await?;
    line.proxy.set(Fault::Refuse).await?;
    every_call_fails(context, &line.through, &lease).await?;
    line.proxy.heal().await?;
    let again = line.recovers(&line.through, &request).await?;
    ensure!(
        again.fencing_token() == lease.fencing_token(),
        "after the store came back the lease {lease:?} became {again:?}"
    );
    let longer = ExtendRequest::new(context.timing().long());
    let _ = extended(line.through.extend(&lease, &longer).await?)?;
    unlock(&line.through, &lease).await?;
    is_free(&line.direct, lease.name()).await
}

async fn every_call_fails(context: &TestContext, provider: &Provider, lease: &Lease) -> Verdict {
    let another = context.request(&name("another"));
    failed("an attempt", provider.attempt(&another).await)?;
    let longer = ExtendRequest::new(context.timing().long());
    failed("an extension", provider.extend(lease, &longer).await)?;
    let request = UnlockRequest::new();
    failed("an unlock", provider.unlock(lease, &request).await)?;
    failed("a withdrawal", provider.withdraw(&another).await)?;
    failed("an inspection", provider.inspect(lease.name()).await)?;
    failed("a list", provider.list(&ListRequest::new()).await)?;
    let force = shedlock_core::ForceUnlockRequest::new(lease.name().clone());
    failed(
        "a forced unlock",
        admin::force_unlock(&**provider, &force).await,
    )?;
    failed("a check", provider.check().await).map(drop)
}

/// If the store is stopped and started, calls fail meanwhile and work afterwards with the same
/// provider. Leases survive exactly if the provider declares it.
pub async fn a_store_that_restarts_is_used_again(context: &TestContext) -> Verdict {
    let own = context.on_own_store().await?;
    let verdict = restart(&own).await;
    let closed = own.namespace().close().await;
    verdict?;
    closed.map_err(|error| Stop::harness("remove the store", &*error))
}

async fn restart(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let held = context.request(&name("held"));
    let lease = acquire(&provider, &held).await?;
    context.stop_store().await?;
    every_call_fails(context, &provider, &lease).await?;
    context.start_store().await?;
    let next = context.request(&name("next"));
    let after = Line::ask_until_answered(&provider, &next).await?;
    unlock(&provider, &after).await?;
    if context.capabilities().durable {
        still_holds(&provider, &lease).await?;
        unlock(&provider, &lease).await?;
    }
    Ok(())
}

fn failed<T: std::fmt::Debug>(what: &str, answer: Result<T, Error>) -> Result<Error, Stop> {
    match answer {
        Err(error) => {
            is_retryable(what, &error)?;
            Ok(error)
        }
        Ok(answer) => Err(Stop::failed(format!(
            "{what} without a store should be an error, but returned {answer:?}"
        ))),
    }
}

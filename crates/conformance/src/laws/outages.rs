//! Law 6 while the store is gone: every call is an error that can be tried again, and when the store
//! is back, the same provider goes on.

use shedlock_core::{Error, ErrorKind, ExtendRequest, Lease, ListRequest, UnlockRequest};

use super::faults::{extended, is_retryable};
use crate::case::cases;
use crate::line::Line;
use crate::proxy::Fault;
use crate::setting::name;
use crate::steps::{acquire, is_free, still_holds, unlock};
use crate::verdict::ensure;
use crate::{Provider, Setting, Stop, Verdict};

cases!("law06_held_is_not_broken":
    a_provider_that_cannot_reach_its_store_says_so_and_recovers,
    a_store_that_goes_away_is_an_error_of_every_call_and_recovers,
    a_store_that_restarts_is_used_again,
);

/// Connections are refused: once those that it had are used up, its error says that nothing can
/// have been written; and it works when the store is there.
pub async fn a_provider_that_cannot_reach_its_store_says_so_and_recovers(
    setting: &Setting,
) -> Verdict {
    let line = Line::new(setting).await?;
    let fresh = line.another_through(setting).await?;
    line.proxy.set(Fault::Refuse).await?;
    let mut error = None;
    for i in 0..5 {
        // A connection from before may be found broken only by using it: unknown is right then.
        let request = setting.request(&name(&format!("job-{i}")));
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
        "nothing can have been written by an attempt without a connection, so its error should \
         be of kind Unavailable, but is {error:?}"
    );
    let request = setting.request(&name("job"));
    line.proxy.heal().await?;
    let lease = line.recovers(&fresh, &request).await?;
    still_holds(&line.direct, &lease).await?;
    unlock(&fresh, &lease).await
}

/// Attempt, extend, unlock, withdraw, inspect, list, forced unlock: none of them says that
/// somebody else holds the lock or that the lease is lost. When the store is back, the provider
/// and its lease go on.
pub async fn a_store_that_goes_away_is_an_error_of_every_call_and_recovers(
    setting: &Setting,
) -> Verdict {
    let line = Line::new(setting).await?;
    let request = setting.request(&name("held"));
    let lease = acquire(&line.through, &request).await?;
    line.proxy.set(Fault::Refuse).await?;
    every_call_fails(setting, &line.through, &lease).await?;
    line.proxy.heal().await?;
    let again = line.recovers(&line.through, &request).await?;
    ensure!(
        again.fencing_token() == lease.fencing_token(),
        "after the store came back the lease {lease:?} became {again:?}"
    );
    if setting.capabilities().extend {
        let longer = ExtendRequest::new(setting.pace().long());
        let _ = extended(line.through.extend(&lease, &longer).await?)?;
    }
    unlock(&line.through, &lease).await?;
    is_free(&line.direct, lease.name()).await
}

async fn every_call_fails(setting: &Setting, provider: &Provider, lease: &Lease) -> Verdict {
    let another = setting.request(&name("another"));
    failed("an attempt", provider.attempt(&another).await)?;
    if setting.capabilities().extend {
        let longer = ExtendRequest::new(setting.pace().long());
        failed("an extension", provider.extend(lease, &longer).await)?;
    }
    let request = UnlockRequest::new();
    failed("an unlock", provider.unlock(lease, &request).await)?;
    failed("a withdrawal", provider.withdraw(&another).await)?;
    failed("an inspection", provider.inspect(lease.name()).await)?;
    if setting.capabilities().list {
        failed("a list", provider.list(&ListRequest::new()).await)?;
    }
    let force = shedlock_core::ForceUnlockRequest::new(lease.name().clone());
    failed("a forced unlock", provider.force_unlock(&force).await)?;
    failed("a check", provider.check().await).map(drop)
}

/// Stopped and started: calls fail meanwhile, and work afterwards by the same provider. Leases
/// outlive it exactly where the provider declares so.
pub async fn a_store_that_restarts_is_used_again(setting: &Setting) -> Verdict {
    let own = setting.on_own_store().await?;
    let verdict = restart(&own).await;
    let closed = own.space().close().await;
    verdict?;
    closed.map_err(|error| Stop::harness("remove the store", &*error))
}

async fn restart(setting: &Setting) -> Verdict {
    let provider = setting.provider().await?;
    let held = setting.request(&name("held"));
    let lease = acquire(&provider, &held).await?;
    setting.stop_store().await?;
    every_call_fails(setting, &provider, &lease).await?;
    setting.start_store().await?;
    let next = setting.request(&name("next"));
    let after = Line::ask_until_answered(&provider, &next).await?;
    unlock(&provider, &after).await?;
    if setting.capabilities().durable {
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
            "{what} without a store should be an error, but was answered {answer:?}"
        ))),
    }
}

//! A store that is full: it is read, locks are given back, and a claim fails with an error that names the cause. When
//! there is space again, the same provider continues.
//!
//! A store may refuse what it must record: that at-least keeps the lock, or that a slot is done. The lease then stays
//! as it is until its end, and the call fails. It never loses what it could not record.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{
    BoxFuture, Error, ErrorKind, ExtendRequest, Extension, ForceUnlockRequest, ForcedUnlock, Lease,
    ListRequest, LockState, SlotEnd, Unlock, UnlockRequest, admin,
};

use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, attempt_error_as, extend, extend_is_lost, is_free, not_earlier, record,
    skipped, still_holds, take, unlock, unlock_is_lost,
};
use crate::verdict::{chain, ensure};
use crate::wait::{PATIENCE, now};
use crate::{Provider, Stop, TestContext, Verdict};

cases!("full_store" [Connection]:
    a_claim_on_a_full_store_names_it,
    a_full_store_is_read,
    an_unlock_on_a_full_store_frees_the_lock [Smoke],
    an_unlock_on_a_full_store_keeps_at_least,
    a_slot_that_is_done_on_a_full_store_runs_once [Slots],
    a_withdrawal_on_a_full_store_frees_the_lock,
    a_refused_claim_can_be_withdrawn_from_a_full_store,
    an_extension_on_a_full_store_loses_nothing,
    a_forced_unlock_on_a_full_store_frees_the_lock [Operators],
);

/// A claim of a new name on a full store is an error that names the cause, and nothing was written. When there is space,
/// it succeeds.
pub async fn a_claim_on_a_full_store_names_it(context: &TestContext) -> Verdict {
    with(context, |full, provider| {
        Box::pin(async move {
            full.fill().await?;
            let request = full.request(&name("new"));
            let kinds = [ErrorKind::Unavailable];
            let error = attempt_error_as(&provider, &request, &kinds).await?;
            names_it("an attempt", &error)?;
            is_free(&provider, &request.name).await?;
            full.make_space().await?;
            abandon(&provider, &request).await
        })
    })
    .await
}

/// A full store is inspected, listed, checked and diagnosed.
pub async fn a_full_store_is_read(context: &TestContext) -> Verdict {
    with(context, |full, provider| {
        Box::pin(async move {
            let held = acquire(&provider, &full.request(&name("held"))).await?;
            let free = acquire(&provider, &full.request(&name("free"))).await?;
            unlock(&provider, &free).await?;
            full.fill().await?;
            // As the command, which connects, checks and reads.
            let another = full.provider().await?;
            for provider in [&provider, &another] {
                provider.check().await?;
                provider.diagnose().await?;
                still_holds(provider, &held).await?;
                is_free(provider, free.name()).await?;
                let listed = provider.list(&ListRequest::new().held_only()).await?;
                let is_held = listed.iter().any(|record| record.name == *held.name());
                ensure!(is_held, "the list lacks {}: {listed:?}", held.name());
            }
            skipped(&another, &full.request(held.name())).await
        })
    })
    .await
}

/// An unlock ends the lease, and so does its repetition. The lock is then free, and an extension that comes late does
/// not revive the lease. The tokens of the next leases are larger.
pub async fn an_unlock_on_a_full_store_frees_the_lock(context: &TestContext) -> Verdict {
    with(context, |full, provider| {
        Box::pin(async move {
            let lease = acquire(&provider, &full.request(&name("job"))).await?;
            full.fill().await?;
            unlock(&provider, &lease).await?;
            is_free(&provider, lease.name()).await?;
            unlock(&provider, &lease).await?;
            extend_is_lost(&provider, &lease, full.timing().long()).await?;
            next_is_granted(&full, &provider, &lease).await
        })
    })
    .await
}

/// At-least keeps the lock taken after an unlock. If the store cannot record that, the unlock fails until at-least has
/// passed.
pub async fn an_unlock_on_a_full_store_keeps_at_least(context: &TestContext) -> Verdict {
    with(context, |full, provider| {
        Box::pin(async move {
            let at_least = full.timing().medium();
            let request = full.request(&name("job")).with_lock_at_least_for(at_least);
            let taken = take(&provider, &request).await?;
            full.fill().await?;
            let started = now();
            loop {
                match provider.unlock(&taken.lease, &UnlockRequest::new()).await {
                    Ok(Unlock::Unlocked) => break,
                    Err(error) => names_it("an unlock", &error)?,
                    Ok(answer) => {
                        return Err(Stop::failed(format!("an unlock returned {answer:?}")));
                    }
                }
                still_holds(&provider, &taken.lease).await?;
                ensure!(
                    now().saturating_since(started) < at_least + PATIENCE,
                    "at-least has passed, but the lock is not given back"
                );
                full.pass(Duration::from_millis(100)).await;
            }
            full.make_space().await?;
            let long = full.timing().long();
            let next = full.take_when_free(&provider, &request.name, long).await?;
            not_earlier(&taken, at_least, &next)
        })
    })
    .await
}

/// The slot of a lease that was unlocked as done is done. If the store cannot record that, the unlock fails, and the
/// lease stays until there is space or it ends.
pub async fn a_slot_that_is_done_on_a_full_store_runs_once(context: &TestContext) -> Verdict {
    context.needs_slots()?;
    with(context, |full, provider| {
        Box::pin(async move {
            let slot = full
                .slot_before_now(&provider, Duration::from_secs(60))
                .await?;
            let request = || full.request(&name("job")).with_slot(slot);
            let lease = acquire(&provider, &request()).await?;
            full.fill().await?;
            let done = UnlockRequest::new().with_slot_end(SlotEnd::done(false));
            let answer = provider.unlock(&lease, &done).await;
            if let Err(error) = &answer {
                names_it("an unlock", error)?;
                still_holds(&provider, &lease).await?;
            }
            full.make_space().await?;
            let answer = match answer {
                Err(_) => provider.unlock(&lease, &done).await?,
                Ok(answer) => answer,
            };
            ensure!(answer == Unlock::Unlocked, "an unlock returned {answer:?}");
            let found = record(&provider, lease.name()).await?;
            ensure!(
                !full.capabilities().completion || found.last_slot_done == Some(slot),
                "the slot {slot} was done, but the record is {found:?}"
            );
            skipped(&provider, &request()).await
        })
    })
    .await
}

/// A withdrawal of an attempt that has won ends its lease.
pub async fn a_withdrawal_on_a_full_store_frees_the_lock(context: &TestContext) -> Verdict {
    with(context, |full, provider| {
        Box::pin(async move {
            let request = full.request(&name("job"));
            let lease = acquire(&provider, &request).await?;
            full.fill().await?;
            let had_won = provider.withdraw(&request).await?;
            ensure!(
                had_won,
                "the attempt had won, but its withdrawal found no lease"
            );
            is_free(&provider, lease.name()).await?;
            next_is_granted(&full, &provider, &lease).await
        })
    })
    .await
}

/// A withdrawal of an attempt that the full store refused finds no lease, or fails with an error that names the cause. It
/// works when there is space.
pub async fn a_refused_claim_can_be_withdrawn_from_a_full_store(context: &TestContext) -> Verdict {
    with(context, |full, provider| {
        Box::pin(async move {
            full.fill().await?;
            let request = full.request(&name("new"));
            let error = attempt_error_as(&provider, &request, &[ErrorKind::Unavailable]).await?;
            names_it("an attempt", &error)?;
            match provider.withdraw(&request).await {
                Ok(had_won) => ensure!(!had_won, "a refused attempt had won"),
                Err(error) => names_it("a withdrawal", &error)?,
            }
            full.make_space().await?;
            let had_won = provider.withdraw(&request).await?;
            ensure!(!had_won, "a refused attempt had won");
            abandon(&provider, &full.request(&request.name)).await
        })
    })
    .await
}

/// An extension works, or fails with an error that names the cause, and the lease stays. When there is space, it works.
pub async fn an_extension_on_a_full_store_loses_nothing(context: &TestContext) -> Verdict {
    with(context, |full, provider| {
        Box::pin(async move {
            let mut lease = acquire(&provider, &full.request(&name("job"))).await?;
            full.fill().await?;
            let longer = ExtendRequest::new(2 * full.timing().long());
            match provider.extend(&lease, &longer).await {
                Ok(Extension::Extended(extended)) => lease = extended,
                Err(error) => names_it("an extension", &error)?,
                Ok(answer) => {
                    return Err(Stop::failed(format!("an extension returned {answer:?}")));
                }
            }
            still_holds(&provider, &lease).await?;
            full.make_space().await?;
            let lease = extend(&provider, &lease, &longer).await?;
            still_holds(&provider, &lease).await?;
            unlock(&provider, &lease).await
        })
    })
    .await
}

/// A forced unlock ends a lease, and its holder has lost it.
pub async fn a_forced_unlock_on_a_full_store_frees_the_lock(context: &TestContext) -> Verdict {
    with(context, |full, provider| {
        Box::pin(async move {
            let lease = acquire(&provider, &full.request(&name("job"))).await?;
            full.fill().await?;
            let force = ForceUnlockRequest::new(lease.name().clone());
            match admin::force_unlock(&*provider, &force).await? {
                ForcedUnlock::Freed(before) => ensure!(
                    before.state == LockState::Held
                        && before.owner.as_deref() == Some(lease.owner().as_str()),
                    "a forced unlock returned {before:?} for {lease:?}"
                ),
                answer => {
                    return Err(Stop::failed(format!("a forced unlock returned {answer:?}")));
                }
            }
            is_free(&provider, lease.name()).await?;
            unlock_is_lost(&provider, &lease).await?;
            next_is_granted(&full, &provider, &lease).await
        })
    })
    .await
}

/// Runs a case on a store of its own that can be filled.
async fn with(
    context: &TestContext,
    case: impl FnOnce(TestContext, Provider) -> BoxFuture<'static, Verdict>,
) -> Verdict {
    let own = context.on_store_to_fill().await?;
    let provider = own.provider().await?;
    let namespace = Arc::clone(own.shared_namespace());
    let verdict = case(own, provider).await;
    let closed = namespace.close().await;
    verdict?;
    closed.map_err(|error| Stop::harness("remove the store", &*error))
}

/// Makes space, and takes the lock again, with a larger token.
async fn next_is_granted(full: &TestContext, provider: &Provider, lease: &Lease) -> Verdict {
    full.make_space().await?;
    let next = acquire(provider, &full.request(lease.name())).await?;
    ensure!(
        next.fencing_token() > lease.fencing_token() || !full.capabilities().fencing,
        "{lease:?} was followed by {next:?}, whose token is not larger"
    );
    unlock(provider, &next).await
}

/// Checks that an error is temporary and names the cause.
fn names_it(what: &str, error: &Error) -> Verdict {
    let text = chain(error).to_lowercase();
    let is_named = ["full", "space", "maxmemory"]
        .iter()
        .any(|word| text.contains(word));
    ensure!(
        error.kind() == ErrorKind::Unavailable && is_named,
        "{what} on a full store should fail as unavailable and say that the store is full, but \
         failed with {error:?}: {text}"
    );
    Ok(())
}

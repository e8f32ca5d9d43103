//! Law 7: no provider caches what exists in the store.

use shedlock_core::{
    Error, ErrorKind, ExtendRequest, Extension, ListRequest, Unlock, UnlockRequest,
};

use crate::case::cases;
use crate::context::name;
use crate::steps::{abandon, acquire, is_free, skipped, still_holds, unlock};
use crate::verdict::ensure;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("law07_no_memory" [Record]:
    a_record_deleted_while_held_frees_the_lock,
    a_record_deleted_after_unlock_heals [Smoke],
    a_record_deleted_during_at_least_frees_the_lock,
    a_record_deleted_again_and_again_heals,
    a_container_dropped_between_any_two_steps_heals,
    a_failed_first_attempt_poisons_nothing,
);

/// A record deleted while its lock is held frees the lock, for the provider that wrote it and for
/// others.
pub async fn a_record_deleted_while_held_frees_the_lock(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    for provider in [&first, &second] {
        let job = name("job");
        abandon(&first, &context.request(&job)).await?;
        skipped(provider, &context.request(&job)).await?;
        context.delete_record(&job).await?;
        is_free(provider, &job).await?;
        let lease = acquire(provider, &context.request(&job)).await?;
        still_holds(provider, &lease).await?;
        unlock(provider, &lease).await?;
    }
    Ok(())
}

/// After a record is deleted, the next attempt recreates it, even by a provider that has seen it
/// before.
pub async fn a_record_deleted_after_unlock_heals(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let lease = acquire(&provider, &context.request(&job)).await?;
    unlock(&provider, &lease).await?;
    context.delete_record(&job).await?;
    let lease = acquire(&provider, &context.request(&job)).await?;
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

/// A record deleted during at-least frees the lock: the deletion is deliberate.
pub async fn a_record_deleted_during_at_least_frees_the_lock(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let request = context
        .request(&job)
        .with_lock_at_least_for(context.timing().long());
    let lease = acquire(&provider, &request).await?;
    unlock(&provider, &lease).await?;
    skipped(&provider, &context.request(&job)).await?;
    context.delete_record(&job).await?;
    abandon(&provider, &context.request(&job)).await
}

/// A record deleted ten times in a row is recreated each time, alternating between two providers.
pub async fn a_record_deleted_again_and_again_heals(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    for i in 0..10 {
        let provider = [&first, &second][i % 2];
        abandon(provider, &context.request(&job)).await?;
        context.delete_record(&job).await?;
    }
    is_free(&first, &job).await
}

/// Without its container, each call reports a configuration error, or recreates the container, or
/// reports that there is no lease. It never reports that another owner holds the lock. When the
/// container is back, all calls work.
pub async fn a_container_dropped_between_any_two_steps_heals(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let lease = acquire(&first, &context.request(&job)).await?;

    context.drop_container().await?;
    let longer = ExtendRequest::new(context.timing().long());
    match first.extend(&lease, &longer).await {
        Ok(Extension::Lost) => {}
        Ok(answer) => {
            return Err(Stop::failed(format!(
                "an extension without a container returned {answer:?}"
            )));
        }
        Err(error) => is_configuration(&error)?,
    }
    match first.unlock(&lease, &UnlockRequest::new()).await {
        Ok(Unlock::Lost) => {}
        Ok(answer) => {
            return Err(Stop::failed(format!(
                "an unlock without a container returned {answer:?}"
            )));
        }
        Err(error) => is_configuration(&error)?,
    }
    reading_says_so_or_finds_nothing(&first, &lease).await?;

    context.drop_container().await?;
    attempts_say_so_or_heal(context, &first).await?;
    context.drop_container().await?;
    attempts_say_so_or_heal(context, &second).await?;

    context.restore_container().await?;
    for provider in [&first, &second] {
        let lease = acquire(provider, &context.request(&job)).await?;
        still_holds(provider, &lease).await?;
        unlock(provider, &lease).await?;
    }
    Ok(())
}

/// A provider that finds no container at its very first contact works once there is one.
pub async fn a_failed_first_attempt_poisons_nothing(context: &TestContext) -> Verdict {
    context.drop_container().await?;
    let provider = context.provider().await?;
    attempts_say_so_or_heal(context, &provider).await?;
    context.restore_container().await?;
    let mut request = context.request(&name("job"));
    if context.capabilities().slots {
        let slot = context
            .slot_before_now(&provider, std::time::Duration::from_secs(60))
            .await?;
        request = request.with_slot(slot);
    }
    let lease = acquire(&provider, &request).await?;
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

async fn attempts_say_so_or_heal(context: &TestContext, provider: &Provider) -> Verdict {
    let request = context.request(&name("without a container"));
    match provider.attempt(&request).await {
        Ok(answer) => {
            ensure!(
                answer.clone().acquired().is_some(),
                "an attempt without a container was skipped: {answer:?}"
            );
            Ok(())
        }
        Err(error) => is_configuration(&error),
    }
}

async fn reading_says_so_or_finds_nothing(
    provider: &Provider,
    lease: &shedlock_core::Lease,
) -> Verdict {
    match provider.inspect(lease.name()).await {
        Ok(found) => ensure!(
            found.is_none(),
            "inspect returned a record although there is no container: {found:?}"
        ),
        Err(error) => is_configuration(&error)?,
    }
    match provider.list(&ListRequest::new()).await {
        Ok(found) => ensure!(
            found.is_empty(),
            "list returned records although there is no container: {found:?}"
        ),
        Err(error) => is_configuration(&error)?,
    }
    Ok(())
}

fn is_configuration(error: &Error) -> Verdict {
    ensure!(
        error.kind() == ErrorKind::Configuration,
        "without a container the error should be of kind Configuration, but is {error:?}"
    );
    Ok(())
}

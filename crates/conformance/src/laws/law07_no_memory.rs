//! Law 7: no provider remembers what exists in the store.

use shedlock_core::{
    Error, ErrorKind, ExtendRequest, Extension, ListRequest, Unlock, UnlockRequest,
};

use crate::case::cases;
use crate::setting::name;
use crate::steps::{abandon, acquire, is_free, skipped, still_holds, unlock};
use crate::verdict::ensure;
use crate::{Provider, Setting, Stop, Verdict};

cases!("law07_no_memory":
    a_record_deleted_while_held_frees_the_lock,
    a_record_deleted_after_unlock_heals,
    a_record_deleted_during_at_least_frees_the_lock,
    a_record_deleted_again_and_again_heals,
    a_container_dropped_between_any_two_steps_heals,
    a_failed_first_attempt_poisons_nothing,
);

/// For everybody: for the provider that wrote it, and for others.
pub async fn a_record_deleted_while_held_frees_the_lock(setting: &Setting) -> Verdict {
    let (first, second) = setting.two().await?;
    for provider in [&first, &second] {
        let job = name("job");
        abandon(&first, &setting.request(&job)).await?;
        skipped(provider, &setting.request(&job)).await?;
        setting.delete_record(&job).await?;
        is_free(provider, &job).await?;
        let lease = acquire(provider, &setting.request(&job)).await?;
        still_holds(provider, &lease).await?;
        unlock(provider, &lease).await?;
    }
    Ok(())
}

/// The next attempt makes it anew, by a provider that has seen it before.
pub async fn a_record_deleted_after_unlock_heals(setting: &Setting) -> Verdict {
    let provider = setting.provider().await?;
    let job = name("job");
    let lease = acquire(&provider, &setting.request(&job)).await?;
    unlock(&provider, &lease).await?;
    setting.delete_record(&job).await?;
    let lease = acquire(&provider, &setting.request(&job)).await?;
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

/// Whoever deletes the record means it.
pub async fn a_record_deleted_during_at_least_frees_the_lock(setting: &Setting) -> Verdict {
    let provider = setting.provider().await?;
    let job = name("job");
    let request = setting
        .request(&job)
        .with_lock_at_least_for(setting.pace().long());
    let lease = acquire(&provider, &request).await?;
    unlock(&provider, &lease).await?;
    skipped(&provider, &setting.request(&job)).await?;
    setting.delete_record(&job).await?;
    abandon(&provider, &setting.request(&job)).await
}

/// Ten times in a row, over two providers by turns.
pub async fn a_record_deleted_again_and_again_heals(setting: &Setting) -> Verdict {
    let (first, second) = setting.two().await?;
    let job = name("job");
    for i in 0..10 {
        let provider = [&first, &second][i % 2];
        abandon(provider, &setting.request(&job)).await?;
        setting.delete_record(&job).await?;
    }
    is_free(&first, &job).await
}

/// Without its container each call says that the configuration is at fault, or heals it, or knows
/// that there is no lease; never that somebody else holds the lock. Once it is back, all work.
pub async fn a_container_dropped_between_any_two_steps_heals(setting: &Setting) -> Verdict {
    let (first, second) = setting.two().await?;
    let job = name("job");
    let lease = acquire(&first, &setting.request(&job)).await?;

    setting.drop_container().await?;
    if setting.capabilities().extend {
        let longer = ExtendRequest::new(setting.pace().long());
        match first.extend(&lease, &longer).await {
            Ok(Extension::Lost) => {}
            Ok(answer) => {
                return Err(Stop::failed(format!(
                    "an extension without a container was answered {answer:?}"
                )));
            }
            Err(error) => is_configuration(&error)?,
        }
    }
    match first.unlock(&lease, &UnlockRequest::new()).await {
        Ok(Unlock::Lost) => {}
        Ok(answer) => {
            return Err(Stop::failed(format!(
                "an unlock without a container was answered {answer:?}"
            )));
        }
        Err(error) => is_configuration(&error)?,
    }
    reading_says_so_or_finds_nothing(setting, &first, &lease).await?;

    setting.drop_container().await?;
    attempts_say_so_or_heal(setting, &first).await?;
    setting.drop_container().await?;
    attempts_say_so_or_heal(setting, &second).await?;

    setting.restore_container().await?;
    for provider in [&first, &second] {
        let lease = acquire(provider, &setting.request(&job)).await?;
        still_holds(provider, &lease).await?;
        unlock(provider, &lease).await?;
    }
    Ok(())
}

/// The provider's very first contact finds no container.
pub async fn a_failed_first_attempt_poisons_nothing(setting: &Setting) -> Verdict {
    setting.drop_container().await?;
    let provider = setting.provider().await?;
    attempts_say_so_or_heal(setting, &provider).await?;
    setting.restore_container().await?;
    let mut request = setting.request(&name("job"));
    if setting.capabilities().slots {
        let slot = setting
            .slot_before_now(&provider, std::time::Duration::from_secs(60))
            .await?;
        request = request.with_slot(slot);
    }
    let lease = acquire(&provider, &request).await?;
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

async fn attempts_say_so_or_heal(setting: &Setting, provider: &Provider) -> Verdict {
    let request = setting.request(&name("without a container"));
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
    setting: &Setting,
    provider: &Provider,
    lease: &shedlock_core::Lease,
) -> Verdict {
    match provider.inspect(lease.name()).await {
        Ok(found) => ensure!(found.is_none(), "a record without a container: {found:?}"),
        Err(error) => is_configuration(&error)?,
    }
    if setting.capabilities().list {
        match provider.list(&ListRequest::new()).await {
            Ok(found) => ensure!(found.is_empty(), "records without a container: {found:?}"),
            Err(error) => is_configuration(&error)?,
        }
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

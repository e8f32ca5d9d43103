//! The laws between processes: the cases start this executable again as child processes.

use crate::case::cases;
use crate::context::name;
use crate::remote_client::{Answer, RemoteClient};
use crate::steps::{acquire, is_free, not_earlier, not_later, skip_as, still_holds, take, unlock};
use crate::verdict::ensure;
use crate::{TestContext, Verdict, child};

cases!(
    "law01_exclusion" [Processes]:
        a_lock_held_by_another_process_is_skipped [Smoke];
    "law03_ownership" [Processes]:
        stale_unlock_by_another_process,
        stale_extend_by_another_process,
        stale_withdrawal_by_another_process,
        a_stopped_holder_cannot_come_back;
    "law05_at_most" [Processes]:
        a_killed_holder_is_succeeded_at_its_end;
);

/// A held lock is skipped in every process, and the skip names the holder.
pub async fn a_lock_held_by_another_process_is_skipped(context: &TestContext) -> Verdict {
    let mut other = RemoteClient::start(context).await?;
    let provider = context.provider().await?;
    let job = name("job");
    let theirs = context.request(&job);
    other.acquires(&theirs).await?;
    let skip = skip_as(
        &provider,
        &context.request(&job),
        shedlock_core::SkipReason::Held,
    )
    .await?;
    ensure!(
        skip.owner.is_none() || skip.owner.as_deref() == Some(theirs.owner.as_str()),
        "{} holds {job} in another process, but the skip names {:?}",
        &theirs.owner,
        skip.owner
    );
    other.unlocks(&theirs, Answer::Unlocked).await?;
    let ours = acquire(&provider, &context.request(&job)).await?;
    other.is_skipped(&context.request(&job)).await?;
    unlock(&provider, &ours).await
}

/// If the lease of one process expired and another process on the host acquired the lock, a late
/// unlock is lost.
pub async fn stale_unlock_by_another_process(context: &TestContext) -> Verdict {
    let mut late = RemoteClient::start(context).await?;
    let provider = context.provider().await?;
    let job = name("job");
    let stale = context.request_for(&job, context.timing().short());
    late.acquires(&stale).await?;
    let next = context
        .take_when_free(&provider, &job, context.timing().long())
        .await?;
    late.unlocks(&stale, Answer::Lost).await?;
    still_holds(&provider, &next.lease).await?;
    unlock(&provider, &next.lease).await
}

/// A late extension by another process is lost; then with the roles swapped.
pub async fn stale_extend_by_another_process(context: &TestContext) -> Verdict {
    let mut late = RemoteClient::start(context).await?;
    let provider = context.provider().await?;
    let job = name("job");
    let long = context.timing().long();
    let stale = context.request_for(&job, context.timing().short());
    late.acquires(&stale).await?;
    let next = context.take_when_free(&provider, &job, long).await?;
    late.extends(&stale, long, Answer::Lost).await?;
    still_holds(&provider, &next.lease).await?;
    unlock(&provider, &next.lease).await?;

    let theirs = context.request(&job);
    late.acquires(&theirs).await?;
    crate::steps::extend_is_lost(&provider, &next.lease, long).await?;
    crate::steps::unlock_is_lost(&provider, &next.lease).await?;
    late.extends(&theirs, long, Answer::Extended).await?;
    late.unlocks(&theirs, Answer::Unlocked).await?;
    is_free(&provider, &job).await
}

/// A process withdraws only its own attempts.
pub async fn stale_withdrawal_by_another_process(context: &TestContext) -> Verdict {
    let mut other = RemoteClient::start(context).await?;
    let provider = context.provider().await?;
    let job = name("job");
    let lease = acquire(&provider, &context.request(&job)).await?;
    let theirs = context.request(&job);
    other.is_skipped(&theirs).await?;
    ensure!(
        !other.withdraws(&theirs).await?,
        "a process withdrew an attempt that was skipped, and the reply was that it freed something"
    );
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

/// A holder that is stopped (SIGSTOP) for longer than its lease and then continued finds its lease
/// lost.
pub async fn a_stopped_holder_cannot_come_back(context: &TestContext) -> Verdict {
    let mut stopped = RemoteClient::start(context).await?;
    let provider = context.provider().await?;
    let job = name("job");
    let stale = context.request_for(&job, context.timing().short());
    stopped.acquires(&stale).await?;
    child::stop(stopped.id())?;
    let next = context
        .take_when_free(&provider, &job, context.timing().long())
        .await?;
    child::go_on(stopped.id())?;
    stopped
        .extends(&stale, context.timing().long(), Answer::Lost)
        .await?;
    stopped.unlocks(&stale, Answer::Lost).await?;
    still_holds(&provider, &next.lease).await?;
    unlock(&provider, &next.lease).await
}

/// The lock of a killed holder (SIGKILL) is free at the end of at-most, not when its connection
/// breaks, and not later.
pub async fn a_killed_holder_is_succeeded_at_its_end(context: &TestContext) -> Verdict {
    let mut killed = RemoteClient::start(context).await?;
    let provider = context.provider().await?;
    let at_most = context.timing().medium();
    // Another lease that begins no later than the child's gives its beginning by the store's clock.
    let clock = take(&provider, &context.request(&name("clock"))).await?;
    let job = name("job");
    killed.acquires(&context.request_for(&job, at_most)).await?;
    killed.kill().await?;
    let next = context
        .take_when_free(&provider, &job, context.timing().long())
        .await?;
    not_earlier(&clock, at_most, &next)?;
    not_later(&clock, at_most, context.timing().lateness(), &next)
}

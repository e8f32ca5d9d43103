//! The laws between processes: this executable is started again, as often as it takes.

use std::time::Duration;

use crate::case::cases;
use crate::context::name;
use crate::remote_client::{Answer, RemoteClient};
use crate::steps::{acquire, is_free, not_earlier, not_later, skip_as, still_holds, take, unlock};
use crate::verdict::ensure;
use crate::worker::Job;
use crate::worker_pool::WorkerPool;
use crate::{Stop, TestContext, Verdict, signal, torture};

cases!(
    "law01_exclusion":
        a_lock_held_by_another_process_is_skipped,
        ten_processes_killed_at_random_leave_a_lawful_history,
        killed_and_stopped_processes_over_a_crashing_store_leave_a_lawful_history;
    "law03_ownership":
        stale_unlock_by_another_process,
        stale_extend_by_another_process,
        stale_withdrawal_by_another_process,
        a_stopped_holder_cannot_come_back;
    "law05_at_most":
        a_killed_holder_is_succeeded_at_its_end;
    "law09_slots":
        ten_processes_run_each_slot_at_most_once;
);

/// Held is held, whoever asks; and it is told who holds.
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
        skip.owner.is_none() || skip.owner.as_deref() == Some(theirs.owner().as_str()),
        "{} holds {job} in another process, the skip names {:?}",
        theirs.owner(),
        skip.owner
    );
    other.unlocks(&theirs, Answer::Unlocked).await?;
    let ours = acquire(&provider, &context.request(&job)).await?;
    other.is_skipped(&context.request(&job)).await?;
    unlock(&provider, &ours).await
}

/// Two processes on one host: the lease of the one expired, the other took the lock.
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

/// The same for a late extension; then the other way round.
pub async fn stale_extend_by_another_process(context: &TestContext) -> Verdict {
    context.needs_extend()?;
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

/// It withdraws only what it asked for itself.
pub async fn stale_withdrawal_by_another_process(context: &TestContext) -> Verdict {
    let mut other = RemoteClient::start(context).await?;
    let provider = context.provider().await?;
    let job = name("job");
    let lease = acquire(&provider, &context.request(&job)).await?;
    let theirs = context.request(&job);
    other.is_skipped(&theirs).await?;
    ensure!(
        !other.withdraws(&theirs).await?,
        "a process withdrew an attempt that was skipped, and was told that it freed something"
    );
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

/// Stopped (SIGSTOP) for longer than its lease, and then continued: it finds its lease lost.
pub async fn a_stopped_holder_cannot_come_back(context: &TestContext) -> Verdict {
    let mut stopped = RemoteClient::start(context).await?;
    let provider = context.provider().await?;
    let job = name("job");
    let stale = context.request_for(&job, context.timing().short());
    stopped.acquires(&stale).await?;
    signal::stop(stopped.id())?;
    let next = context
        .take_when_free(&provider, &job, context.timing().long())
        .await?;
    signal::go_on(stopped.id())?;
    if context.capabilities().extend {
        stopped
            .extends(&stale, context.timing().long(), Answer::Lost)
            .await?;
    }
    stopped.unlocks(&stale, Answer::Lost).await?;
    still_holds(&provider, &next.lease).await?;
    unlock(&provider, &next.lease).await
}

/// Killed (SIGKILL): its lock is free at at-most, not when its connection breaks, and not later.
pub async fn a_killed_holder_is_succeeded_at_its_end(context: &TestContext) -> Verdict {
    let mut killed = RemoteClient::start(context).await?;
    let provider = context.provider().await?;
    let at_most = context.timing().medium();
    // A lease of our own that begins no later than theirs gives the beginning by the store's clock.
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

/// Contenders for two locks; holders are killed with SIGKILL at random, some oversleep their
/// lease, some extend it. All of their logs together are judged.
pub async fn ten_processes_killed_at_random_leave_a_lawful_history(
    context: &TestContext,
) -> Verdict {
    let acquisitions = WorkerPool::acquisitions_wanted()?;
    let mut worker_pool =
        WorkerPool::start(context, 10, &["hot", "warm"].map(Job::plain), &[]).await?;
    worker_pool.kill_holders_until(acquisitions).await?;
    let findings = worker_pool.stop_and_judge().await?;
    ensure!(
        findings.acquisitions >= acquisitions && findings.skips > 0 && findings.abandoned > 0,
        "the history proves nothing: {findings:?}"
    );
    Ok(())
}

/// Holders are killed, and stopped for longer than their leases, while the store itself is killed
/// and started again: nothing is lawful only while all is well.
pub async fn killed_and_stopped_processes_over_a_crashing_store_leave_a_lawful_history(
    context: &TestContext,
) -> Verdict {
    let is_asked_for = torture::Options::from_environment()?.is_asked_for;
    match context.on_own_store().await {
        Ok(own) => {
            let may_crash = own.capabilities().durable && own.namespace().stop_store().is_some();
            let verdict = torture::torture(&own, may_crash).await;
            let closed = own.namespace().close().await;
            verdict?;
            closed.map_err(|error| Stop::harness("remove the store", &*error))
        }
        Err(Stop::NotApplicable(_)) if is_asked_for => torture::torture(context, false).await,
        Err(stop) => Err(stop),
    }
}

/// All go through the same slots at their own speed, while holders are killed.
pub async fn ten_processes_run_each_slot_at_most_once(context: &TestContext) -> Verdict {
    context.needs_slots()?;
    let provider = context.provider().await?;
    let minute = Duration::from_secs(60);
    let slots = 200;
    let first = context
        .slot_before_now(&provider, slots * minute)
        .await?
        .as_micros();
    let slots: Vec<i64> = (0..i64::from(slots))
        .map(|i| first + i * 60_000_000)
        .collect();
    let mut worker_pool = WorkerPool::start(context, 10, &[Job::plain("job")], &slots).await?;
    worker_pool.kill_holders_until(20).await?;
    let findings = worker_pool.stop_and_judge().await?;
    if findings.acquisitions == 0 {
        return Err(Stop::failed("no slot was taken at all"));
    }
    Ok(())
}

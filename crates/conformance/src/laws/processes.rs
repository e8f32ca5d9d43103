//! The laws between processes: this executable is started again, as often as it takes.

use std::time::Duration;

use crate::case::cases;
use crate::puppet::{Answer, Puppet};
use crate::setting::name;
use crate::steps::{acquire, is_free, not_earlier, not_later, skip_as, still_holds, take, unlock};
use crate::troop::Troop;
use crate::verdict::ensure;
use crate::worker::Job;
use crate::{Setting, Stop, Verdict, signal, torture};

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
pub async fn a_lock_held_by_another_process_is_skipped(setting: &Setting) -> Verdict {
    let mut other = Puppet::start(setting).await?;
    let provider = setting.provider().await?;
    let job = name("job");
    let theirs = setting.request(&job);
    other.acquires(&theirs).await?;
    let skip = skip_as(
        &provider,
        &setting.request(&job),
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
    let ours = acquire(&provider, &setting.request(&job)).await?;
    other.is_skipped(&setting.request(&job)).await?;
    unlock(&provider, &ours).await
}

/// Two processes on one host: the lease of the one expired, the other took the lock.
pub async fn stale_unlock_by_another_process(setting: &Setting) -> Verdict {
    let mut late = Puppet::start(setting).await?;
    let provider = setting.provider().await?;
    let job = name("job");
    let stale = setting.request_for(&job, setting.pace().short());
    late.acquires(&stale).await?;
    let next = setting
        .take_when_free(&provider, &job, setting.pace().long())
        .await?;
    late.unlocks(&stale, Answer::Lost).await?;
    still_holds(&provider, &next.lease).await?;
    unlock(&provider, &next.lease).await
}

/// The same for a late extension; then the other way round.
pub async fn stale_extend_by_another_process(setting: &Setting) -> Verdict {
    setting.needs_extend()?;
    let mut late = Puppet::start(setting).await?;
    let provider = setting.provider().await?;
    let job = name("job");
    let long = setting.pace().long();
    let stale = setting.request_for(&job, setting.pace().short());
    late.acquires(&stale).await?;
    let next = setting.take_when_free(&provider, &job, long).await?;
    late.extends(&stale, long, Answer::Lost).await?;
    still_holds(&provider, &next.lease).await?;
    unlock(&provider, &next.lease).await?;

    let theirs = setting.request(&job);
    late.acquires(&theirs).await?;
    crate::steps::extend_is_lost(&provider, &next.lease, long).await?;
    crate::steps::unlock_is_lost(&provider, &next.lease).await?;
    late.extends(&theirs, long, Answer::Extended).await?;
    late.unlocks(&theirs, Answer::Unlocked).await?;
    is_free(&provider, &job).await
}

/// It withdraws only what it asked for itself.
pub async fn stale_withdrawal_by_another_process(setting: &Setting) -> Verdict {
    let mut other = Puppet::start(setting).await?;
    let provider = setting.provider().await?;
    let job = name("job");
    let lease = acquire(&provider, &setting.request(&job)).await?;
    let theirs = setting.request(&job);
    other.is_skipped(&theirs).await?;
    ensure!(
        !other.withdraws(&theirs).await?,
        "a process withdrew an attempt that was skipped, and was told that it freed something"
    );
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

/// Stopped (SIGSTOP) for longer than its lease, and then continued: it finds its lease lost.
pub async fn a_stopped_holder_cannot_come_back(setting: &Setting) -> Verdict {
    let mut stopped = Puppet::start(setting).await?;
    let provider = setting.provider().await?;
    let job = name("job");
    let stale = setting.request_for(&job, setting.pace().short());
    stopped.acquires(&stale).await?;
    signal::stop(stopped.id())?;
    let next = setting
        .take_when_free(&provider, &job, setting.pace().long())
        .await?;
    signal::go_on(stopped.id())?;
    if setting.capabilities().extend {
        stopped
            .extends(&stale, setting.pace().long(), Answer::Lost)
            .await?;
    }
    stopped.unlocks(&stale, Answer::Lost).await?;
    still_holds(&provider, &next.lease).await?;
    unlock(&provider, &next.lease).await
}

/// Killed (SIGKILL): its lock is free at at-most, not when its connection breaks, and not later.
pub async fn a_killed_holder_is_succeeded_at_its_end(setting: &Setting) -> Verdict {
    let mut killed = Puppet::start(setting).await?;
    let provider = setting.provider().await?;
    let at_most = setting.pace().medium();
    // A lease of our own that begins no later than theirs gives the beginning by the store's clock.
    let clock = take(&provider, &setting.request(&name("clock"))).await?;
    let job = name("job");
    killed.acquires(&setting.request_for(&job, at_most)).await?;
    killed.kill().await?;
    let next = setting
        .take_when_free(&provider, &job, setting.pace().long())
        .await?;
    not_earlier(&clock, at_most, &next)?;
    not_later(&clock, at_most, setting.pace().lateness(), &next)
}

/// Contenders for two locks; holders are killed with SIGKILL at random, some oversleep their
/// lease, some extend it. All of their logs together are judged.
pub async fn ten_processes_killed_at_random_leave_a_lawful_history(setting: &Setting) -> Verdict {
    let acquisitions = Troop::acquisitions_wanted()?;
    let mut troop = Troop::start(setting, 10, &["hot", "warm"].map(Job::plain), &[]).await?;
    troop.kill_holders_until(acquisitions).await?;
    let findings = troop.stop_and_judge().await?;
    ensure!(
        findings.acquisitions >= acquisitions && findings.skips > 0 && findings.abandoned > 0,
        "the history proves nothing: {findings:?}"
    );
    Ok(())
}

/// Holders are killed, and stopped for longer than their leases, while the store itself is killed
/// and started again: nothing is lawful only while all is well.
pub async fn killed_and_stopped_processes_over_a_crashing_store_leave_a_lawful_history(
    setting: &Setting,
) -> Verdict {
    let is_asked_for = torture::Options::from_environment()?.is_asked_for;
    match setting.on_own_store().await {
        Ok(own) => {
            let may_crash = own.capabilities().durable && own.space().stop_store().is_some();
            let verdict = torture::torture(&own, may_crash).await;
            let closed = own.space().close().await;
            verdict?;
            closed.map_err(|error| Stop::harness("remove the store", &*error))
        }
        Err(Stop::NotApplicable(_)) if is_asked_for => torture::torture(setting, false).await,
        Err(stop) => Err(stop),
    }
}

/// All go through the same slots at their own speed, while holders are killed.
pub async fn ten_processes_run_each_slot_at_most_once(setting: &Setting) -> Verdict {
    setting.needs_slots()?;
    let provider = setting.provider().await?;
    let minute = Duration::from_secs(60);
    let slots = 200;
    let first = setting
        .slot_before_now(&provider, slots * minute)
        .await?
        .as_micros();
    let slots: Vec<i64> = (0..i64::from(slots))
        .map(|i| first + i * 60_000_000)
        .collect();
    let mut troop = Troop::start(setting, 10, &[Job::plain("job")], &slots).await?;
    troop.kill_holders_until(20).await?;
    let findings = troop.stop_and_judge().await?;
    if findings.acquisitions == 0 {
        return Err(Stop::failed("no slot was taken at all"));
    }
    Ok(())
}

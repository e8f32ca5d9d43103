//! The cases, which are laws as well: what many processes may do, whatever happens to them.

use std::time::Duration;

use shedlock_conformance::{Case, Harness, Stop, TestContext, Verdict, ensure};

use crate::torture::{Options, hunt, torture, wrong_protocols};
use crate::worker::Job;
use crate::worker_pool::WorkerPool;
use crate::wrong::Wrong;

/// Those for this harness, with the wrong protocols that are to be found out over it.
///
/// # Errors
/// For what cannot be read in the environment.
pub(crate) fn cases(harness: &dyn Harness) -> Result<Vec<Case>, Stop> {
    let length = Options::from_environment()?.length;
    let mut cases = vec![
        Case::new(
            "law01_exclusion::ten_processes_killed_at_random_leave_a_lawful_history",
            |context| Box::pin(ten_processes_killed_at_random_leave_a_lawful_history(context)),
        ),
        Case::new(
            "law01_exclusion::killed_and_stopped_processes_over_a_crashing_store_leave_a_lawful_history",
            |context| {
                Box::pin(
                    killed_and_stopped_processes_over_a_crashing_store_leave_a_lawful_history(
                        context,
                    ),
                )
            },
        )
        .with_limit(Case::LIMIT + length),
        Case::new("law09_slots::ten_processes_run_each_slot_at_most_once", |context| {
            Box::pin(ten_processes_run_each_slot_at_most_once(context))
        }),
    ];
    let wrong = if harness.finds_wrong_protocols_out() {
        Wrong::ALL.to_vec()
    } else {
        wrong_protocols()?
    };
    cases.extend(wrong.into_iter().map(is_found_out));
    Ok(cases)
}

/// Whether the judge of histories finds this mistake out.
fn is_found_out(wrong: Wrong) -> Case {
    let name = format!("wrong_protocols::{}", wrong.name());
    let case = Case::new(name, move |context| {
        Box::pin(hunt::find_out(context, wrong))
    });
    case.with_limit(Case::LIMIT + hunt::LIMIT)
}

/// Contenders for two locks; holders are killed with SIGKILL at random, some oversleep their
/// lease, some extend it. All of their logs together are judged.
async fn ten_processes_killed_at_random_leave_a_lawful_history(context: &TestContext) -> Verdict {
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
async fn killed_and_stopped_processes_over_a_crashing_store_leave_a_lawful_history(
    context: &TestContext,
) -> Verdict {
    let is_asked_for = Options::from_environment()?.is_asked_for;
    match context.on_own_store().await {
        Ok(own) => {
            let may_crash = own.capabilities().durable && own.namespace().stop_store().is_some();
            let verdict = torture(&own, may_crash).await;
            let closed = own.namespace().close().await;
            verdict?;
            closed.map_err(|error| Stop::harness("remove the store", &*error))
        }
        Err(Stop::NotApplicable(_)) if is_asked_for => torture(context, false).await,
        Err(stop) => Err(stop),
    }
}

/// All go through the same slots at their own speed, while holders are killed.
async fn ten_processes_run_each_slot_at_most_once(context: &TestContext) -> Verdict {
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

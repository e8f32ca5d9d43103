//! The torture cases: many processes must keep the laws, whatever happens to the processes.

use std::borrow::Cow;
use std::time::Duration;

use shedlock_conformance::{Case, Stop, Tag, Verdict, ensure};
use shedlock_core::BoxFuture;
use shedlock_proof::Mistake;

use crate::torture::{Options, hunt, torture};
use crate::worker::Job;
use crate::worker_pool::WorkerPool;
use crate::{Arena, TortureNamespace};

/// Returns all cases except those about wrong protocols.
///
/// # Errors
/// If a value in the environment cannot be parsed.
pub(crate) fn cases<N: TortureNamespace>() -> Result<Vec<Case>, Stop> {
    let length = Options::from_environment()?.length;
    Ok(vec![
        case::<N>(
            "law01_exclusion::ten_processes_killed_at_random_leave_a_lawful_history",
            |arena| Box::pin(ten_processes_killed_at_random_leave_a_lawful_history(arena)),
        ),
        case::<N>(
            "law01_exclusion::\
             killed_and_stopped_processes_over_a_crashing_store_leave_a_lawful_history",
            |arena| Box::pin(all_at_once_over_a_crashing_store(arena)),
        )
        .with_limit(Case::LIMIT + length),
        case::<N>(
            "law09_slots::ten_processes_run_each_slot_at_most_once",
            |arena| Box::pin(ten_processes_run_each_slot_at_most_once(arena)),
        ),
    ])
}

/// A case that checks whether the judge of histories detects this mistake.
pub(crate) fn is_found_out<N: TortureNamespace>(wrong: Mistake) -> Case {
    let name = format!("wrong_protocols::{}", wrong.name());
    let case = case::<N>(name, move |arena| Box::pin(hunt::find_out(arena, wrong)));
    case.with_limit(Case::LIMIT + hunt::LIMIT)
}

fn case<N: TortureNamespace>(
    name: impl Into<Cow<'static, str>>,
    run: impl for<'a> Fn(&'a Arena) -> BoxFuture<'a, Verdict> + Copy + Send + Sync + 'static,
) -> Case {
    Case::new(name, move |context| {
        Box::pin(async move { run(&Arena::over::<N>(context)?).await })
    })
    .about(&[Tag::Processes])
}

/// Processes contend for two locks. Holders are killed with SIGKILL at random, some oversleep their
/// lease, and some extend it. All of their logs are judged together.
async fn ten_processes_killed_at_random_leave_a_lawful_history(arena: &Arena) -> Verdict {
    let acquisitions = WorkerPool::acquisitions_wanted()?;
    let mut worker_pool =
        WorkerPool::start(arena, 10, &["hot", "warm"].map(Job::plain), &[]).await?;
    worker_pool.kill_holders_until(acquisitions).await?;
    let findings = worker_pool.stop_and_judge().await?;
    ensure!(
        findings.acquisitions >= acquisitions && findings.skips > 0 && findings.abandoned > 0,
        "the history proves nothing: {findings:?}"
    );
    Ok(())
}

/// Holders are killed, and stopped for longer than their leases, while the store itself is killed
/// and restarted. The laws must hold during faults too.
async fn all_at_once_over_a_crashing_store(arena: &Arena) -> Verdict {
    let is_asked_for = Options::from_environment()?.is_asked_for;
    match arena.on_own_store().await {
        Ok(own) => {
            let may_crash = own.capabilities().durable && own.namespace().stop_store().is_some();
            let verdict = torture(&own, may_crash).await;
            let closed = own.namespace().close().await;
            verdict?;
            closed.map_err(|error| Stop::harness("remove the store", &*error))
        }
        Err(Stop::NotApplicable(_)) if is_asked_for => torture(arena, false).await,
        Err(stop) => Err(stop),
    }
}

/// All processes go through the same slots at their own speed while holders are killed.
async fn ten_processes_run_each_slot_at_most_once(arena: &Arena) -> Verdict {
    arena.needs_slots()?;
    let provider = arena.provider().await?;
    let minute = Duration::from_secs(60);
    let slots = 200;
    let first = arena
        .slot_before_now(&provider, slots * minute)
        .await?
        .as_micros();
    let slots: Vec<i64> = (0..i64::from(slots))
        .map(|i| first + i * 60_000_000)
        .collect();
    let mut worker_pool = WorkerPool::start(arena, 10, &[Job::plain("job")], &slots).await?;
    worker_pool.kill_holders_until(20).await?;
    let findings = worker_pool.stop_and_judge().await?;
    if findings.acquisitions == 0 {
        return Err(Stop::failed("no slot was taken at all"));
    }
    Ok(())
}

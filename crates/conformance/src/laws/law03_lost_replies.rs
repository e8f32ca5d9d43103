//! Law 3 for runs whose unlock got no reply. The runtime repeats it, and must not take a lock that another owner has had
//! since for one that it has given back itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shedlock_core::{
    AttemptRequest, BoxFuture, ClockSource, Error, ErrorKind, Executor, ForceUnlockRequest, Lease,
    LockConfig, LockName, LockProvider, LostReason, Outcome, PauseRequest, Release, ResumeRequest,
    Unlock, UnlockRequest, admin, delegate,
};

use crate::case::cases;
use crate::context::name;
use crate::steps::{acquire, unlock};
use crate::verdict::ensure;
use crate::wait::sleep;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("law03_ownership" [Ownership]:
    a_run_that_was_overlapped_is_lost_although_its_unlock_got_no_reply [Operators],
    a_run_whose_lock_was_paused_at_once_and_taken_is_lost_although_its_unlock_got_no_reply [Operators],
    a_run_that_may_have_been_overlapped_is_no_success,
    a_run_that_no_other_followed_is_a_success_although_its_unlock_got_no_reply [Operators],
);

/// What another owner does to the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    Holds,
    HasEnded,
}

/// The holder is freed by force, and another owner takes the lock, before the unlock is sent: the run was overlapped,
/// whether or not the other one still runs.
pub async fn a_run_that_was_overlapped_is_lost_although_its_unlock_got_no_reply(
    context: &TestContext,
) -> Verdict {
    for other in [Other::Holds, Other::HasEnded] {
        let direct = context.provider().await?;
        let job = name(&format!("job-{other:?}"));
        let task = async {
            admin::force_unlock(&*direct, &ForceUnlockRequest::new(job.clone())).await?;
            take(context, &direct, &job, other).await
        };
        was_overlapped(context, &job, task).await?;
    }
    Ok(())
}

/// The same after a pause that replaces the holder, and is resumed.
pub async fn a_run_whose_lock_was_paused_at_once_and_taken_is_lost_although_its_unlock_got_no_reply(
    context: &TestContext,
) -> Verdict {
    let direct = context.provider().await?;
    let job = name("job");
    let task = async {
        let pause = PauseRequest::new(job.clone(), "kit").replacing_holder();
        let _ = admin::pause(&*direct, &pause).await?;
        let _ = admin::resume(&*direct, &ResumeRequest::new(job.clone())).await?;
        take(context, &direct, &job, Other::Holds).await
    };
    was_overlapped(context, &job, task).await
}

/// The unlock took effect, and another owner took the lock before it was repeated. The record does not show which of the
/// two came first.
pub async fn a_run_that_may_have_been_overlapped_is_no_success(context: &TestContext) -> Verdict {
    for other in [Other::Holds, Other::HasEnded] {
        let direct = context.provider().await?;
        let job = name(&format!("job-{other:?}"));
        let next = context.request(&job);
        let then = (direct.clone(), next, other);
        let provider = NoReply::new(context.provider().await?, Some(then));
        let outcome = run(context, provider, &job, async { Ok(()) }).await?;
        ensure!(
            matches!(
                outcome,
                Outcome::Lost {
                    value: Some(()),
                    reason: LostReason::MaybeOverlapped,
                    ..
                }
            ),
            "another owner has had the lock since an unlock of {job} whose reply was lost, but the run ended as {outcome:?}"
        );
    }
    Ok(())
}

/// If no other owner has taken the lock, the first unlock took effect, or no run was overlapped.
pub async fn a_run_that_no_other_followed_is_a_success_although_its_unlock_got_no_reply(
    context: &TestContext,
) -> Verdict {
    for is_freed in [false, true] {
        let direct = context.provider().await?;
        let job = name(&format!("job-{is_freed}"));
        let provider = NoReply::new(context.provider().await?, None);
        let task = async {
            if is_freed {
                admin::force_unlock(&*direct, &ForceUnlockRequest::new(job.clone())).await?;
            }
            Ok(())
        };
        let outcome = run(context, provider, &job, task).await?;
        ensure!(
            matches!(
                outcome,
                Outcome::Executed {
                    release: Release::Released,
                    ..
                }
            ),
            "no other owner had {job}, but the run ended as {outcome:?}"
        );
    }
    Ok(())
}

/// Another owner takes the lock, which is free.
async fn take(context: &TestContext, provider: &Provider, job: &LockName, other: Other) -> Verdict {
    let lease = acquire(provider, &context.request(job)).await?;
    if other == Other::HasEnded {
        unlock(provider, &lease).await?;
    }
    // What is judged by two clocks must lie further apart than the store can tell times apart.
    let apart = 2 * context.capabilities().granularity + Duration::from_millis(100);
    context.pass(apart).await;
    sleep(apart).await;
    Ok(())
}

/// Runs a task in which another owner takes the lock. The first unlock gets no reply, and never arrives.
async fn was_overlapped(
    context: &TestContext,
    job: &LockName,
    task: impl Future<Output = Verdict>,
) -> Verdict {
    let provider = NoReply::new(context.provider().await?, None);
    let outcome = run(context, provider, job, task).await?;
    // Only the store's own clock orders the two leases.
    let can_be_told = context.capabilities().slot_clock == ClockSource::Store;
    ensure!(
        match &outcome {
            Outcome::Lost {
                value: Some(()),
                reason: LostReason::NotHeldInStore,
                ..
            } => true,
            Outcome::Lost {
                value: Some(()),
                reason: LostReason::MaybeOverlapped,
                ..
            } => !can_be_told,
            _ => false,
        },
        "another owner took {job} before its unlock was sent, but the run ended as {outcome:?}"
    );
    Ok(())
}

async fn run(
    context: &TestContext,
    provider: NoReply,
    job: &LockName,
    task: impl Future<Output = Verdict>,
) -> Result<Outcome<()>, Stop> {
    let executor = Executor::new(Arc::new(provider));
    let config = LockConfig::new(job.as_str()).lock_at_most_for(context.timing().long());
    executor.execute(&config, task).await?.transpose()
}

/// Loses the reply to the first unlock. Without another owner, the unlock does not arrive either.
#[derive(Debug)]
struct NoReply {
    inner: Provider,
    is_repeated: AtomicBool,
    /// Who takes the lock once the unlock has taken effect.
    then: Option<(Provider, AttemptRequest, Other)>,
}

impl NoReply {
    fn new(inner: Provider, then: Option<(Provider, AttemptRequest, Other)>) -> Self {
        Self {
            inner,
            is_repeated: AtomicBool::new(false),
            then,
        }
    }
}

impl LockProvider for NoReply {
    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            if self.is_repeated.swap(true, Ordering::Relaxed) {
                return self.inner.unlock(lease, request).await;
            }
            if let Some((provider, attempt, other)) = &self.then {
                let _ = self.inner.unlock(lease, request).await?;
                let taken = provider.attempt(attempt).await?;
                if let (Other::HasEnded, Some(taken)) = (other, taken.acquired()) {
                    let _ = provider.unlock(&taken, &UnlockRequest::new()).await?;
                }
            }
            Err(Error::new(ErrorKind::OutcomeUnknown, "the reply was lost"))
        })
    }

    delegate!(inner except unlock);
}

//! The steps that cases consist of, with messages that report what was expected.

use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, ExtendRequest, Extension, Lease, LockName,
    LockRecord, LockState, Moment, Skip, SkipReason, Unlock, UnlockRequest,
};

use crate::verdict::ensure;
use crate::wait::now;
use crate::{Provider, Stop, Verdict};

/// A lease with the local moments between which the store granted it.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) lease: Lease,
    pub(crate) asked: Moment,
    pub(crate) answered: Moment,
}

/// Attempts once.
pub(crate) async fn try_take(
    provider: &Provider,
    request: &AttemptRequest,
) -> Result<Result<Taken, Skip>, Stop> {
    let asked = now();
    let attempt = provider.attempt(request).await?;
    let answered = now();
    match attempt {
        Attempt::Acquired(lease) => {
            ensure!(
                lease.owner() == &request.owner && lease.name() == &request.name,
                "requested as {} for {}, but the lease names {} and {}",
                &request.owner,
                &request.name,
                lease.owner(),
                lease.name()
            );
            Ok(Ok(Taken {
                lease,
                asked,
                answered,
            }))
        }
        Attempt::Skipped(skip) => Ok(Err(skip)),
        other => Err(Stop::failed(format!(
            "a reply that the kit does not support: {other:?}"
        ))),
    }
}

/// Repeats an attempt that failed because a busy server was too late, with the same request, as its error advises.
pub(crate) async fn attempt_of_many(
    provider: &Provider,
    request: &AttemptRequest,
) -> Result<Attempt, Error> {
    for _ in 0..3 {
        match provider.attempt(request).await {
            Err(error) if error.is_retryable() => {}
            answer => return answer,
        }
    }
    provider.attempt(request).await
}

/// Attempts once; the lock must be free.
pub(crate) async fn take(provider: &Provider, request: &AttemptRequest) -> Result<Taken, Stop> {
    try_take(provider, request).await?.map_err(|skip| {
        Stop::failed(format!(
            "lock {} should be free for {}, but the attempt was skipped: {skip}",
            &request.name, &request.owner
        ))
    })
}

/// Attempts once; the lock must be free.
pub(crate) async fn acquire(provider: &Provider, request: &AttemptRequest) -> Result<Lease, Stop> {
    Ok(take(provider, request).await?.lease)
}

/// Attempts once; the lock must be free. The lease is then abandoned, as if the process had
/// crashed.
pub(crate) async fn abandon(provider: &Provider, request: &AttemptRequest) -> Verdict {
    take(provider, request).await.map(drop)
}

/// Attempts once; the lock or the slot must be taken.
pub(crate) async fn skipped(provider: &Provider, request: &AttemptRequest) -> Verdict {
    any_skip(provider, request).await.map(drop)
}

/// Attempts once; the attempt must be skipped for this reason.
pub(crate) async fn skipped_as(
    provider: &Provider,
    request: &AttemptRequest,
    reason: SkipReason,
) -> Verdict {
    skip_as(provider, request, reason).await.map(drop)
}

/// Attempts once and returns the skip, which must have this reason.
pub(crate) async fn skip_as(
    provider: &Provider,
    request: &AttemptRequest,
    reason: SkipReason,
) -> Result<Skip, Stop> {
    let skip = any_skip(provider, request).await?;
    ensure!(
        skip.reason == reason,
        "the attempt at {} should be skipped as {reason:?}, but was as {:?}: {skip}",
        &request.name,
        skip.reason
    );
    Ok(skip)
}

async fn any_skip(provider: &Provider, request: &AttemptRequest) -> Result<Skip, Stop> {
    match try_take(provider, request).await? {
        Err(skip) => Ok(skip),
        Ok(taken) => Err(Stop::failed(format!(
            "the attempt of {} at {} should be skipped, but was granted {:?}",
            &request.owner, &request.name, taken.lease
        ))),
    }
}

/// Attempts once; the attempt must fail.
pub(crate) async fn attempt_error(
    provider: &Provider,
    request: &AttemptRequest,
) -> Result<Error, Stop> {
    match provider.attempt(request).await {
        Err(error) => Ok(error),
        Ok(answer) => Err(Stop::failed(format!(
            "the attempt at {} should be an error, but returned {answer:?}",
            &request.name
        ))),
    }
}

/// Attempts once; the attempt must fail with one of these kinds.
pub(crate) async fn attempt_error_as(
    provider: &Provider,
    request: &AttemptRequest,
    kinds: &[ErrorKind],
) -> Result<Error, Stop> {
    let error = attempt_error(provider, request).await?;
    ensure!(
        kinds.contains(&error.kind()),
        "expected an error of kind {kinds:?}, got {error:?}"
    );
    Ok(error)
}

/// Unlocks; the lease must still be the caller's.
pub(crate) async fn unlock(provider: &Provider, lease: &Lease) -> Verdict {
    let answer = provider.unlock(lease, &UnlockRequest::new()).await?;
    ensure!(
        answer == Unlock::Unlocked,
        "unlocking {lease:?} should return Unlocked, but returned {answer:?}"
    );
    Ok(())
}

/// Unlocks while others attempt the lock. If the reply is lost, another owner may acquire the lock
/// before the provider looks, so the outcome may stay unknown.
pub(crate) async fn unlock_contended(provider: &Provider, lease: &Lease) -> Verdict {
    match provider.unlock(lease, &UnlockRequest::new()).await {
        Err(error) if error.is_outcome_unknown() => Ok(()),
        answer => {
            let answer = answer?;
            ensure!(
                answer == Unlock::Unlocked,
                "unlocking {lease:?} should return Unlocked, but returned {answer:?}"
            );
            Ok(())
        }
    }
}

/// Unlocks a lease that may have ended. If the reply is lost, the provider cannot determine whether
/// this call ended the lease, so the call is repeated, as the runtime does.
pub(crate) async fn unlock_stale(
    provider: &Provider,
    lease: &Lease,
    request: &UnlockRequest,
) -> Result<Unlock, Error> {
    match provider.unlock(lease, request).await {
        Err(error) if error.is_outcome_unknown() => provider.unlock(lease, request).await,
        answer => answer,
    }
}

/// Unlocks; the lease must be lost.
pub(crate) async fn unlock_is_lost(provider: &Provider, lease: &Lease) -> Verdict {
    let answer = unlock_stale(provider, lease, &UnlockRequest::new()).await?;
    ensure!(
        answer == Unlock::Lost,
        "unlocking the stale {lease:?} should return Lost, but returned {answer:?}"
    );
    Ok(())
}

/// Extends; the lease must still be the caller's.
pub(crate) async fn extend(
    provider: &Provider,
    lease: &Lease,
    request: &ExtendRequest,
) -> Result<Lease, Stop> {
    match provider.extend(lease, request).await? {
        Extension::Extended(extended) => Ok(extended),
        answer => Err(Stop::failed(format!(
            "extending {lease:?} should work, but returned {answer:?}"
        ))),
    }
}

/// Extends a lease that was taken for `at_most`. Returns `None` if it was over before: then the machine was too slow.
pub(crate) async fn extend_in_time(
    provider: &Provider,
    taken: &Taken,
    at_most: Duration,
    request: &ExtendRequest,
) -> Result<Option<Lease>, Stop> {
    match provider.extend(&taken.lease, request).await? {
        Extension::Extended(extended) => Ok(Some(extended)),
        answer => {
            ensure!(
                now().saturating_since(taken.asked) >= at_most,
                "extending the running {:?} returned {answer:?}",
                taken.lease
            );
            Ok(None)
        }
    }
}

/// What to report if each of several leases was over before it could be extended.
pub(crate) fn none_in_time(at_most: Duration) -> Stop {
    Stop::failed(format!(
        "five leases of {at_most:?} were over before they could be extended: the machine is too slow"
    ))
}

/// Extends; the lease must be lost.
pub(crate) async fn extend_is_lost(
    provider: &Provider,
    lease: &Lease,
    at_most: Duration,
) -> Verdict {
    match provider.extend(lease, &ExtendRequest::new(at_most)).await? {
        Extension::Lost => Ok(()),
        answer => Err(Stop::failed(format!(
            "extending the stale {lease:?} should return Lost, but returned {answer:?}"
        ))),
    }
}

/// Returns the record, which must exist.
pub(crate) async fn record(provider: &Provider, name: &LockName) -> Result<LockRecord, Stop> {
    provider.inspect(name).await?.ok_or_else(|| {
        Stop::failed(format!(
            "there should be a record of {name}, but inspect returned none"
        ))
    })
}

/// Checks that the record still shows this lease as the holder, unchanged.
pub(crate) async fn still_holds(provider: &Provider, lease: &Lease) -> Verdict {
    let found = record(provider, lease.name()).await?;
    ensure!(
        found.state == LockState::Held && found.owner.as_deref() == Some(lease.owner().as_str()),
        "{} should still be held by {}, but its record shows {found:?}",
        lease.name(),
        lease.owner()
    );
    if let (Some(expected), Some(until)) = (lease.locked_until(), found.locked_until) {
        ensure!(
            expected == until,
            "{} was held until {expected:?}, now its record shows {until:?}",
            lease.name()
        );
    }
    if let (Some(expected), Some(token)) = (lease.fencing_token(), found.fencing_token) {
        ensure!(
            expected == token,
            "{} had the fencing token {expected}, now its record shows {token}",
            lease.name()
        );
    }
    Ok(())
}

/// Checks that the lock is free: there is no record, or the record shows it as free.
pub(crate) async fn is_free(provider: &Provider, name: &LockName) -> Verdict {
    match provider.inspect(name).await? {
        None => Ok(()),
        Some(record) => {
            ensure!(
                record.state == LockState::Free,
                "{name} should be free, but its record shows {record:?}"
            );
            Ok(())
        }
    }
}

/// Checks that `next` was granted no earlier than `kept` after `first`, by the store's clock if it
/// returns its time, otherwise by the local clock.
pub(crate) fn not_earlier(first: &Taken, kept: Duration, next: &Taken) -> Verdict {
    if let (Some(from), Some(to)) = (first.lease.acquired_at(), next.lease.acquired_at()) {
        let between = to.duration_since(from).unwrap_or_default();
        ensure!(
            between >= kept,
            "{} was taken again {between:?} after its acquisition, by the store's clock, but it \
             should be kept for {kept:?}",
            first.lease.name()
        );
        return Ok(());
    }
    // The store grants between request and reply, so this bound is certain except for two clocks
    // running at different speeds and a store that truncates to milliseconds.
    let between = next.answered.saturating_since(first.asked) + Duration::from_millis(2);
    ensure!(
        between >= kept,
        "{} was taken again {between:?} after it was requested, but it should be kept for {kept:?}",
        first.lease.name()
    );
    Ok(())
}

/// Checks that `next` was granted no later than `kept` plus the allowed lateness after `first`.
pub(crate) fn not_later(
    first: &Taken,
    kept: Duration,
    lateness: Duration,
    next: &Taken,
) -> Verdict {
    let bound = kept + lateness;
    let between = match (first.lease.acquired_at(), next.lease.acquired_at()) {
        (Some(from), Some(to)) => to.duration_since(from).unwrap_or_default(),
        _ => next.asked.saturating_since(first.answered),
    };
    ensure!(
        between <= bound,
        "{} became free only {between:?} after its acquisition, but it should be kept for only \
         {kept:?}",
        first.lease.name()
    );
    Ok(())
}

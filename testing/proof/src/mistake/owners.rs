//! Mistakes about who may change a lock, and about requests that arrive late or twice.

use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, ExtendRequest, Extension, Lease, LockState, Owner,
    SkipReason, Unlock, UnlockRequest,
};

use std::time::Duration;

use super::about::{About, Known, Needs};
use super::site::{Site, changed, lease_of, passed_on};

/// All processes share one host, and the host is the owner.
pub(super) struct OwnerIsHost;

impl OwnerIsHost {
    fn host() -> Result<Owner, Error> {
        Owner::parse("host/0/0")
    }
}

impl Known for OwnerIsHost {
    const ABOUT: About = About::new("owner-is-host")
        .caught_by(&["law03_ownership::stale_unlock_by_another_client"])
        .violates(&[
            "overlap",
            "token twice",
            "lost ownership",
            "not the owner",
            "owner returns",
            "not given back",
        ])
        .in_torture()
        .in_simulation();

    /// The store refuses an owner that has released the lock, so this erases the mark that the
    /// release left.
    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let at_most = request.lock_at_most_for;
        let attempt = changed(request, &Self::host()?, at_most);
        let answer = match site.inner.attempt(&attempt).await {
            Err(error) if error.kind() == ErrorKind::Lost => {
                site.another_lease(&request.name, at_most).await?;
                site.inner.attempt(&attempt).await
            }
            answer => answer,
        };
        Ok(passed_on(request, answer?))
    }

    async fn extend(
        site: &Site,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        let theirs = lease_of(lease, Self::host()?);
        Ok(match site.inner.extend(&theirs, request).await? {
            Extension::Extended(extended) => {
                Extension::Extended(lease_of(&extended, lease.owner().clone()))
            }
            lost => lost,
        })
    }

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let theirs = lease_of(lease, Self::host()?);
        site.inner.unlock(&theirs, request).await
    }
}

/// An unlock does not compare the owner.
pub(super) struct UnlockWithoutOwner;

impl Known for UnlockWithoutOwner {
    const ABOUT: About = About::new("unlock-without-owner")
        .violates(&[
            "overlap",
            "lost ownership",
            "not the owner",
            "not given back",
        ])
        .caught_by(&["law03_ownership::stale_unlock_by_another_client"])
        .in_torture()
        .in_simulation();

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        if site.inner.unlock(lease, request).await? == Unlock::Lost {
            site.force(lease.name()).await?;
        }
        Ok(Unlock::Unlocked)
    }
}

/// An unlock returns "unlocked" and changes nothing.
pub(super) struct UnlockForgotten;

impl Known for UnlockForgotten {
    const ABOUT: About = About::new("unlock-forgotten")
        .caught_by(&["law01_exclusion::lock_unlock_lock"])
        .violates(&["owner returns", "unlocked too late", "not given back"])
        .in_torture()
        .in_simulation();

    async fn unlock(_: &Site, _: &Lease, _: &UnlockRequest) -> Result<Unlock, Error> {
        Ok(Unlock::Unlocked)
    }
}

/// An unlock of an expired lease returns "unlocked".
pub(super) struct UnlockOfExpired;

impl Known for UnlockOfExpired {
    const ABOUT: About = About::new("unlock-of-expired")
        .violates(&["not given back"])
        .caught_by(&["law03_ownership::unlock_after_expiry_is_lost"])
        .in_simulation();

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        site.inner.unlock(lease, request).await?;
        Ok(Unlock::Unlocked)
    }
}

/// An unlock deletes the record, so that nothing shows whose lease has ended.
pub(super) struct UnlockLeavesNoTrace;

impl Known for UnlockLeavesNoTrace {
    const ABOUT: About = About::new("unlock-leaves-no-trace")
        .violates(&[
            "slot given back",
            "slot used up",
            "slot twice",
            "at-least",
            "owner returns",
            "unlocked too late",
        ])
        .caught_by(&[
            "law06_held_is_not_broken::a_copy_that_arrives_after_the_unlock_takes_nothing",
        ])
        .in_simulation();

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let answer = site.inner.unlock(lease, request).await?;
        if answer == Unlock::Unlocked {
            site.records()?.remove(lease.name());
        }
        Ok(answer)
    }
}

/// A second unlock returns "lost".
pub(super) struct SecondUnlockIsLost;

impl Known for SecondUnlockIsLost {
    const ABOUT: About = About::new("second-unlock-is-lost")
        .caught_by(&["law03_ownership::unlock_twice_is_not_lost"]);

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let is_first = site.shared.lock().owners.insert(lease.owner().to_string());
        match is_first {
            true => site.inner.unlock(lease, request).await,
            false => Ok(Unlock::Lost),
        }
    }
}

/// An unlock that is repeated because its reply was lost, and finds the lock gone, counts as the first one's success,
/// whoever has had the lock since.
pub(super) struct RepeatedUnlockIsSuccess;

impl Known for RepeatedUnlockIsSuccess {
    const ABOUT: About = About::new("repeated-unlock-is-success")
        .violates(&["overlapped success", "unlocked too late"])
        .needs(&[Needs::Pause])
        .in_torture();

    /// Loses every second reply that says "lost": that a connection is cut at just that moment is too rare.
    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let owner = lease.owner().to_string();
        let answer = match site.inner.unlock(lease, request).await {
            Ok(Unlock::Lost) if site.shared.lock().owners.contains(&owner) => {
                return Ok(Unlock::Unlocked);
            }
            Ok(Unlock::Lost) if site.one_in(2) => {
                Err(Error::new(ErrorKind::OutcomeUnknown, "the reply was lost"))
            }
            answer => answer,
        };
        if answer.as_ref().is_err_and(Error::is_outcome_unknown) {
            site.shared.lock().owners.insert(owner);
        }
        answer
    }
}

/// An extension checks that the lock is held, but not by whom.
pub(super) struct ExtendWithoutOwner;

impl Known for ExtendWithoutOwner {
    const ABOUT: About = About::new("extend-without-owner")
        .caught_by(&["law03_ownership::stale_extend_by_another_client"])
        .violates(&["overlap", "revived", "lost ownership", "not the owner"])
        .in_torture()
        .in_simulation();

    async fn extend(
        site: &Site,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        match site.inner.extend(lease, request).await? {
            Extension::Lost => match site.holder(lease.name()).await? {
                Some(holder) => extend_as(site, lease, request, holder).await,
                None => Ok(Extension::Lost),
            },
            answer => Ok(answer),
        }
    }
}

/// An extension reacquires an expired lock.
pub(super) struct ExtendRevives;

impl Known for ExtendRevives {
    const ABOUT: About = About::new("extend-revives")
        .violates(&["revived", "not the owner"])
        .caught_by(&["law03_ownership::extend_after_expiry_is_lost"])
        .in_torture()
        .in_simulation();

    async fn extend(
        site: &Site,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        match site.inner.extend(lease, request).await? {
            Extension::Lost => extend_as(site, lease, request, lease.owner().clone()).await,
            answer => Ok(answer),
        }
    }
}

/// As that owner: the attempt finds the existing lease or creates a new one.
async fn extend_as(
    site: &Site,
    lease: &Lease,
    request: &ExtendRequest,
    owner: Owner,
) -> Result<Extension, Error> {
    let at_most = request.lock_at_most_for;
    let theirs = AttemptRequest::new(lease.name().clone(), owner, at_most);
    Ok(match site.inner.attempt(&theirs).await? {
        Attempt::Acquired(_) => Extension::Extended(lease.extended(request)),
        _ => Extension::Lost,
    })
}

/// The lease ends as set by the extension that arrived last, even if another one asked for more.
pub(super) struct ExtensionShortens;

impl Known for ExtensionShortens {
    const ABOUT: About = About::new("extension-shortens")
        .violates(&["shortened", "overlap", "overlap in the store"])
        .caught_by(&[
            "law05_at_most::an_extension_never_shortens_the_lease",
            "law05_at_most::an_extension_that_arrives_late_does_not_shorten_the_lease",
        ])
        .in_torture()
        .in_simulation();

    async fn extend(
        site: &Site,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        let extended = match site.inner.extend(lease, request).await? {
            Extension::Extended(extended) => extended,
            answer => return Ok(answer),
        };
        let Some(records) = &site.records else {
            // An extension that asked for less, and was sent earlier, arrives now.
            site.take_again(lease, request.lock_at_most_for / 4).await?;
            return Ok(Extension::Extended(extended));
        };
        let Some(record) = site.inner.inspect(lease.name()).await? else {
            return Ok(Extension::Extended(extended));
        };
        let now = site.read_at(&record);
        let until = now + request.lock_at_most_for;
        if extended.locked_until() <= Some(until) {
            return Ok(Extension::Extended(extended));
        }
        let from = record.locked_at.unwrap_or(now);
        records.write(lease.name(), lease.owner().as_str(), from, until);
        Ok(Extension::Extended(extended.with_locked_until(until)))
    }
}

/// A record that was read as free is overwritten, whatever happened in between.
pub(super) struct ReadThenWrite;

impl Known for ReadThenWrite {
    const ABOUT: About = About::new("read-then-write")
        .caught_by(&["law01_exclusion::sixty_four_contenders_have_one_winner"])
        .violates(&[
            "overlap",
            "lost ownership",
            "not the owner",
            "overlap in the store",
            "token goes back",
        ])
        .in_torture()
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let read = site.inner.inspect(&request.name).await?;
        if let Some(record) = read
            && record.state != LockState::Free
        {
            return Ok(Attempt::Skipped(record.as_skip()));
        }
        // As far apart as two statements.
        site.sleep(Duration::from_millis(2)).await;
        let answer = site.inner.attempt(request).await?;
        if let Attempt::Skipped(skip) = &answer
            && skip.reason == SkipReason::Held
        {
            site.force(&request.name).await?;
            return site.inner.attempt(request).await;
        }
        Ok(answer)
    }
}

/// The same attempt, repeated, is skipped as held.
pub(super) struct AttemptNotIdempotent;

impl Known for AttemptNotIdempotent {
    const ABOUT: About = About::new("attempt-not-idempotent")
        .violates(&["owner returns"])
        .caught_by(&["law06_held_is_not_broken::the_same_attempt_twice_is_one_lease"])
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let before = site.inner.inspect(&request.name).await?;
        match before.filter(|record| record.state == LockState::Held) {
            Some(record) => Ok(Attempt::Skipped(record.as_skip())),
            None => site.inner.attempt(request).await,
        }
    }
}

/// An attempt that finds the lock given back by its own owner acquires it again.
pub(super) struct OwnerReturns;

impl Known for OwnerReturns {
    const ABOUT: About = About::new("owner-returns")
        .caught_by(&[
            "law06_held_is_not_broken::a_copy_that_arrives_after_the_unlock_takes_nothing",
        ])
        .violates(&["owner returns"])
        .in_torture()
        .in_simulation();

    /// The store refuses this, so another owner's lease replaces the mark of this one.
    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        match site.inner.attempt(request).await {
            Err(error) if error.kind() == ErrorKind::Lost => {
                let at_most = request.lock_at_most_for;
                site.another_lease(&request.name, at_most).await?;
                site.inner.attempt(request).await
            }
            answer => answer,
        }
    }

    /// A copy of the attempt arrives, unless the harness is one that lets copies arrive late: those
    /// have access to the records.
    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let unlock = site.inner.unlock(lease, request).await?;
        let is_free = lease.lock_at_least_for().is_zero() && site.records.is_none();
        if unlock == Unlock::Unlocked && is_free && site.one_in(3) {
            site.take_again(lease, lease.lock_at_most_for()).await?;
        }
        Ok(unlock)
    }
}

/// A copy of an unanswered attempt is granted long after its timeout.
pub(super) struct LateAttempt;

impl Known for LateAttempt {
    const ABOUT: About = About::new("late-attempt")
        .violates(&["owner returns", "taken for too long"])
        .caught_by(&[
            "law06_held_is_not_broken::a_copy_that_arrives_after_other_owners_takes_nothing",
            "law06_held_is_not_broken::a_copy_that_arrives_after_the_withdrawal_takes_nothing",
            "law06_held_is_not_broken::a_copy_that_arrives_after_a_skip_takes_nothing",
        ])
        .in_torture()
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        if site.one_in(4) {
            site.attempt_late(request.clone());
            let why = "it is still on its way";
            return Err(Error::new(ErrorKind::OutcomeUnknown, why));
        }
        site.inner.attempt(request).await
    }
}

/// A lock that was withdrawn stays taken.
pub(super) struct WithdrawDoesNothing;

impl Known for WithdrawDoesNothing {
    const ABOUT: About = About::new("withdraw-does-nothing")
        .violates(&["owner returns"])
        .caught_by(&["law06_held_is_not_broken::a_withdrawn_attempt_frees_at_once"])
        .in_simulation();

    async fn withdraw(_: &Site, _: &AttemptRequest) -> Result<bool, Error> {
        Ok(true)
    }
}

/// What may have been won is withdrawn immediately, but not again after the bound.
pub(super) struct WithdrawOnce;

impl Known for WithdrawOnce {
    const ABOUT: About = About::new("withdraw-once")
        .violates(&["owner returns"])
        .in_simulation();

    async fn withdraw(site: &Site, request: &AttemptRequest) -> Result<bool, Error> {
        let is_first = site.own.lock().owners.insert(request.owner.to_string());
        match is_first {
            true => site.inner.withdraw(request).await,
            false => Ok(false),
        }
    }
}

/// After a lost reply an attempt is sent again within the same call. The answer to the second copy
/// hides that the first one may still arrive.
pub(super) struct ClaimSentAgain;

impl Known for ClaimSentAgain {
    const ABOUT: About = About::new("claim-sent-again")
        .violates(&["owner returns", "taken for too long"])
        .needs(&[Needs::Network])
        .caught_by(&[
            "law06_held_is_not_broken::\
             a_run_that_was_skipped_leaves_no_copy_that_takes_the_lock",
            "law06_held_is_not_broken::\
             a_run_that_has_ended_leaves_no_copy_that_takes_the_lock",
        ])
        .in_torture();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        match site.inner.attempt(request).await {
            Err(error) if error.is_outcome_unknown() => site.inner.attempt(request).await,
            answer => answer,
        }
    }
}

//! Mistakes about fencing tokens.

use std::time::UNIX_EPOCH;

use shedlock_core::{Attempt, AttemptRequest, Error, Lease, Unlock, UnlockRequest};

use super::about::{About, Known, Needs};
use super::site::Site;

/// Passes an attempt on, and gives what it wins another token.
async fn with_token(
    site: &Site,
    request: &AttemptRequest,
    token: impl FnOnce(&Lease) -> Option<u64>,
) -> Result<Attempt, Error> {
    Ok(match site.inner.attempt(request).await? {
        Attempt::Acquired(lease) => Attempt::Acquired(match token(&lease) {
            Some(token) => lease.with_fencing_token(token),
            None => lease,
        }),
        answer => answer,
    })
}

/// Each process counts its own tokens.
pub(super) struct TokensOfProcess;

impl Known for TokensOfProcess {
    const ABOUT: About = About::new("tokens-of-process")
        .violates(&["token twice", "token goes back"])
        .caught_by(&["law08_fencing::tokens_grow_across_a_new_provider"])
        .needs(&[Needs::Fencing])
        .in_torture();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let next = |_: &Lease| {
            let mut own = site.own.lock();
            own.acquisitions += 1;
            Some(own.acquisitions)
        };
        with_token(site, request, next).await
    }
}

/// A token is the second in which the lock was acquired.
pub(super) struct TokensStand;

impl Known for TokensStand {
    const ABOUT: About = About::new("tokens-stand")
        .caught_by(&["law08_fencing::tokens_grow_across_unlock"])
        .violates(&["token twice", "token goes back"])
        .needs(&[Needs::Fencing])
        .in_torture()
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let second = |_: &Lease| {
            let since = site.clock.system_time().duration_since(UNIX_EPOCH);
            Some(since.unwrap_or_default().as_secs())
        };
        with_token(site, request, second).await
    }
}

/// The token of an acquisition repeats the previous one if the lock was unlocked.
pub(super) struct TokenOnExpiryOnly;

impl Known for TokenOnExpiryOnly {
    const ABOUT: About = About::new("token-on-expiry-only")
        .violates(&["token goes back"])
        .caught_by(&["law08_fencing::tokens_grow_across_unlock"])
        .needs(&[Needs::Fencing])
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let before = |lease: &Lease| site.shared.lock().tokens.remove(lease.name());
        with_token(site, request, before).await
    }

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let answer = site.inner.unlock(lease, request).await?;
        if answer == Unlock::Unlocked
            && let Some(token) = lease.fencing_token()
        {
            let name = lease.name().clone();
            site.shared.lock().tokens.insert(name, token);
        }
        Ok(answer)
    }
}

/// The token starts over when the record is deleted.
pub(super) struct TokenForgottenWithRecord;

impl Known for TokenForgottenWithRecord {
    const ABOUT: About = About::new("token-forgotten-with-record")
        .violates(&["token goes back"])
        .caught_by(&["law08_fencing::tokens_grow_across_a_deleted_record"])
        .needs(&[Needs::Fencing])
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let was_there = site.inner.inspect(&request.name).await?.is_some();
        let next = |lease: &Lease| {
            let mut shared = site.shared.lock();
            let last = shared.tokens.entry(lease.name().clone()).or_default();
            *last = if was_there { *last + 1 } else { 1 };
            Some(*last)
        };
        with_token(site, request, next).await
    }
}

//! Unlocking in the store, again and again while it fails.

use std::time::Duration;

use super::bounded::bounded;
use super::{Held, Known, Release};
use crate::clock::Moment;
use crate::contract::store_clock::SLEW;
use crate::contract::{ClockSource, Error, Lease, LockRecord, Owner, Unlock, UnlockRequest};
use shedlock_support::Backoff;

/// How long a release is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A caller waits for the value of its task: at most 10 s, and not after an error that does not pass by itself.
    Caller,
    /// As long as the lease lasts, but not after an error that does not pass by itself.
    Lease,
    /// As long as the lease lasts. No one waits.
    Background,
}

impl Patience {
    /// The longest that a caller waits for a value that it could have.
    const CALLER: Duration = Duration::from_secs(10);

    fn left(self, waited: Duration) -> Duration {
        match self {
            Self::Caller => Self::CALLER.saturating_sub(waited),
            Self::Lease | Self::Background => Duration::MAX,
        }
    }
}

/// What the record shows of an unlock that was repeated and found the lease gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    /// No one else has had the lock since: the unlock took effect when it was sent first.
    Unlocked,
    /// The lease of another owner began before the unlock was sent.
    Overlapped,
    /// It cannot be told.
    Unclear,
}

impl Held {
    /// Unlocks in the store, and tries again as the patience has it while the store fails and the lease still runs.
    pub(super) async fn unlock(&self, request: &UnlockRequest, patience: Patience) -> Release {
        const FIRST_PAUSE: Duration = Duration::from_millis(50);
        const LONGEST_PAUSE: Duration = Duration::from_secs(1);
        let _one_at_a_time = self.one_at_a_time().await;
        let clock = &*self.context().clock;
        let (lease, deadline) = (self.lease(), self.state().deadline());
        let left = || deadline.left(self.context().lease_clock.read());
        let begun = clock.now();
        let sent = self.state().send_unlock(begun);
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut is_gone = false;
        loop {
            let waited = clock.now().saturating_since(begun);
            let limit = patience.left(waited).min(self.context().store_timeout);
            let error = match self.try_unlock(&lease, request, sent, limit).await {
                Ok(release) => return release,
                Err((error, found_gone)) => {
                    is_gone |= found_gone;
                    self.context_of(error)
                }
            };
            if self.known_by_duties().await == Known::Ended {
                return Release::Released;
            }
            let context = self.context();
            context.store_failed(self.name(), self.job(), &error);
            if error.is_outcome_unknown() {
                self.state().doubt_unlock();
            }
            let give_up = |error| match is_gone {
                true => Release::MaybeOverlapped,
                false => Release::Failed(error),
            };
            let wait = match () {
                () if error.is_final() => return give_up(error),
                () if error.is_retryable() => backoff.pause(),
                () if patience == Patience::Background => lease.lock_at_most_for() / 6,
                () => return give_up(error),
            };
            let waited = clock.now().saturating_since(begun);
            if left() <= wait || patience.left(waited) <= wait {
                return give_up(error);
            }
            clock.sleep_until(clock.now() + wait).await;
            backoff.take();
        }
    }

    /// Unlocks once, `limit` at most for each call. An error comes with whether the lease was found gone before it.
    async fn try_unlock(
        &self,
        lease: &Lease,
        request: &UnlockRequest,
        sent: Moment,
        limit: Duration,
    ) -> Result<Release, (Error, bool)> {
        let (clock, provider) = (&*self.context().clock, &self.context().provider);
        let unlock = bounded(clock, limit, provider.unlock(lease, request));
        if unlock.await.map_err(|error| (error, false))? == Unlock::Unlocked {
            return Ok(Release::Released);
        }
        match self.known_by_duties().await {
            Known::Ended => return Ok(Release::Released),
            Known::NotEnded if !self.state().is_unlock_unknown() => return Ok(Release::Lost),
            _ => {}
        }
        let record = bounded(clock, limit, provider.inspect(lease.name())).await;
        let record = record.map_err(|error| (error, true))?;
        Ok(match self.what_happened(lease, record.as_ref(), sent) {
            Gone::Unlocked if self.lasts() => Release::Released,
            // The lease ended by itself, before any of the unlocks arrived.
            Gone::Unlocked | Gone::Overlapped => Release::Lost,
            Gone::Unclear => Release::MaybeOverlapped,
        })
    }

    /// What the duties know of a lease whose unlock was handed to them too.
    async fn known_by_duties(&self) -> Known {
        match self.state().shared_unlock() {
            Some(unlock) => unlock.known().await,
            None => Known::NotEnded,
        }
    }

    /// Judges by the record whether the lease was gone when its unlock was first sent, at `sent`.
    fn what_happened(&self, lease: &Lease, record: Option<&LockRecord>, sent: Moment) -> Gone {
        let Some(owner) = record.and_then(|record| record.owner.as_deref()) else {
            return Gone::Unclear;
        };
        if owner == lease.owner().as_str() {
            return Gone::Unlocked;
        }
        let capabilities = self.context().provider.capabilities();
        if capabilities.slot_clock != ClockSource::Store || !Owner::is_ours(owner) {
            return Gone::Unclear;
        }
        // By the store's clock, the unlock was sent at this instant or later.
        let held_for = sent.at_least_since(self.granted);
        let since_granted = || lease.acquired_at()?.checked_add(held_for - held_for / SLEW);
        let ago = self.context().clock.now().at_most_since(sent);
        let before_now = |record: &LockRecord| record.read_at?.checked_sub(ago + ago / SLEW);
        let earliest = record.and_then(before_now).or_else(since_granted);
        let began = record.and_then(|record| record.locked_at);
        let latest = began.and_then(|began| began.checked_add(capabilities.granularity));
        match latest.zip(earliest) {
            Some((latest, earliest)) if latest < earliest => Gone::Overlapped,
            _ => Gone::Unclear,
        }
    }
}

//! Mistakes about when a lease ends, and when its holder believes that it ends.

use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, Lease, LockState, Unlock, UnlockRequest,
};

use super::about::{About, At, Known};
use super::site::{Site, changed, passed_on, with_at_least, without_slot};

/// A lease ends a third before at-most.
pub(super) struct EndsEarly;

impl Known for EndsEarly {
    const ABOUT: About = About::new("ends-early")
        .violates(&["overlap", "lost ownership", "shortened"])
        .caught_by(&["law05_at_most::an_abandoned_lock_comes_free_at_its_end"])
        .in_torture()
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let at_most = request.lock_at_most_for * 2 / 3;
        let shorter = changed(request, &request.owner, at_most);
        Ok(passed_on(request, site.inner.attempt(&shorter).await?))
    }
}

/// A lease continues for a while after at-most.
pub(super) struct EndsLate;

impl Known for EndsLate {
    const ABOUT: About = About::new("ends-late")
        .caught_by(&["law05_at_most::the_record_says_until_when"])
        .violates(&["taken for too long", "unlocked too late"])
        .in_torture()
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let at_most = request.lock_at_most_for * 2;
        let longer = without_slot(request, &request.owner, at_most);
        Ok(passed_on(request, site.inner.attempt(&longer).await?))
    }
}

/// At-least counts from an instant before the acquisition.
pub(super) struct AtLeastTooEarly;

impl Known for AtLeastTooEarly {
    const ABOUT: About = About::new("at-least-too-early")
        .caught_by(&["law04_at_least::at_least_is_kept_after_unlock"])
        .violates(&["at-least"])
        .in_torture()
        .in_simulation();

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let at_least = lease.lock_at_least_for() / 3;
        let less = with_at_least(lease, lease.owner().clone(), at_least);
        site.inner.unlock(&less, request).await
    }
}

/// An unlock ignores at-least.
pub(super) struct AtLeastForgotten;

impl Known for AtLeastForgotten {
    const ABOUT: About = About::new("at-least-forgotten")
        .violates(&["at-least"])
        .caught_by(&["law04_at_least::at_least_is_kept_after_unlock"])
        .in_torture()
        .in_simulation();

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let request = request.clone().ignoring_at_least();
        site.inner.unlock(lease, &request).await
    }
}

/// At-least counts from the unlock.
pub(super) struct AtLeastFromUnlock;

impl Known for AtLeastFromUnlock {
    // A repeated unlock moves the end once more.
    const ABOUT: About = About::new("at-least-from-unlock")
        .violates(&["taken for too long", "owner returns", "unlocked too late"])
        .caught_by(&["law04_at_least::at_least_is_counted_from_acquisition"])
        .in_simulation();

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let answer = site.inner.unlock(lease, request).await?;
        if answer == Unlock::Unlocked
            && let Some(record) = site.inner.inspect(lease.name()).await?
        {
            let now = site.read_at(&record);
            let from = record.locked_at.unwrap_or(now);
            let until = now + request.at_least_of(lease.lock_at_least_for());
            let mark = lease.owner().released();
            site.records()?.write(lease.name(), &mark, from, until);
        }
        Ok(answer)
    }
}

/// The task runs until the end of its lease as counted from the reply.
pub(super) struct DeadlineFromReply;

impl Known for DeadlineFromReply {
    const ABOUT: About = About::new("deadline-from-reply")
        .at(At::Clock)
        .violates(&["outlived", "overlap"])
        .in_torture()
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let asked = site.clock.now();
        let answer = site.inner.attempt(request).await?;
        if matches!(answer, Attempt::Acquired(_)) && site.one_in(2) {
            site.sleep(request.lock_at_most_for / 3).await;
        }
        site.wrong_clock.stood_still_since(asked);
        Ok(answer)
    }
}

/// A repeated request counts its deadline from the last repetition.
pub(super) struct DeadlineFromLastAsk;

impl Known for DeadlineFromLastAsk {
    const ABOUT: About = About::new("deadline-from-last-ask")
        .at(At::Clock)
        .violates(&["outlived", "overlap"])
        .in_torture()
        .in_simulation();

    /// Imitates a network that sometimes loses the reply to a won attempt.
    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let now = (request.owner.clone(), site.clock.now());
        let before = site.own.lock().asked.replace(now);
        if let Some((owner, moment)) = before
            && owner == request.owner
        {
            site.wrong_clock.stood_still_since(moment);
            return site.inner.attempt(request).await;
        }
        let answer = site.inner.attempt(request).await?;
        if matches!(answer, Attempt::Acquired(_)) && site.one_in(2) {
            site.sleep(request.lock_at_most_for / 4).await;
            return Err(Error::new(ErrorKind::OutcomeUnknown, "the reply was lost"));
        }
        Ok(answer)
    }
}

/// The task of a process that was stopped does one more step before it checks the clock.
pub(super) struct NoLookAfterPause;

impl Known for NoLookAfterPause {
    const ABOUT: About = About::new("no-look-after-pause")
        .at(At::Clock)
        .violates(&["outlived", "overlap"])
        .in_torture()
        .in_simulation();
}

/// The wait for the final withdrawal ends earlier by each forward jump of the wall clock, as the
/// lease does. A copy that arrives after it holds the lock for all of at-most.
pub(super) struct WaitCountsJumps;

impl Known for WaitCountsJumps {
    const ABOUT: About = About::new("wait-counts-jumps")
        .at(At::Clock)
        .violates(&["not withdrawn", "owner returns"])
        .in_torture()
        .in_simulation();

    /// Imitates a network that sometimes loses the reply.
    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let answer = site.inner.attempt(request).await?;
        if site.one_in(4) {
            return Err(Error::new(ErrorKind::OutcomeUnknown, "the reply was lost"));
        }
        Ok(answer)
    }
}

/// One client's clock is ahead by half a lease, and the clients' clocks judge.
pub(super) struct ClockAhead;

impl Known for ClockAhead {
    const ABOUT: About = About::new("clock-ahead")
        .caught_by(&["law05_at_most::an_abandoned_lock_comes_free_at_its_end"])
        .violates(&[
            "overlap",
            "lost ownership",
            "not the owner",
            "overlap in the store",
        ])
        .in_torture()
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let record = site.inner.inspect(&request.name).await?;
        if let Some(record) = record
            && record.state == LockState::Held
            && let Some(until) = record.locked_until
            && until < site.read_at(&record) + request.lock_at_most_for / 2
        {
            site.force(&request.name).await?;
        }
        site.inner.attempt(request).await
    }
}

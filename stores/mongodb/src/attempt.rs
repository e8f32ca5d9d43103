//! Taking a lock.

use std::time::{SystemTime, UNIX_EPOCH};

use mongodb::bson::{Document, doc};
use shedlock_core::{
    Attempt, AttemptRequest, BoundedAttempt, Budget, Error, ErrorKind, Moment, NotAfter, Skip,
    SkipReason, StoreClock,
};
use shedlock_provider::{ROUNDS, Record, Result, Store as _, check_slot, refusal};

use crate::codec::{self, Look, RESOLUTION};
use crate::store::MongoStore;
use crate::update::Claim;

const CLOCK: &str = "the reference clock";

impl MongoStore {
    /// Lets the server judge the attempt. If a race was lost, its winner normally holds the lock, and the next round
    /// reports it.
    pub(crate) async fn judge(&self, request: &AttemptRequest, budget: &Budget) -> Result<Attempt> {
        let name = &request.name;
        let is_bounded = !self.settings.time.is_client();
        let mut not_after = NotAfter::new(&self.server, budget);
        let mut conflicts = Vec::new();
        for _ in 0..ROUNDS {
            let claim = Claim {
                request,
                budget,
                not_after: is_bounded.then(|| not_after.instant()),
                now: self.now(),
                skew: self.settings.time.source().tolerated_skew(),
            };
            let query = doc! { "_id": name.as_str() };
            let sent = self.clock().now();
            budget.count();
            if let Some(document) = self.update(query, claim.update()).await? {
                match self.answer(claim, &document, sent).await? {
                    Some(BoundedAttempt::Judged(answer)) => return Ok(answer),
                    Some(BoundedAttempt::TooLate { store_time }) => {
                        not_after.refused(store_time)?
                    }
                    None => {}
                }
                continue;
            }
            let reached = self.server.earliest().filter(|_| is_bounded);
            if request.slot.is_some()
                && reached.is_none_or(|now| check_slot(request, now, CLOCK).is_err())
            {
                budget.count();
                check_slot(request, self.judging_time().await?, CLOCK)?;
            }
            budget.count();
            match self.create(name).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) if error.kind() == ErrorKind::Conflict => conflicts.push(error),
                Err(error) => return Err(error),
            }
            if let (Some(store_time), Some(last)) = (self.server.earliest(), claim.not_after)
                && store_time > last
            {
                not_after.refused(store_time)?;
            }
        }
        match conflicts.pop() {
            // In every round no document of this name was found, and another document prevented its creation.
            Some(conflict) if conflicts.len() + 1 == ROUNDS as usize => Err(conflict),
            _ => Ok(Attempt::Skipped(Skip::new(SkipReason::Contended))),
        }
    }

    /// Evaluates a document that was written or left unchanged; `None` if the lock has become free since.
    async fn answer(
        &self,
        claim: Claim<'_>,
        document: &Document,
        sent: Moment,
    ) -> Result<Option<BoundedAttempt>> {
        let record = codec::record(document)?;
        if record.owner == claim.request.owner.as_str() {
            let at = record.locked_at.unwrap_or(UNIX_EPOCH);
            match claim.not_after.map(|last| last.duration_since(at)) {
                None => {}
                Some(Ok(left)) if left.saturating_sub(RESOLUTION) <= claim.budget.time() => {
                    self.server.observe_reply(at, sent);
                }
                // If a copy won the lease earlier, its start is not the server's current time. This read returns that
                // time.
                Some(_) => {
                    claim.budget.count();
                    drop(self.read(&claim.request.name).await);
                }
            }
            return Ok(Some(acquired(claim.request, &record)));
        }
        if let Some(skip) = self.refused_by(claim, &record) {
            return Ok(Some(skipped(skip)));
        }
        claim.budget.count();
        let look = self.read(&claim.request.name).await?;
        look.map_or(Ok(None), |look| verdict(claim, &look))
    }

    /// Why the document rejected this attempt, if this does not depend on the server's clock.
    fn refused_by(&self, claim: Claim<'_>, record: &Record) -> Option<Skip> {
        let request = claim.request;
        let refused = |is_locked| {
            let shown = record.as_lock_record(&request.name, is_locked, UNIX_EPOCH);
            refusal(request, &shown, record.shedlock_at(), UNIX_EPOCH)
        };
        // Whether a pause has skipped the slot depends on it.
        if request.slot.is_some() && record.slots.skipped.is_some() {
            return None;
        }
        let skip = refused(true)?;
        let is_sure = match request.slot {
            // A free lock rejects an attempt that was released before, or that arrives too late.
            None => {
                let is_held = match claim.not_after {
                    Some(last) => must_be_held(&self.server, record.locked_until, last),
                    // A withdrawal may have moved the end past the time that this attempt carries.
                    None => record.locked_until > self.clock().system_time(),
                };
                !request.owner.has_ended_in(&record.owner) && is_held
            }
            // A slot that is ahead is rejected for that reason. The client's clock is precise enough for a hint.
            Some(slot) => {
                slot.instant() <= self.clock().system_time()
                    && refused(false).is_some_and(|free| free.reason == skip.reason)
            }
        };
        is_sure.then_some(skip)
    }
}

/// Whether a lock with this end was held when the server rejected an attempt with this not-after, whose reply has just
/// arrived. True only if the attempt cannot have been too late, and if the end is still to come: a withdrawal moves the
/// end of a free lock up to its own instant, and an attempt that is judged at a slightly earlier one is rejected.
fn must_be_held(server: &StoreClock, until: SystemTime, not_after: SystemTime) -> bool {
    let latest = server.latest();
    latest.is_some_and(|latest| latest <= not_after && until > latest)
}

/// Judges an attempt. The reasons are checked in this order: our own lease, a slot that cannot be claimed, a running
/// lease, our own released lease, an attempt that is too late.
fn verdict(claim: Claim<'_>, look: &Look) -> Result<Option<BoundedAttempt>> {
    let (request, record, store_time) = (claim.request, &look.record, look.now);
    if record.owner == request.owner.as_str() && look.is_locked() {
        return Ok(Some(acquired(request, record)));
    }
    check_slot(request, store_time, CLOCK)?;
    let shown = look.shown(&request.name);
    let latest = store_time + claim.skew;
    if let Some(skip) = refusal(request, &shown, record.shedlock_at(), latest) {
        return Ok(Some(skipped(skip)));
    }
    if request.owner.has_ended_in(&record.owner) {
        return Err(Error::attempt_ended());
    }
    let is_late = claim.not_after.is_some_and(|last| store_time > last);
    Ok(is_late.then_some(BoundedAttempt::TooLate { store_time }))
}

fn acquired(request: &AttemptRequest, record: &Record) -> BoundedAttempt {
    BoundedAttempt::Judged(Attempt::Acquired(record.as_lease(request)))
}

fn skipped(skip: Skip) -> BoundedAttempt {
    BoundedAttempt::Judged(Attempt::Skipped(skip))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::{Clock as _, ManualClock};
    use std::sync::Arc;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_refusal_is_taken_for_a_held_lock_only_where_the_attempt_was_in_time() {
        let local = ManualClock::new();
        let clock = StoreClock::with_clock(Arc::new(local.clone()));
        let server = UNIX_EPOCH + 1_000_000 * SECOND;
        let until = server + 86_400 * SECOND;
        assert!(!must_be_held(&clock, until, UNIX_EPOCH), "nothing was seen");
        clock.observe_reply(server, local.now());
        let not_after = clock.not_after(10 * SECOND);
        assert!(must_be_held(&clock, until, not_after));
        assert!(!must_be_held(&clock, server, not_after), "it has ended");
        let sent = local.now();
        local.advance(SECOND);
        clock.observe_reply(server, sent);
        let moved = server + SECOND / 2;
        assert!(!must_be_held(&clock, moved, not_after), "it may have ended");
        assert!(must_be_held(&clock, server + 2 * SECOND, not_after));
        local.advance(11 * SECOND);
        assert!(!must_be_held(&clock, until, not_after), "it came late");
        // Without new reports the estimate falls behind the server's clock.
        local.advance(3_600 * SECOND);
        let not_after = clock.not_after(10 * SECOND);
        assert!(!must_be_held(&clock, until, not_after));
        clock.observe_reply(server + 3_611 * SECOND, local.now());
        let not_after = clock.not_after(10 * SECOND);
        assert!(must_be_held(&clock, until, not_after));
    }
}

//! Taking a lock.

use shedlock_core::{
    Attempt, AttemptRequest, BoundedAttempt, Error, ErrorKind, LockName, LockState, Moment, Skip,
    SkipReason, Slot,
};

use mongodb::bson::{Document, doc};
use std::time::SystemTime;

use crate::claim::Claim;
use crate::found::{Found, Seen};
use crate::provider::MongoProvider;
use crate::send::Written;
use crate::time::{LONGEST, TimeMode, date};

/// How often a lock that was found free is tried for, before the attempt gives way.
pub(crate) const ROUNDS: usize = 3;

impl MongoProvider {
    pub(crate) async fn try_attempt(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        request.validate()?;
        check_name(request.name())?;
        let commands = self.commands();
        if commands.time() == TimeMode::Store {
            let send = |not_after| self.judge(request, Some(not_after));
            return commands.server().store().attempt(request, send).await;
        }
        match self.judge(request, None).await? {
            BoundedAttempt::Judged(attempt) => Ok(attempt),
            BoundedAttempt::TooLate { .. } => Err(Error::new(
                ErrorKind::Internal,
                "an attempt without a not-after was refused as late",
            )),
        }
    }

    /// Lets the server decide; whoever won a race that was lost holds the lock, as a rule, and the
    /// next round says so.
    async fn judge(
        &self,
        request: &AttemptRequest,
        not_after: Option<SystemTime>,
    ) -> Result<BoundedAttempt, Error> {
        let name = request.name();
        let commands = self.commands();
        let mut is_elsewhere = 0;
        // One round more, for that which makes the document.
        for _ in 0..=ROUNDS {
            let claim = Claim::new(request, commands.now(), not_after.map(date))?;
            let query = doc! { "_id": name.as_str() };
            let sent = commands.sent();
            if let Written::Document(document) = commands.update(query, claim.update()).await? {
                if let Some(answer) = self.answer(request, &document, not_after, sent).await? {
                    return Ok(answer);
                }
                continue;
            }
            if let Some(slot) = request.slot() {
                check_ahead(request, slot, self.judging_time().await?)?;
            }
            match commands.create(name).await? {
                Written::Document(_) => {}
                Written::Exists => is_elsewhere += 1,
                Written::Nothing => continue,
            }
            if let (Some(store_time), Some(last)) = (commands.server().now(), not_after)
                && store_time > last
            {
                return Ok(BoundedAttempt::TooLate { store_time });
            }
        }
        if is_elsewhere > ROUNDS {
            return Err(Error::new(
                ErrorKind::Conflict,
                "the collection takes this name for the same as that of another document, by its \
                 collation: rename one of the locks, or use a collection without one",
            ));
        }
        let skip = Skip::new(SkipReason::Contended);
        Ok(BoundedAttempt::Judged(Attempt::Skipped(skip)))
    }

    /// The clock that judges, or a little earlier.
    async fn judging_time(&self) -> Result<SystemTime, Error> {
        match self.commands().server().now() {
            Some(now) => Ok(now),
            None => self.commands().time_now().await,
        }
    }

    /// What a document means that was written, or left as it is; `None` where the lock has come
    /// free since.
    async fn answer(
        &self,
        request: &AttemptRequest,
        document: &Document,
        not_after: Option<SystemTime>,
        sent: Moment,
    ) -> Result<Option<BoundedAttempt>, Error> {
        let found = Found::parse(document)?;
        if found.is_of(request.owner()) {
            let lease = found.lease(request);
            if let Some(at) = lease.acquired_at() {
                self.commands().observe(at, sent);
            }
            return Ok(Some(BoundedAttempt::Judged(Attempt::Acquired(lease))));
        }
        if let Some(skip) = self.refused_by(request, &found, not_after) {
            return Ok(Some(BoundedAttempt::Judged(Attempt::Skipped(skip))));
        }
        match self.commands().read(request.name()).await? {
            Some(seen) => verdict(request, &seen, not_after),
            None => Ok(None),
        }
    }

    /// Why the document refused this attempt, where that does not depend on the server's clock.
    fn refused_by(
        &self,
        request: &AttemptRequest,
        found: &Found,
        not_after: Option<SystemTime>,
    ) -> Option<Skip> {
        let record = found.record(request.name(), true);
        let Some(slot) = request.slot() else {
            // A free lock refuses an attempt that was released before, or that comes late.
            let server = self.commands().server();
            let is_held = !found.is_released_by(request.owner())
                && not_after.is_none_or(|last| server.must_be_held(found.until, last));
            return is_held.then(|| record.as_skip());
        };
        let refusal = |lock| found.slots.refusal(request, found.shedlock_at(), lock);
        // One that lies ahead is refused for that; the client's clock is good for a hint.
        let is_past = slot.instant() <= self.commands().clients_time();
        let is_same = |reason: &_| refusal(LockState::Free).as_ref() == Some(reason);
        let reason = refusal(LockState::Held)
            .filter(is_same)
            .filter(|_| is_past)?;
        Some(record.as_skip_for(reason))
    }
}

/// Judges, in the order in which reasons count: our own lease, a slot that cannot be claimed, a
/// lease that runs, one of ours that was released, an attempt that comes late.
fn verdict(
    request: &AttemptRequest,
    seen: &Seen,
    not_after: Option<SystemTime>,
) -> Result<Option<BoundedAttempt>, Error> {
    let found = &seen.found;
    if found.is_of(request.owner()) && seen.is_locked() {
        let attempt = Attempt::Acquired(found.lease(request));
        return Ok(Some(BoundedAttempt::Judged(attempt)));
    }
    if let Some(slot) = request.slot() {
        check_ahead(request, slot, seen.now)?;
    }
    let record = seen.record(request.name());
    let reason = found
        .slots
        .refusal(request, found.shedlock_at(), record.state);
    if reason.is_none() && !seen.is_locked() {
        if found.is_released_by(request.owner()) {
            return Err(Error::attempt_ended());
        }
        let store_time = seen.now;
        let is_late = not_after.is_some_and(|last| store_time > last);
        return Ok(is_late.then_some(BoundedAttempt::TooLate { store_time }));
    }
    let skip = reason.map_or_else(|| record.as_skip(), |reason| record.as_skip_for(reason));
    Ok(Some(BoundedAttempt::Judged(Attempt::Skipped(skip))))
}

/// Refuses a slot that lies too far ahead.
fn check_ahead(request: &AttemptRequest, slot: Slot, now: SystemTime) -> Result<(), Error> {
    if slot.instant() <= now + request.slot_tolerance().min(LONGEST) {
        return Ok(());
    }
    let clock = Slot::at(now).map_or_else(|_| "before 1970".to_owned(), |at| at.to_string());
    Err(Error::new(
        ErrorKind::SlotAhead,
        format!(
            "slot {slot} lies too far ahead of the judging clock ({clock}): compare the clocks of \
             this host and of the server"
        ),
    ))
}

/// The longest name in bytes. MongoDB's documents could have longer ones.
pub(crate) const LONGEST_NAME: usize = 16 * 1_024;

pub(crate) fn check_name(name: &LockName) -> Result<(), Error> {
    let length = name.as_str().len();
    if length <= LONGEST_NAME {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidInput,
        format!("the lock's name has {length} bytes, {LONGEST_NAME} are accepted"),
    ))
}

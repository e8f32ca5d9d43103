//! Taking a lock.

use shedlock_core::{Attempt, AttemptRequest, Error, ErrorKind, LockName, Skip, SkipReason, Slot};

use mongodb::bson::{Document, doc};
use std::time::SystemTime;

use crate::claim::Claim;
use crate::found::{Found, Seen};
use crate::provider::MongoProvider;
use crate::send::Written;
use crate::time::LONGEST;

/// How often a lock that was found free is tried for, before the attempt gives way.
pub(crate) const ROUNDS: usize = 3;

impl MongoProvider {
    /// Lets the server decide; whoever won a race that was lost holds the lock, as a rule, and the
    /// next round says so.
    pub(crate) async fn try_attempt(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        request.validate()?;
        let name = request.name();
        check_name(name)?;
        let commands = self.commands();
        let mut is_elsewhere = 0;
        for _ in 0..ROUNDS {
            let claim = Claim::new(request, commands.now())?;
            let query = doc! { "_id": name.as_str() };
            let mut written = commands.update(query, claim.update()).await?;
            if let Written::Nothing = written {
                if let Some(slot) = request.slot() {
                    check_ahead(request, slot, commands.time_now().await?)?;
                }
                let claim = Claim::new(request, commands.now())?;
                written = commands.create(name, claim.creation()).await?;
                is_elsewhere += usize::from(matches!(written, Written::Exists));
            }
            let Written::Document(document) = written else {
                continue;
            };
            if let Some(answer) = self.answer(request, &document).await? {
                return Ok(answer);
            }
        }
        if is_elsewhere == ROUNDS {
            return Err(Error::new(
                ErrorKind::Conflict,
                "the collection takes this name for the same as that of another document, by its \
                 collation: rename one of the locks, or use a collection without one",
            ));
        }
        Ok(Attempt::Skipped(Skip::new(SkipReason::Contended)))
    }

    /// What a document means that was written, or left as it is; `None` where the lock has come
    /// free since.
    async fn answer(
        &self,
        request: &AttemptRequest,
        document: &Document,
    ) -> Result<Option<Attempt>, Error> {
        let found = Found::parse(document)?;
        if found.is_of(request.owner()) {
            return Ok(Some(Attempt::Acquired(found.lease(request))));
        }
        if let Some(skip) = self.refused_by(request, &found) {
            return Ok(Some(Attempt::Skipped(skip)));
        }
        match self.commands().read(request.name()).await? {
            Some(seen) => verdict(request, &seen),
            None => Ok(None),
        }
    }

    /// Why the document refused this attempt, where that does not depend on the server's clock.
    fn refused_by(&self, request: &AttemptRequest, found: &Found) -> Option<Skip> {
        let record = found.record(request.name(), true);
        let Some(slot) = request.slot() else {
            return Some(record.as_skip());
        };
        let refusal = |is_locked| found.slots.refusal(request, found.shedlock_at(), is_locked);
        // One that lies ahead is refused for that; the client's clock is good for a hint.
        let is_past = slot.instant() <= self.commands().clients_time();
        let reason = refusal(true).filter(|_| is_past && refusal(true) == refusal(false))?;
        let mut skip = record.as_skip();
        skip.reason = reason;
        Some(skip)
    }
}

/// Judges, in the order in which reasons count: our own lease, a slot that cannot be claimed, a
/// lease that runs.
fn verdict(request: &AttemptRequest, seen: &Seen) -> Result<Option<Attempt>, Error> {
    let found = &seen.found;
    if found.is_of(request.owner()) && seen.is_locked() {
        return Ok(Some(Attempt::Acquired(found.lease(request))));
    }
    if let Some(slot) = request.slot() {
        check_ahead(request, slot, seen.now)?;
    }
    let reason = found
        .slots
        .refusal(request, found.shedlock_at(), seen.is_locked());
    if reason.is_none() && !seen.is_locked() {
        return Ok(None);
    }
    let mut skip = seen.record(request.name()).as_skip();
    if let Some(reason) = reason {
        skip.reason = reason;
    }
    Ok(Some(Attempt::Skipped(skip)))
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

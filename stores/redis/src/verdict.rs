//! What the answer of a script means to whoever asked.

use shedlock_core::{Attempt, AttemptRequest, Error, ErrorKind, Slot};

use crate::found::Found;
use crate::provider::LONGEST;

/// The lock's own key is there: this request's own, or in its way.
pub(crate) fn taken(request: &AttemptRequest, found: &Found) -> Result<Attempt, Error> {
    if found.is_held_by(request.owner()) {
        return Ok(Attempt::Acquired(found.lease(request)));
    }
    if found.is_endless() {
        return Err(Error::new(
            ErrorKind::Conflict,
            "the lock's key has no time to live, which neither shedlock nor ShedLock writes, and \
             nobody would ever free it: look at it, and delete it or unlock by force",
        ));
    }
    if let Some(slot) = request.slot() {
        let latest = found.now + request.slot_tolerance().min(LONGEST);
        if slot.instant() > latest {
            return Err(ahead(request, found));
        }
    }
    let seen = found.record(request.name());
    let reason = found
        .slots()
        .refusal(request, found.value().shedlock_at(), seen.state);
    Ok(Attempt::Skipped(reason.map_or_else(
        || seen.as_skip(),
        |reason| seen.as_skip_for(reason),
    )))
}

pub(crate) fn ahead(request: &AttemptRequest, found: &Found) -> Error {
    let slot = request.slot().map(|slot| slot.to_string());
    let now = Slot::at(found.now).map(|now| now.to_string());
    Error::new(
        ErrorKind::SlotAhead,
        format!(
            "slot {} lies too far ahead of the server's clock ({}): compare the clocks of this \
             host and of the server",
            slot.unwrap_or_default(),
            now.unwrap_or_default()
        ),
    )
}

pub(crate) fn unexpected(found: &Found) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("a script answered {:?} against its own rules", found.word),
    )
}

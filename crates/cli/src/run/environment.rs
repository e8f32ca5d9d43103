//! What the command is told of its lock.

use shedlock::{HeldLock, Slot};

/// The variables of the command: each is set, or removed where there is nothing to say, so that a
/// command inside a command does not see the outer one's.
pub(super) fn of(lock: &HeldLock) -> Vec<(String, Option<String>)> {
    let until = lock.locked_until().and_then(crate::output::instant);
    [
        ("SHEDLOCK_NAME", Some(lock.name().as_str().to_owned())),
        ("SHEDLOCK_OWNER", Some(lock.owner().as_str().to_owned())),
        (
            "SHEDLOCK_FENCING_TOKEN",
            lock.fencing_token().map(|token| token.to_string()),
        ),
        ("SHEDLOCK_LOCKED_UNTIL", until),
        ("SHEDLOCK_SLOT", lock.slot().as_ref().map(Slot::to_string)),
        (
            "SHEDLOCK_SLOT_ATTEMPT",
            lock.slot_attempt().map(|attempt| attempt.to_string()),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

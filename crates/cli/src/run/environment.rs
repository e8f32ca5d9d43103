//! The information about its lock that the command gets.

use shedlock::{HeldLock, Slot};

use crate::args::{PING_URL, RunArgs, SENTRY_DSN};
use crate::store::{self, Address};

/// The variables with secrets of monitoring services, which the command has no use for.
const PINGS: [&str; 2] = [PING_URL.1, SENTRY_DSN.1];

/// The variables that name the journal's store.
const JOURNAL: [&str; 2] = ["SHEDLOCK_JOURNAL_STORE", "SHEDLOCK_JOURNAL_STORE_FILE"];

/// The variables of the command. Each is set, or removed if it has no value, so that a nested
/// command does not see the variables of the outer one.
pub(super) fn of(
    lock: &HeldLock,
    args: &RunArgs,
    address: &Address,
) -> Vec<(String, Option<String>)> {
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
    .chain(store::environment(&args.store, address, args.pass_store))
    .chain(
        JOURNAL
            .into_iter()
            .filter(|_| !args.pass_store)
            .chain(PINGS)
            .map(|name| (name, None)),
    )
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

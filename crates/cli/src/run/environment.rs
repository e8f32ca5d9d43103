//! The information about its lock that the command gets.

use shedlock::{HeldLock, Slot};

use crate::args::RunArgs;
use crate::store::WITHHELD;

/// The variables that may contain the store's password, or lead to it.
const STORE: [&str; 2] = ["SHEDLOCK_STORE", "SHEDLOCK_STORE_FILE"];

/// The variables of the command. Each is set, or removed if it has no value, so that a nested
/// command does not see the variables of the outer one.
pub(super) fn of(lock: &HeldLock, args: &RunArgs) -> Vec<(String, Option<String>)> {
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
    .chain(store(args.pass_store, |name| {
        std::env::var_os(name).is_some()
    }))
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Takes the store's password from the command, which has no use for it as a rule. A mark remains, so that a nested
/// `shedlock` does not use the local store instead.
fn store(
    is_passed: bool,
    is_set: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&'static str, Option<String>)> {
    let is_withheld = !is_passed && STORE.into_iter().any(is_set);
    let mark = is_withheld.then(|| (WITHHELD, Some("1".to_owned())));
    let removed = STORE.into_iter().map(|name| (name, None));
    removed.filter(move |_| is_withheld).chain(mark)
}

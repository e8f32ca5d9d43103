//! Checks that locks are acquired and slots are run once there are no more faults.

use std::collections::BTreeMap;

use shedlock_proof::history::{Event, Stored, What};

use crate::world::Instant;

/// The lock that no one has acquired since this moment, if there is one.
pub(crate) fn unused_since(
    events: &[Event],
    since: Instant,
    names: impl IntoIterator<Item = String>,
) -> Option<String> {
    let is_taken = |name: &str| {
        let granted = |it: &&Event| matches!(it.what, What::Stored(Stored::Granted { .. }));
        let mut grants = events.iter().rev().filter(granted);
        grants.any(|it| it.name == name && it.at >= since)
    };
    let unused = names.into_iter().find(|name| !is_taken(name))?;
    Some(format!(
        "liveness: no one has taken {unused} since all faults ended"
    ))
}

/// The slot that was skipped after this moment, if there is one, by a job that must not skip any.
/// The time from slot to slot of each such job is in microseconds.
pub(crate) fn skipped_slot(
    events: &[Event],
    since: Instant,
    grids: &BTreeMap<String, i64>,
) -> Option<String> {
    let mut last: BTreeMap<&str, Option<i64>> = BTreeMap::new();
    for event in events {
        let What::Stored(stored) = &event.what else {
            continue;
        };
        let Some(grid) = grids.get(&event.name) else {
            continue;
        };
        let before = last.entry(&event.name).or_default();
        match stored {
            Stored::Granted {
                slot: Some(slot), ..
            } => {
                // The last slot may be the instant just before a slot that was given back.
                let skips = |last: i64| slot - last > grid.saturating_add(1);
                if let Some(last) = before.filter(|last| event.at > since && skips(*last)) {
                    let name = &event.name;
                    return Some(format!("liveness: {name} ran {slot} after {last}"));
                }
                *before = Some(*slot);
            }
            Stored::Slots { last, .. } => *before = *last,
            Stored::Reverted(earlier) => {
                *before = earlier.as_ref().and_then(|earlier| earlier.slot);
            }
            _ => {}
        }
    }
    None
}

//! Guarantees that ShedLock's leases cannot give because their owner is the host.

use std::collections::BTreeMap;

use super::faults::Faults;
use super::lease::Life;
use super::{Rules, nanos};

/// Removes guarantees from those of ShedLock's leases that an earlier, unanswered unlock of the
/// same host may end. While that unlock may be in flight, the lease has no guaranteed duration.
/// Expects the leases in the order of their requests.
pub(super) fn weaken(lives: &mut [Life], rules: &Rules, faults: &Faults) {
    let flight = nanos(rules.flight);
    let mut adrift: BTreeMap<(String, String), u64> = BTreeMap::new();
    for life in lives {
        let Some(host) = &life.host else { continue };
        let unlocks = (host.clone(), life.name.clone());
        let lands_by = adrift.get(&unlocks).copied();
        if let Some(asked) = life.release_asked
            && life.released.is_none()
        {
            let this_one = faults.landing(life.process, asked, flight);
            adrift.insert(
                unlocks,
                lands_by.map_or(this_one, |other| other.max(this_one)),
            );
        }
        if lands_by.is_some_and(|lands_by| life.asked <= lands_by) {
            life.is_at_the_mercy_of_another();
        }
    }
}

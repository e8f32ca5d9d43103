//! Checks that what may still win is withdrawn when it no longer can.

use std::collections::HashMap;

use super::faults::Faults;
use super::lease::Life;
use super::{Event, Findings, Rules, What, nanos};

/// A copy whose reply was lost may win until its timeout has passed. A process that runs until long
/// after that, was not stopped, and has a way to the store, has sent a withdrawal in between.
pub(super) fn judge(
    events: &[Event],
    lives: &[Life],
    faults: &Faults,
    rules: &Rules,
    findings: &mut Findings,
) {
    let Some(patience) = rules.withdrawal.map(nanos) else {
        return;
    };
    let mut seen_last: HashMap<u32, u64> = HashMap::new();
    for event in events.iter().filter(|event| is_of_the_process(event)) {
        seen_last.insert(event.process, event.at);
    }
    for life in lives {
        let Some(bound) = life.withdrawal_due() else {
            continue;
        };
        let by = bound.saturating_add(patience);
        let runs = seen_last.get(&life.process).is_some_and(|last| *last > by);
        let is_held_up = faults.stopped_between(life.process, life.asked, by) > 0
            || faults.hold_up(life.process, bound, by);
        if runs && !is_held_up {
            let sent = match life.withdrawal_sent {
                Some(sent) => format!("its last withdrawal was sent at {sent} ns"),
                None => "it was not withdrawn".to_owned(),
            };
            let what = format!(
                "a copy of {} at {} could win until {bound} ns, and {sent}",
                life.owner, life.name
            );
            findings.violated("not withdrawn", &what);
        }
    }
}

/// Whether the process wrote it, rather than the one that disturbed it.
fn is_of_the_process(event: &Event) -> bool {
    !matches!(
        event.what,
        What::Stopped
            | What::GoesOn
            | What::IsOld
            | What::WayDisturbed { .. }
            | What::WayRestored
            | What::StoreTroubled
            | What::StoreRecovered
            | What::StoreKilled
            | What::StoreStarted
    )
}

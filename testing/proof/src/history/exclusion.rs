//! Checks that leases of one name never overlap.

use super::lease::Life;
use super::{Findings, Rules, nanos};

/// Checks the owners that were granted one lock.
pub(super) fn judge(held: &[&Life], rules: &Rules, findings: &mut Findings) {
    by_our_clock(held, nanos(rules.drift), findings);
    in_the_store(held, nanos(rules.skew), findings);
    successes(held, findings);
}

/// A run that was overlapped is no success, whatever ended its lease early: another owner was granted the lock between
/// the reply to its attempt and its first unlock.
fn successes(held: &[&Life], findings: &mut Findings) {
    let mut granted: Vec<(u64, u64, &Life)> = held
        .iter()
        .filter(|life| life.pause.is_none())
        .filter_map(|life| Some((life.asked, life.acquired?, *life)))
        .collect();
    granted.sort_by_key(|(asked, ..)| *asked);
    for life in held.iter().filter(|life| life.succeeded.is_some()) {
        let (Some(since), Some(until)) = (life.acquired, life.unlock_sent) else {
            continue;
        };
        let first = granted.partition_point(|(asked, ..)| *asked <= since);
        let during = granted[first..].iter();
        let mut during = during.take_while(|(asked, ..)| *asked < until);
        if let Some((_, acquired, other)) = during.find(|(_, acquired, _)| *acquired < until) {
            let evidence = format!(
                "{} reported a success of its run under {} until {until} ns, but {} was granted it at {acquired} ns",
                life.owner, life.name, other.owner
            );
            findings.violated("overlapped success", &evidence);
        }
    }
}

/// By the local clock: from the reply to the earliest end. A lease whose reply arrived after its
/// end was never held. Its owner counts from the time of the request.
fn by_our_clock(held: &[&Life], drift: u64, findings: &mut Findings) {
    let mut held: Vec<(u64, &Life)> = held
        .iter()
        .filter_map(|life| Some((life.acquired?, *life)))
        .filter(|(from, life)| *from < life.excludes_until())
        .collect();
    held.sort_by_key(|(from, _)| *from);
    let mut longest: Option<&Life> = None;
    for (from, life) in held {
        if let Some(before) = longest
            && from.saturating_add(drift) < before.excludes_until()
        {
            findings.violated(
                law_between(before, life),
                &format!(
                    "{} certainly held {} until {} ns, but {} was granted it at {from} ns",
                    before.owner,
                    life.name,
                    before.excludes_until(),
                    life.owner
                ),
            );
        }
        if longest.is_none_or(|before| before.excludes_until() < life.excludes_until()) {
            longest = Some(life);
        }
    }
}

fn law_between(before: &Life, life: &Life) -> &'static str {
    if before.pause.is_some() || life.pause.is_some() {
        "overlap with a pause"
    } else {
        "overlap"
    }
}

/// By the store's clock, exactly: nothing is granted before the end of a lease that was not
/// unlocked. If the clients' clocks judge, two grants within their skew may have come in any order.
fn in_the_store(held: &[&Life], skew: u64, findings: &mut Findings) {
    let mut held: Vec<(u64, &Life)> = held
        .iter()
        .filter_map(|life| Some((life.store_from?, *life)))
        .collect();
    held.sort_by_key(|(from, life)| (*from, life.token));
    let mut longest: Option<(u64, &Life)> = None;
    for (from, life) in held {
        if let Some((until, before)) = longest
            && from < until
            && before
                .store_from
                .is_some_and(|before| from >= before.saturating_add(skew))
        {
            findings.violated(
                "overlap in the store",
                &format!(
                    "{} held {} until {until}, but {} was granted it at {from} (nanoseconds since \
                     1970)",
                    before.owner, life.name, life.owner
                ),
            );
        }
        if life.release_asked.is_none()
            && let Some(until) = life.store_until
            && longest.is_none_or(|(longest, _)| longest < until)
        {
            longest = Some((until, life));
        }
    }
}

//! Checks that every skip was justified.

use std::collections::BTreeMap;

use shedlock_core::Owner;

use super::lease::Life;
use super::{Event, Findings, Rules, What, nanos};

/// A skip as "locked" requires that the holder that it names, or any holder if it names none, may
/// have held the lock between request and reply. A skip as "slot taken" requires that this slot, or
/// a later one, may have been won.
pub(super) fn judge(
    events: &[Event],
    names: &BTreeMap<&str, Vec<&Life>>,
    rules: &Rules,
    findings: &mut Findings,
) {
    let locks: BTreeMap<&str, Lock<'_>> = names
        .iter()
        .map(|(name, lives)| (*name, Lock::of(lives, rules)))
        .collect();
    let mut asked: BTreeMap<&str, (u64, Option<i64>)> = BTreeMap::new();
    for event in events {
        let (locked, slot_taken) = match event.what {
            What::Asked { slot, .. } => {
                asked.insert(&event.owner, (event.at, slot));
                continue;
            }
            What::PauseAsked { .. } => {
                asked.insert(&event.owner, (event.at, None));
                continue;
            }
            What::Skipped {
                locked, slot_taken, ..
            } => (locked, slot_taken),
            _ => continue,
        };
        findings.skips += 1;
        let Some((from, slot)) = asked.get(event.owner.as_str()) else {
            continue;
        };
        let Some(lock) = locks.get(event.name.as_str()) else {
            continue;
        };
        if locked {
            let broken = lock.wrongly_held(event, *from);
            if let Some((law, evidence)) = broken {
                findings.violated(law, &evidence);
            }
        }
        if let Some(slot) = slot
            && slot_taken
            && lock
                .slots
                .highest_by(event.at)
                .is_none_or(|last| last < i128::from(*slot))
            && !lock.is_covered(*slot, *from, event.at)
        {
            findings.violated(
                "slot refused",
                &format!(
                    "{} was refused slot {slot} of {} as taken, but no one can have taken it or a \
                     later one",
                    event.owner, event.name
                ),
            );
        }
    }
}

/// What is known of one lock.
struct Lock<'a> {
    /// Until when it may have been held, by any owner and by each one.
    leases: Tide,
    by_holder: BTreeMap<&'a str, Holder<'a>>,
    /// Until when one of ShedLock's leases may have held it; the record of these may name a
    /// different host.
    shedlocks: Tide,
    slots: Tide,
    /// The slots that were certainly taken, with the moments of the replies.
    granted: Vec<(u64, i128)>,
    pauses: Vec<&'a Life>,
    drift: u64,
    /// By how much a store may truncate the end of a lease.
    granularity: u64,
}

/// A holder as records name it: one of our owners, or a host of ShedLock with all of its leases.
struct Holder<'a> {
    leases: Tide,
    first: &'a Life,
}

impl<'a> Lock<'a> {
    fn of(lives: &[&'a Life], rules: &Rules) -> Self {
        let mut holders: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
        for life in lives {
            let holder = life.host.as_ref().unwrap_or(&life.owner);
            holders.entry(holder).or_default().push(life);
        }
        let by_holder = holders.into_iter().map(|(holder, lives)| {
            let leases = Tide::of_leases(&lives);
            let first = lives[0];
            (holder, Holder { leases, first })
        });
        let shedlocks = lives.iter().copied().filter(|life| life.host.is_some());
        Self {
            leases: Tide::of_leases(lives),
            shedlocks: Tide::of_leases(&shedlocks.collect::<Vec<_>>()),
            by_holder: by_holder.collect(),
            granted: lives
                .iter()
                .filter_map(|life| Some((life.acquired?, i128::from(life.slot?))))
                .collect(),
            slots: Tide::of_slots(lives),
            pauses: lives
                .iter()
                .copied()
                .filter(|it| it.pause.is_some())
                .collect(),
            drift: nanos(rules.drift),
            granularity: nanos(rules.granularity + rules.skew),
        }
    }

    /// The violation in a skip as locked, if any: the law and the evidence.
    fn wrongly_held(&self, skip: &Event, asked: u64) -> Option<(&'static str, String)> {
        let What::Skipped { holder, until, .. } = &skip.what else {
            return None;
        };
        let skipped = format!(
            "{} was skipped at {} as locked at {} ns",
            skip.owner, skip.name, skip.at
        );
        let Some(named) = holder else {
            let is_over = self.is_over(&self.leases, skip.at, asked);
            return is_over.then(|| {
                let evidence = format!("{skipped}, but every lease had ended by then");
                ("taken for too long", evidence)
            });
        };
        let Some(holder) = self.by_holder.get(named.as_str()) else {
            if !Owner::is_ours(named) && !self.is_over(&self.shedlocks, skip.at, asked) {
                return None;
            }
            let evidence = format!("{skipped} by {named}, which never requested it");
            return Some(("unknown owner", evidence));
        };
        if self.is_over(&holder.leases, skip.at, asked) {
            let life = holder.first;
            if life.may_return() {
                return None;
            }
            if life.host.is_none() && life.was_given_back() {
                let evidence = format!(
                    "{skipped} by {named}, which had given the lock back, and no copy of its \
                     attempt can still arrive"
                );
                return Some(("owner returns", evidence));
            }
            let evidence = format!("{skipped} by {named}, whose lease had ended by then");
            return Some(("taken for too long", evidence));
        }
        let told = holder.first.end_known_by(asked, skip.at)?;
        let until = (*until)?;
        let is_shorter = until.saturating_add(self.granularity + self.drift) < told;
        is_shorter.then(|| {
            let evidence = format!(
                "{skipped} by {named} until {until}, but {named} holds it until {told} \
                 (nanoseconds since 1970)"
            );
            ("shortened", evidence)
        })
    }

    /// Whether a pause may make this slot count as taken: one that fell due after the beginning of the pause, or of an
    /// earlier one that the job had not run past.
    fn is_covered(&self, slot: i64, asked: u64, answered: u64) -> bool {
        let slot = i128::from(slot);
        let has_run_past = |earlier: &Life, by: u64| {
            let end = earlier.pause.as_ref().map(|it| it.slots.0.max(it.slots.1));
            self.granted
                .iter()
                .any(|(at, slot)| *at < by && Some(*slot) > end)
        };
        self.pauses.iter().any(|life| {
            let Some(pause) = &life.pause else {
                return false;
            };
            let (while_held, once_over) = pause.slots;
            let joined = self
                .pauses
                .iter()
                .filter(|it| it.asked < life.asked && !has_run_past(it, life.asked));
            let due = joined.filter_map(|it| Some(it.pause.as_ref()?.due)).min();
            let due = due.map_or(pause.due, |due| due.min(pause.due));
            let is_over = life.possible_until.is_none_or(|until| until < asked);
            let last = if is_over { once_over } else { while_held };
            life.asked <= answered && life.may_have_won() && due < slot && slot <= last
        })
    }

    /// Whether all of these leases had ended when the skipped attempt was sent.
    fn is_over(&self, leases: &Tide, answered: u64, asked: u64) -> bool {
        let asked = i128::from(asked) - i128::from(self.drift);
        let until = leases.highest_by(answered);
        until.is_none_or(|until| until < asked)
    }
}

/// The running maximum of a value over the lives that had sent their request by a given moment.
/// Each skip looks it up, so that histories of several hours can be judged.
struct Tide(Vec<(u64, i128)>);

impl Tide {
    /// Until when a lock may have been held, from its lives in the order of their requests.
    fn of_leases(lives: &[&Life]) -> Self {
        Self::of(lives, |life| life.possible_until.map(i128::from))
    }

    /// Which of its slots may have been taken.
    fn of_slots(lives: &[&Life]) -> Self {
        Self::of(lives, |life| {
            life.slot.filter(|_| life.may_have_won()).map(i128::from)
        })
    }

    fn of(lives: &[&Life], value: impl Fn(&Life) -> Option<i128>) -> Self {
        let mut high = None;
        let marks = lives.iter().filter_map(|life| {
            high = high.max(value(life));
            Some((life.asked, high?))
        });
        Self(marks.collect())
    }

    fn highest_by(&self, moment: u64) -> Option<i128> {
        let asked = self.0.partition_point(|(asked, _)| *asked <= moment);
        Some(self.0[..asked].last()?.1)
    }
}

//! Checks what the pauses of operators promise.

use std::collections::BTreeMap;

use super::faults::Faults;
use super::lease::Life;
use super::{Event, Findings, Rules, What, nanos};

/// By how much later than recorded the store's clock may have been read.
const ROUNDED: u64 = 1_000_000_000;

/// All calls of operators other than pauses, which are lives of their own.
pub(super) struct Operators<'a> {
    resumptions: Vec<Resumption<'a>>,
    /// How far the store's clock is ahead of the local one, at least, in nanoseconds.
    ahead: Option<i128>,
    rules: Rules,
}

/// A resumption that was sent.
struct Resumption<'a> {
    name: &'a str,
    asked: u64,
    answered: Option<u64>,
    catches_up: bool,
    ends: Ends<'a>,
    /// The last moment at which it may end a pause.
    by: u64,
}

/// What a resumption ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends<'a> {
    Pause(&'a str),
    Nothing,
    NotPaused,
    /// Whatever pause there was.
    Unknown,
}

/// What one pause may do to the lives of others.
struct Reach {
    owner: String,
    asked: u64,
    /// When it certainly holds the lock.
    acquired: Option<u64>,
    /// The last moment at which it can take the lock.
    by: u64,
    replaces_holder: bool,
    replaced: Option<Option<String>>,
    /// The earliest moment at which it can have ended.
    ended: u64,
}

impl<'a> Operators<'a> {
    pub(super) fn of(events: &'a [Event], rules: &Rules, faults: &Faults) -> Self {
        let mut asked: BTreeMap<&str, (usize, u32, u64)> = BTreeMap::new();
        let mut resumptions: Vec<Resumption<'a>> = Vec::new();
        let mut ahead = None;
        for event in events {
            let ends = match &event.what {
                What::StoreClock { shows } => {
                    ahead = Some(i128::from(*shows) - i128::from(event.at));
                    continue;
                }
                What::ResumeAsked {
                    catches_up,
                    timeout,
                } => {
                    let call = (resumptions.len(), event.process, *timeout);
                    asked.insert(&event.owner, call);
                    resumptions.push(Resumption {
                        name: &event.name,
                        asked: event.at,
                        answered: None,
                        catches_up: *catches_up,
                        ends: Ends::Unknown,
                        by: 0,
                    });
                    continue;
                }
                What::Resumed { pause } => Ends::Pause(pause),
                What::NotPaused => Ends::NotPaused,
                What::Failed => Ends::Nothing,
                What::Unknown => Ends::Unknown,
                _ => continue,
            };
            if let Some((number, ..)) = asked.get(event.owner.as_str()) {
                resumptions[*number].ends = ends;
                resumptions[*number].answered = Some(event.at);
            }
        }
        for (number, process, timeout) in asked.into_values() {
            let call = &mut resumptions[number];
            let given_up = call.answered.unwrap_or(u64::MAX);
            call.by = match call.ends {
                Ends::Unknown => {
                    // It is more than one request.
                    let stopped = faults.stopped_between(process, call.asked, given_up);
                    let sent = call.asked.saturating_add(timeout).saturating_add(stopped);
                    faults.landing(process, sent.min(given_up), nanos(rules.flight))
                }
                _ => given_up,
            };
        }
        Self {
            resumptions,
            ahead,
            rules: *rules,
        }
    }

    /// Ends the lives that pauses and resumptions end.
    pub(super) fn end_lives(&self, lives: &mut [Life]) {
        let reaches = Reach::of(lives);
        for pause in lives.iter_mut().filter(|life| life.pause.is_some()) {
            self.resume(pause);
            self.fill_slots(pause);
            Reach::apply_all(&reaches, pause);
        }
        // Now it is known when the pauses have ended.
        let reaches = Reach::of(lives);
        for life in lives.iter_mut().filter(|life| life.pause.is_none()) {
            Reach::apply_all(&reaches, life);
        }
    }

    /// The last moment at which a resumption may have ended this pause.
    fn resumed_by(&self, pause: &Life) -> Option<u64> {
        let calls = self.resumptions.iter().filter(|it| it.name == pause.name);
        let ends = calls.filter(|call| match call.ends {
            Ends::Pause(owner) => owner == pause.owner,
            Ends::Unknown => call.by >= pause.asked,
            _ => false,
        });
        ends.map(|call| call.by).max()
    }

    fn resume(&self, pause: &mut Life) {
        for call in &self.resumptions {
            if call.name != pause.name {
                continue;
            }
            match call.ends {
                Ends::Pause(owner) if owner == pause.owner => {
                    pause.may_end_at(call.asked);
                    pause.resumed(call.by);
                }
                Ends::Unknown if call.by >= pause.asked => pause.may_end_at(call.asked),
                _ => {}
            }
        }
    }

    /// Which slots may count as taken because of this pause, in microseconds.
    fn fill_slots(&self, life: &mut Life) {
        let latest = |moment: u64| {
            let late = ROUNDED + nanos(self.rules.flight + self.rules.skew);
            let shown = self.ahead.map(|ahead| ahead + i128::from(moment));
            shown.map_or(i128::MAX, |shown| (shown + i128::from(late)) / 1_000 + 1)
        };
        let Some(by) = life.takes_the_lock_by() else {
            return;
        };
        let early = ROUNDED + nanos(self.rules.drift + self.rules.skew);
        let began = self
            .ahead
            .map(|ahead| ahead + i128::from(life.asked) - i128::from(early));
        let due = began.map_or(i128::MIN, |began| began / 1_000 - 1);
        let told = life.store_until.map(|until| i128::from(until) / 1_000 + 1);
        let until = told.unwrap_or_else(|| latest(life.lasts_from(by)));
        // A crash may have made it longer. What resumes it makes the slots taken until then.
        let while_held = self
            .resumed_by(life)
            .map_or(until, |resumed| until.max(latest(resumed)));
        let once_over = life.released.map_or(while_held, |(at, _)| latest(at));
        if let Some(pause) = &mut life.pause {
            pause.slots = (while_held, once_over);
            pause.due = due;
        }
    }

    /// Checks the lives of one lock.
    pub(super) fn judge(&self, lives: &[&Life], faults: &Faults, findings: &mut Findings) {
        let pauses: Vec<&Life> = lives
            .iter()
            .copied()
            .filter(|life| life.pause.is_some() && life.acquired.is_some())
            .collect();
        findings.pauses += pauses.len();
        let Some(first) = pauses.first() else { return };
        let calls: Vec<&Resumption<'_>> = self
            .resumptions
            .iter()
            .filter(|call| call.name == first.name)
            .collect();
        in_the_store(lives, &pauses, findings);
        self.lost(&pauses, &calls, findings);
        self.slots(lives, &pauses, &calls, faults, findings);
    }

    /// A pause that no one ended is found by a resumption.
    fn lost(&self, pauses: &[&Life], calls: &[&Resumption<'_>], findings: &mut Findings) {
        let drift = nanos(self.rules.drift);
        for call in calls.iter().filter(|call| call.ends == Ends::NotPaused) {
            let lost = pauses.iter().find(|pause| {
                pause.acquired.is_some_and(|at| at < call.asked)
                    && call.by.saturating_add(drift) < pause.excludes_until()
            });
            if let Some(pause) = lost {
                findings.violated(
                    "pause lost",
                    &format!(
                        "{} paused {} until {} ns, but a resumption found no pause at {} ns",
                        pause.owner,
                        pause.name,
                        pause.excludes_until(),
                        call.by
                    ),
                );
            }
        }
    }

    /// No slot after the beginning of a pause and up to its end runs after it, unless a resumption catches up. A slot that
    /// was open before may.
    fn slots(
        &self,
        lives: &[&Life],
        pauses: &[&Life],
        calls: &[&Resumption<'_>],
        faults: &Faults,
        findings: &mut Findings,
    ) {
        for life in lives.iter().filter(|life| !faults.is_old(life.process)) {
            let (Some(slot), Some(acquired)) = (life.slot, life.acquired) else {
                continue;
            };
            let covered = pauses.iter().find(|pause| {
                pause.acquired.is_some_and(|at| at < life.asked)
                    && is_due_since(pause, slot)
                    && self
                        .last_slot_of(pause)
                        .is_some_and(|last| i128::from(slot) <= last)
                    && !is_caught_up(pause, acquired, calls)
                    && !was_open(pause, slot, lives)
                    && !is_forgotten(pause, acquired, lives, faults)
            });
            if let Some(pause) = covered {
                findings.violated(
                    "slot of a pause",
                    &format!(
                        "{slot} of {} was given to {} at {acquired} ns, although {} paused the \
                         lock past it",
                        life.name, life.owner, pause.owner
                    ),
                );
            }
        }
    }

    /// The last slot that certainly counts as taken because of this pause, in microseconds.
    fn last_slot_of(&self, pause: &Life) -> Option<i128> {
        let until = i128::from(pause.store_until?) / 1_000;
        if pause.ran_out() {
            return Some(until);
        }
        let early = nanos(self.rules.drift + self.rules.skew);
        let shown = self.ahead? + i128::from(pause.excludes_until()) - i128::from(early);
        Some(until.min(shown / 1_000))
    }
}

/// Whether this slot fell due after the beginning of the pause, by the store's clock.
fn is_due_since(pause: &Life, slot: i64) -> bool {
    let began = pause.began_by().map(i128::from);
    began.is_some_and(|began| i128::from(slot) * 1_000 > began)
}

/// By the store's clock: what is requested during a pause is not granted before its end.
fn in_the_store(lives: &[&Life], pauses: &[&Life], findings: &mut Findings) {
    for pause in pauses.iter().filter(|pause| pause.release_asked.is_none()) {
        let within = lives.iter().find(|life| {
            life.store_from < pause.store_until
                && life.store_from.is_some()
                && pause.acquired.is_some_and(|at| at < life.asked)
        });
        if let Some(life) = within {
            findings.violated(
                "overlap with a pause",
                &format!(
                    "{} paused {} until {:?}, but {} was granted it at {:?} (nanoseconds since \
                     1970)",
                    pause.owner, pause.name, pause.store_until, life.owner, life.store_from
                ),
            );
        }
    }
}

/// Whether a resumption may have freed the slots of this pause by then.
fn is_caught_up(pause: &Life, by: u64, calls: &[&Resumption<'_>]) -> bool {
    calls.iter().any(|call| {
        let may = matches!(call.ends, Ends::Pause(_) | Ends::Unknown);
        call.catches_up && may && call.by >= pause.asked && call.asked <= by
    })
}

/// Whether a worker of an earlier version may have taken the lock since the pause. It ignores which
/// slots the pause covers, and a run that succeeds moves the mark of done slots back.
fn is_forgotten(pause: &Life, by: u64, lives: &[&Life], faults: &Faults) -> bool {
    let since = |life: &&&Life| life.last_moment() >= Some(pause.asked) && life.asked <= by;
    let mut old = lives.iter().filter(|life| faults.is_old(life.process));
    old.any(|life| since(&life))
}

/// Whether this slot was begun before the pause and may have had to be done after it.
fn was_open(pause: &Life, slot: i64, lives: &[&Life]) -> bool {
    lives.iter().any(|life| {
        life.slot == Some(slot)
            && life.slot_attempts.is_some()
            && life.may_have_won()
            && pause.acquired.is_some_and(|at| life.asked < at)
    })
}

impl Reach {
    /// Those of all pauses that may have taken the lock, by its name.
    fn of(lives: &[Life]) -> BTreeMap<String, Vec<Self>> {
        let mut reaches: BTreeMap<String, Vec<Self>> = BTreeMap::new();
        for life in lives {
            if let Some(pause) = &life.pause
                && let Some(by) = life.takes_the_lock_by()
            {
                let reach = Self {
                    owner: life.owner.clone(),
                    asked: life.asked,
                    acquired: life.acquired,
                    by,
                    replaces_holder: pause.replaces_holder,
                    replaced: pause.replaced.clone(),
                    ended: life.excludes_until(),
                };
                reaches.entry(life.name.clone()).or_default().push(reach);
            }
        }
        reaches
    }

    fn apply_all(reaches: &BTreeMap<String, Vec<Self>>, life: &mut Life) {
        for reach in reaches.get(&life.name).into_iter().flatten() {
            reach.apply(life);
        }
    }

    /// Ends this life if the pause may have taken its lock.
    fn apply(&self, life: &mut Life) {
        let is_before = self.by < life.asked;
        let is_after = life.last_moment().is_none_or(|last| last < self.asked);
        if self.owner == life.owner || is_before || is_after {
            return;
        }
        let replaces = life.pause.is_some() || self.replaces_holder;
        let is_it = |holder: &String| *holder == life.owner || Some(holder) == life.host.as_ref();
        let may_be_it = match &self.replaced {
            _ if !replaces => false,
            None => true,
            Some(None) => life.pause.is_some(),
            Some(Some(holder)) => is_it(holder),
        };
        if may_be_it {
            if let (Some(Some(holder)), Some(acquired)) = (&self.replaced, self.acquired)
                && *holder == life.owner
            {
                life.was_replaced(acquired, self.ended, &self.owner);
            }
            life.may_end_at(self.asked);
        }
        // A pause replaces a lock that only at-least keeps.
        life.withdrawn = true;
    }
}

//! The life of one owner, as its log tells it.

use super::faults::{Faults, Span};
use super::pending::{Renewal, Stray};
use super::{Event, Rules, What, nanos};

/// What a store that is killed may lose, in nanoseconds: PostgreSQL 0.6 s; and as long again until it
/// is dead.
const LAST_MOMENTS: u64 = 2_000_000_000;

/// How much later than its timeout a copy of an attempt may be granted: stores cut their times to
/// milliseconds, clocks are slewed while the timeout runs, and a busy machine sends late.
const SLACK: u64 = 100_000_000;

/// What one attempt came to. Moments in nanoseconds of the local clock.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) process: u32,
    pub(super) name: String,
    pub(super) owner: String,
    /// The host that ShedLock writes as owner, where it is one of ShedLock's.
    pub(super) host: Option<String>,
    /// When the attempt was first sent: it holds nothing before.
    pub(super) asked: u64,
    /// When it was known to be granted.
    pub(super) acquired: Option<u64>,
    pub(super) at_least: u64,
    pub(super) slot: Option<i64>,
    /// How often the slot may be run, where it stays open until it is done.
    pub(super) slot_attempts: Option<u32>,
    /// When the unlock was asked, and when it was answered, that says that the slot is done.
    pub(super) slot_done: Option<(u64, Option<u64>)>,
    /// When it was first asked to give its attempt at the slot back, and whether the slot is unused.
    pub(super) slot_given_back: Option<(u64, bool)>,
    pub(super) token: Option<u64>,
    /// The store's times: the earliest end that the owner can count on.
    pub(super) store_from: Option<u64>,
    pub(super) store_until: Option<u64>,
    /// Each end by the store's clock, and when the owner had it.
    pub(super) ends: Vec<(u64, u64)>,
    /// The earliest moment at which it can have ended.
    pub(super) certain_until: u64,
    /// The latest moment at which it can still hold; `None` where it cannot hold anything.
    pub(super) possible_until: Option<u64>,
    /// Whether it ended, or may have ended, by an unlock.
    pub(super) release_asked: Option<u64>,
    /// When its unlock or final withdrawal was answered, and when the lease would have ended at the
    /// latest without it.
    pub(super) released: Option<(u64, Option<u64>)>,
    /// Whether nobody waited for it: it may have ended by then, at-least or not.
    pub(super) withdrawn: bool,
    /// What its task did when it should have been stopped: when, and when it should have been.
    pub(super) late_steps: Vec<(u64, u64)>,
    /// What is wrong with this life by itself: the law, and the evidence.
    pub(super) broken: Vec<(&'static str, String)>,
    granularity: u64,
    /// How far apart the clocks of clients are that judge leases: whoever's is late takes a lock for
    /// held for that much longer than its unlock.
    skew: u64,
    flight: u64,
    drift: u64,
    at_most: u64,
    /// Whether the store refuses copies of it that come after the timeout.
    is_bounded: bool,
    /// Whether an earlier version holds it, whose requests carry no timeout.
    is_old: bool,
    last_asked: u64,
    renewal: Option<Renewal>,
    /// Until when its task may run.
    runs_until: u64,
    /// How often an unlock was asked for, and when the lease was over as the first was.
    releases: u32,
    over_at_release: Option<u64>,
    /// The copy that has no answer yet: when it was sent, and its timeout.
    open: Option<(u64, u64)>,
    /// The copies without an answer, whatever the same attempt is answered when it is sent again:
    /// they may come late.
    stray: Option<Stray>,
    /// When the withdrawal was asked that is not answered yet.
    withdrawing: Option<u64>,
    /// The last unlock that was asked.
    releasing: Option<u64>,
    /// Until when an extension of ShedLock's without an answer may keep the lock.
    adrift: Option<u64>,
}

impl Life {
    pub(super) fn new(event: &Event, rules: &Rules, faults: &Faults) -> Option<Self> {
        let What::Asked {
            at_most,
            at_least,
            slot,
            slot_attempts,
            ref host,
            timeout,
        } = event.what
        else {
            return None;
        };
        let is_old = faults.is_old(event.process);
        Some(Self {
            process: event.process,
            name: event.name.clone(),
            owner: event.owner.clone(),
            host: host.clone(),
            asked: event.at,
            acquired: None,
            at_least,
            slot,
            slot_attempts,
            slot_done: None,
            slot_given_back: None,
            token: None,
            store_from: None,
            store_until: None,
            ends: Vec::new(),
            certain_until: event.at.saturating_add(at_most),
            possible_until: None,
            release_asked: None,
            released: None,
            withdrawn: false,
            late_steps: Vec::new(),
            broken: Vec::new(),
            granularity: nanos(rules.granularity + rules.skew),
            skew: nanos(rules.skew),
            flight: nanos(rules.flight),
            drift: nanos(rules.drift),
            at_most,
            is_bounded: rules.refuses_late && host.is_none() && !is_old,
            is_old,
            last_asked: event.at,
            renewal: None,
            runs_until: event.at.saturating_add(at_most),
            releases: 0,
            over_at_release: None,
            open: Some((event.at, timeout)),
            stray: None,
            withdrawing: None,
            releasing: None,
            adrift: None,
        })
    }

    /// What this owner's log says next.
    pub(super) fn see(&mut self, event: &Event, faults: &Faults) {
        let at = event.at;
        match &event.what {
            What::Asked { timeout, .. } => {
                // The same attempt again, since an answer was lost.
                self.goes_astray(at, faults);
                self.last_asked = at;
                self.open = Some((at, *timeout));
            }
            What::Acquired {
                token,
                acquired_at,
                locked_until,
            } => self.acquired(at, *token, *acquired_at, *locked_until),
            // It may have been granted, its answer lost, and the lease over, before it looked again.
            What::Skipped { .. } if at >= self.last_asked.saturating_add(self.at_most) => {
                self.goes_astray(at, faults);
            }
            What::Skipped { .. } | What::Failed => self.open = None,
            What::Unknown => self.goes_astray(at, faults),
            What::Withdrawn => {
                // What was unlocked is kept as at-least says.
                self.withdrawn |= self.released.is_none();
                self.release_asked.get_or_insert(at);
                self.withdrawing = Some(at);
            }
            What::Withdrew => self.withdrew(at),
            What::RenewAsked { at_most } => self.renew(at, *at_most),
            What::Renewed { locked_until } => self.renewed(at, *locked_until, faults),
            What::RenewLost => {
                self.renewal = None;
                self.lost(at, "an extension");
            }
            What::Step => self.step(at),
            What::SlotDone => self.slot_done = Some((at, None)),
            What::SlotGivenBack { unused } => {
                // At-least does not hold for what never ran.
                self.withdrawn |= *unused;
                self.slot_given_back.get_or_insert((at, *unused));
            }
            What::ReleaseAsked => {
                self.release_asked.get_or_insert(at);
                self.releasing = Some(at);
                self.runs_until = self.runs_until.min(at);
                self.releases += 1;
                if self.releases == 1 {
                    self.over_at_release = self.possible_until;
                }
            }
            What::Released => self.released(at, faults),
            What::ReleaseLost => self.lost(at, "an unlock"),
            What::CallFailed => {
                self.withdrawing = None;
                self.renewal_has_no_answer(faults);
            }
            What::WallClock { .. }
            | What::Stopped
            | What::GoesOn
            | What::IsOld
            | What::WayDisturbed { .. }
            | What::WayRestored
            | What::StoreTroubled
            | What::StoreRecovered
            | What::StoreKilled
            | What::StoreStarted => {}
        }
    }

    /// Its log ends here: what has no answer by now gets none.
    pub(super) fn end(&mut self, faults: &Faults) {
        self.goes_astray(u64::MAX, faults);
        self.renewal_has_no_answer(faults);
    }

    /// The last moment at which nobody else can have held the lock.
    pub(super) fn excludes_until(&self) -> u64 {
        match self.release_asked {
            Some(asked) => asked.min(self.certain_until),
            None => self.certain_until,
        }
    }

    /// The store was killed and started again. It may answer an unlock before its disk has it, and
    /// lose what it did in its last moments: the lease runs to its end. A lease that runs may have
    /// its whole length once more, from when the store is up.
    pub(super) fn store_crashed(&mut self, crash: Span) {
        let mut until = self.possible_until;
        if let Some((released, unreleased)) = self.released
            && released.abs_diff(crash.from) <= LAST_MOMENTS
        {
            until = until.max(unreleased);
        }
        if self.asked <= crash.to && until.is_some_and(|until| until >= crash.from) {
            until = until.max(Some(self.lease_from(crash.to)));
        }
        self.possible_until = until;
    }

    /// The end by the store's clock that it was told of by the first moment, if it had not given the
    /// lock back by the second.
    pub(super) fn end_known_by(&self, told: u64, held: u64) -> Option<u64> {
        if self.release_asked.is_some_and(|asked| asked <= held) {
            return None;
        }
        let known = self.ends.iter().filter(|(at, _)| *at <= told);
        known.map(|(_, until)| *until).max()
    }

    /// Whether it can have won: it was granted, or nobody knows.
    pub(super) fn may_have_won(&self) -> bool {
        self.acquired.is_some() || self.possible_until.is_some()
    }

    /// Whether it gave back what it held, rather than that it ran out.
    pub(super) fn was_given_back(&self) -> bool {
        self.released.is_some()
    }

    /// Whether an earlier version has copies on their way that its store does not refuse, however
    /// late they come.
    pub(super) fn may_return(&self) -> bool {
        self.is_old && self.stray.is_some()
    }

    /// Another's request may end it at any time, and at-least with it.
    pub(super) fn is_at_the_mercy_of_another(&mut self) {
        self.certain_until = self.certain_until.min(self.asked);
        self.withdrawn = true;
        // Whatever it lost, it may have lost to that one.
        self.broken.clear();
    }

    /// When a lease is over at the latest that is granted then.
    fn lease_from(&self, granted: u64) -> u64 {
        granted
            .saturating_add(self.at_most)
            .saturating_add(self.granularity)
    }

    /// Until when a stray may hold the lock.
    fn stray_until(&self) -> Option<u64> {
        self.stray.map(|stray| self.lease_from(stray.by))
    }

    /// The copy that was sent last has no answer by then, and gets none.
    fn goes_astray(&mut self, given_up: u64, faults: &Faults) {
        let Some((sent, timeout)) = self.open.take() else {
            return;
        };
        // The timeout counts from when the process goes on to send it.
        let stopped = faults.stopped_between(self.process, sent, given_up);
        let timeout = sent.saturating_add(timeout).saturating_add(stopped);
        let lands = faults.landing(self.process, sent, self.flight);
        let by = if self.is_bounded {
            lands.min(timeout.saturating_add(SLACK))
        } else {
            lands
        };
        self.stray = Some(match self.stray {
            Some(other) => Stray {
                timeout: other.timeout.max(timeout),
                by: other.by.max(by),
            },
            None => Stray { timeout, by },
        });
        self.possible_until = self.possible_until.max(self.stray_until());
    }

    fn acquired(
        &mut self,
        at: u64,
        token: Option<u64>,
        acquired_at: Option<u64>,
        locked_until: Option<u64>,
    ) {
        self.open = None;
        if let Some((ended, _)) = self.released
            && self.host.is_none()
            && self.last_asked > ended
        {
            self.broken.push((
                "owner returns",
                format!(
                    "{} was granted {} at {at} ns, which it had given back by {ended} ns",
                    self.owner, self.name
                ),
            ));
        }
        self.acquired = Some(at);
        self.token = token;
        self.store_from = acquired_at;
        self.store_until = locked_until;
        self.ends.extend(locked_until.map(|until| (at, until)));
        self.possible_until = Some(self.lease_from(at)).max(self.stray_until());
    }

    fn renew(&mut self, asked: u64, at_most: u64) {
        self.renewal = Some(Renewal { asked, at_most });
        if self.host.is_some() {
            // ShedLock's extension may shorten the lease.
            let ends = asked.saturating_add(at_most);
            self.certain_until = self.certain_until.min(ends);
            self.runs_until = self.runs_until.min(ends);
        }
    }

    fn renewed(&mut self, at: u64, locked_until: Option<u64>, faults: &Faults) {
        if let Some(renewal) = self.renewal.take() {
            let over = self.possible_until;
            let over = over.map(|over| faults.over_after_crashes(over, self.lease_from(0), at));
            if let Some(over) = over
                && self.host.is_none()
                && renewal.asked > over.saturating_add(self.drift)
            {
                self.broken.push((
                    "revived",
                    format!(
                        "an extension of {} at {} worked that was asked for at {} ns, though its \
                         lease was over at {over} ns",
                        self.owner, self.name, renewal.asked
                    ),
                ));
            }
            let ends = renewal.asked.saturating_add(renewal.at_most);
            self.certain_until = self.certain_until.max(ends);
            self.runs_until = self.runs_until.max(ends);
            let until = at
                .saturating_add(renewal.at_most)
                .saturating_add(self.granularity);
            self.possible_until = self.possible_until.max(Some(until));
        }
        let Some(until) = locked_until else { return };
        if let Some(before) = self.store_until
            && until.saturating_add(self.granularity + self.drift) < before
        {
            self.broken.push((
                "shortened",
                format!(
                    "an extension of {} at {} moved the end of the lease from {before} to {until} \
                     (nanoseconds since 1970)",
                    self.owner, self.name
                ),
            ));
        }
        self.store_until = self.store_until.max(Some(until));
        self.ends.push((at, until));
    }

    /// It may come late, while the lease still runs.
    fn renewal_has_no_answer(&mut self, faults: &Faults) {
        let Some(renewal) = self.renewal.take() else {
            return;
        };
        let lands = faults.landing(self.process, renewal.asked, self.flight);
        let extends = self.possible_until.map(|over| {
            over.min(lands)
                .saturating_add(renewal.at_most)
                .saturating_add(self.granularity)
        });
        self.possible_until = self.possible_until.max(extends);
        if self.host.is_some() {
            // It may come after its unlock and find the record kept.
            self.adrift = self.adrift.max(self.possible_until);
        }
    }

    fn released(&mut self, at: u64, faults: &Faults) {
        let over = self.over_at_release;
        let over = over.map(|over| faults.over_after_crashes(over, self.lease_from(0), at));
        // Where nothing ran under a lease, its slot is given back although it has expired.
        let is_unused = matches!(self.slot_given_back, Some((_, true)));
        if let (Some(asked), Some(over)) = (self.release_asked, over)
            && self.releases == 1
            && !is_unused
            && self.host.is_none()
            && asked > over.saturating_add(self.drift)
        {
            self.broken.push((
                "unlocked too late",
                format!(
                    "an unlock of {} at {} worked that was asked for at {asked} ns, though its \
                     lease was over at {over} ns",
                    self.owner, self.name
                ),
            ));
        }
        if let Some((_, answered)) = &mut self.slot_done {
            answered.get_or_insert(at);
        }
        if let Some(asked) = self.releasing.take() {
            // A copy that cannot be granted any more found the lease, if any.
            self.stray = self.stray.filter(|stray| stray.by >= asked);
        }
        self.over_by(at, at.saturating_add(self.skew).max(self.kept()));
    }

    /// When what at-least keeps is over at the latest.
    fn kept(&self) -> u64 {
        self.acquired.map_or(0, |from| {
            from.saturating_add(self.at_least)
                .saturating_add(self.granularity)
        })
    }

    /// The withdrawal was answered: it is final from the timeout on.
    fn withdrew(&mut self, at: u64) {
        let Some(asked) = self.withdrawing.take() else {
            return;
        };
        self.stray = self
            .stray
            .filter(|stray| asked < stray.timeout && asked <= stray.by);
        if self.open.is_none() {
            // At-least may keep what was unlocked before.
            let kept = if self.releases > 0 { self.kept() } else { 0 };
            self.over_by(at, at.saturating_add(self.skew).max(kept));
        }
    }

    /// It was ended then, and holds nothing past this moment that a stray does not win.
    fn over_by(&mut self, ended: u64, moment: u64) {
        let until = self.possible_until;
        self.possible_until = until
            .min(Some(moment))
            .max(self.adrift)
            .max(self.stray_until());
        self.released.get_or_insert((ended, until));
    }

    fn lost(&mut self, at: u64, call: &'static str) {
        // An unlock whose answer was lost may have worked, and somebody else may hold the lock.
        let unlocked_before = self.releases > 1;
        // A store that cuts its times ends the lease by that much before we do.
        if at.saturating_add(self.drift) < self.certain_until && !unlocked_before && !self.withdrawn
        {
            self.broken.push((
                "lost ownership",
                format!(
                    "{call} of {} at {} was answered with \"lost\" while its lease ran for certain",
                    self.owner, self.name
                ),
            ));
        }
        self.certain_until = self.certain_until.min(at);
    }

    fn step(&mut self, at: u64) {
        if at > self.runs_until {
            self.late_steps.push((at, self.runs_until));
        }
    }
}

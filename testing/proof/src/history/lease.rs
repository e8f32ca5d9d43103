//! The lifetime of one owner, reconstructed from its log.

mod ends;
mod pause;

use super::faults::{Faults, Span};
use super::pending::{Renewal, Stray};
use super::{Event, Rules, What, nanos};
pub(super) use pause::PauseLife;

/// How long before a crash a store may lose what it acknowledged, in nanoseconds: 0.6 s for
/// PostgreSQL. The rest allows for the time until the store is dead.
const LAST_MOMENTS: u64 = 2_000_000_000;

/// How much later than its timeout a copy of an attempt may be granted: stores truncate times to
/// milliseconds, clocks are slewed while the timeout runs, and a busy machine sends late.
const SLACK: u64 = 100_000_000;

/// The life of one attempt, or of one pause. Moments are in nanoseconds of the local clock.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) process: u32,
    pub(super) name: String,
    pub(super) owner: String,
    /// The host that ShedLock writes as owner, if the attempt is ShedLock's.
    pub(super) host: Option<String>,
    /// What is special about it if it is a pause.
    pub(super) pause: Option<PauseLife>,
    /// When the attempt was first sent. It holds nothing before that.
    pub(super) asked: u64,
    /// When its reply showed that it was granted.
    pub(super) acquired: Option<u64>,
    pub(super) at_least: u64,
    pub(super) slot: Option<i64>,
    /// How often the slot may be run, if it stays open until it is done.
    pub(super) slot_attempts: Option<u32>,
    /// When the unlock that reports the slot as done was sent, and when its reply arrived.
    pub(super) slot_done: Option<(u64, Option<u64>)>,
    /// When the owner first tried to give back its attempt at the slot, and whether the slot is
    /// unused.
    pub(super) slot_given_back: Option<(u64, bool)>,
    pub(super) token: Option<u64>,
    /// By the store's clock: the start, and the earliest end that the owner can rely on.
    pub(super) store_from: Option<u64>,
    pub(super) store_until: Option<u64>,
    /// Each end by the store's clock, and when the owner learned it.
    pub(super) ends: Vec<(u64, u64)>,
    /// The earliest moment at which it can have ended.
    pub(super) certain_until: u64,
    /// When a forced unlock of it was first sent.
    forced: Option<u64>,
    /// When the runtime reported its run as a success.
    pub(super) succeeded: Option<u64>,
    /// When its first unlock was sent.
    pub(super) unlock_sent: Option<u64>,
    /// The latest moment at which it can still hold the lock; `None` if it cannot hold anything.
    pub(super) possible_until: Option<u64>,
    /// When an unlock or a withdrawal was first sent, by which it ended or may have ended.
    pub(super) release_asked: Option<u64>,
    /// When its unlock or final withdrawal succeeded, and the latest end of the lease without it.
    pub(super) released: Option<(u64, Option<u64>)>,
    /// Whether it was withdrawn: it may then have ended regardless of at-least.
    pub(super) withdrawn: bool,
    /// Steps of its task after its deadline: the time of the step and the deadline.
    pub(super) late_steps: Vec<(u64, u64)>,
    /// When it returned "lost" although its lease ran, and the evidence: a violation unless a pause
    /// took the lock.
    pub(super) losses: Vec<(u64, String)>,
    /// When the last extension that succeeded was sent.
    pub(super) renewal_asked: Option<u64>,
    /// Violations within this life: the law and the evidence.
    pub(super) broken: Vec<(&'static str, String)>,
    granularity: u64,
    /// The clock skew between clients whose clocks judge leases. A client whose clock is slow
    /// treats the lock as held for this much longer than its unlock.
    skew: u64,
    flight: u64,
    drift: u64,
    at_most: u64,
    /// Whether the store refuses copies of it that arrive after the timeout.
    is_bounded: bool,
    /// Whether its owner runs an earlier version, whose requests carry no timeout.
    is_old: bool,
    last_asked: u64,
    renewal: Option<Renewal>,
    /// The deadline of its task, and the request from which it counts.
    runs_until: u64,
    runs_since: u64,
    /// How soon its task is stopped after a jump of the wall clock.
    notice: Option<u64>,
    /// The number of unlocks sent, and the end of the lease as known at the first one.
    releases: u32,
    over_at_release: Option<u64>,
    /// Whether an unlock succeeded.
    is_unlocked: bool,
    /// The copy without a reply so far: when it was sent, and its timeout.
    open: Option<(u64, u64)>,
    /// The copies that got no reply, whatever later copies of the same attempt returned. They may
    /// arrive late.
    stray: Option<Stray>,
    /// Whether its process knows of them.
    knows_of_strays: bool,
    /// When the withdrawal without a reply so far was sent.
    withdrawing: Option<u64>,
    /// When the last withdrawal was sent.
    pub(super) withdrawal_sent: Option<u64>,
    /// Whether that one has failed or has no reply.
    has_failed_to_withdraw: bool,
    /// When the last unlock was sent.
    releasing: Option<u64>,
    /// Until when an unanswered extension of ShedLock may keep the lock.
    adrift: Option<u64>,
}

impl Life {
    pub(super) fn new(event: &Event, rules: &Rules, faults: &Faults) -> Option<Self> {
        let (at_most, at_least, slot, slot_attempts, host, timeout, pause) = match &event.what {
            What::Asked {
                at_most,
                at_least,
                slot,
                slot_attempts,
                host,
                timeout,
            } => {
                let (slot, attempts, host) = (*slot, *slot_attempts, host.clone());
                (*at_most, *at_least, slot, attempts, host, *timeout, None)
            }
            What::PauseAsked {
                lasts,
                replaces_holder,
                timeout,
            } => {
                let pause = PauseLife::new(*replaces_holder);
                (*lasts, 0, None, None, None, *timeout, Some(pause))
            }
            _ => return None,
        };
        let is_old = faults.is_old(event.process);
        let is_bounded = rules.refuses_late && host.is_none() && pause.is_none() && !is_old;
        Some(Self {
            process: event.process,
            name: event.name.clone(),
            owner: event.owner.clone(),
            host,
            pause,
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
            forced: None,
            succeeded: None,
            possible_until: None,
            release_asked: None,
            released: None,
            withdrawn: false,
            late_steps: Vec::new(),
            losses: Vec::new(),
            renewal_asked: None,
            broken: Vec::new(),
            granularity: nanos(rules.granularity + rules.skew),
            skew: nanos(rules.skew),
            flight: nanos(rules.flight),
            drift: nanos(rules.drift),
            at_most,
            is_bounded,
            is_old,
            last_asked: event.at,
            renewal: None,
            runs_until: event.at.saturating_add(at_most),
            runs_since: event.at,
            notice: rules.jumps.map(nanos),
            releases: 0,
            over_at_release: None,
            is_unlocked: false,
            open: Some((event.at, timeout)),
            stray: None,
            knows_of_strays: false,
            withdrawing: None,
            withdrawal_sent: None,
            has_failed_to_withdraw: false,
            unlock_sent: None,
            releasing: None,
            adrift: None,
        })
    }

    /// Processes the next event in this owner's log.
    pub(super) fn see(&mut self, event: &Event, faults: &Faults) {
        let at = event.at;
        match &event.what {
            What::Asked { timeout, .. } | What::PauseAsked { timeout, .. } => {
                // The same attempt again, because a reply was lost.
                self.knows_of_strays |= self.open.is_some();
                self.goes_astray(at, faults);
                self.last_asked = at;
                self.open = Some((at, *timeout));
            }
            What::Acquired {
                token,
                acquired_at,
                locked_until,
            } => self.acquired(at, *token, *acquired_at, *locked_until),
            What::Paused {
                until,
                is_new,
                replaced,
            } => self.paused(at, *until, is_new.then_some(replaced)),
            // It may have been granted, and the lease may have expired with the reply lost, before
            // it tried again.
            What::Skipped { .. } if at >= self.last_asked.saturating_add(self.at_most) => {
                self.goes_astray(at, faults);
            }
            What::Skipped { .. } | What::Failed => self.open = None,
            What::Unknown => {
                self.knows_of_strays = true;
                self.goes_astray(at, faults);
            }
            What::Withdrawn => {
                // At-least still applies if the lock was unlocked before.
                self.withdrawn |= self.released.is_none();
                self.release_asked.get_or_insert(at);
                self.withdrawing = Some(at);
                self.withdrawal_sent = Some(at);
                self.has_failed_to_withdraw = true;
            }
            What::Withdrew => self.withdrew(at),
            What::RenewAsked { at_most } => self.renew(at, *at_most),
            What::Renewed { locked_until } => self.renewed(at, *locked_until, faults),
            What::RenewLost => {
                self.renewal = None;
                self.lost(at, "an extension");
            }
            What::Step => self.step(at, faults),
            What::SlotDone => self.slot_done = Some((at, None)),
            What::SlotGivenBack { unused } => {
                // At-least does not apply if nothing ran.
                self.withdrawn |= *unused;
                self.slot_given_back.get_or_insert((at, *unused));
            }
            What::ReleaseAsked => {
                self.release_asked.get_or_insert(at);
                self.releasing = Some(at);
                self.unlock_sent.get_or_insert(at);
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
            What::ForceAsked => {
                self.forced.get_or_insert(at);
                self.release_asked.get_or_insert(at);
                self.certain_until = self.certain_until.min(at);
                self.withdrawn = true;
            }
            What::Succeeded => self.succeeded = Some(at),
            What::Started
            | What::ReleaseReported
            | What::Stored(_)
            | What::ResumeAsked { .. }
            | What::Resumed { .. }
            | What::NotPaused
            | What::Forced
            | What::WallClock { .. }
            | What::StoreClock { .. }
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

    /// Processes the end of the log: calls without a reply so far get none.
    pub(super) fn end(&mut self, faults: &Faults) {
        self.knows_of_strays |= self.open.is_some();
        self.goes_astray(u64::MAX, faults);
        self.renewal_has_no_answer(faults);
    }

    /// The last moment at which no other owner can have held the lock.
    pub(super) fn excludes_until(&self) -> u64 {
        match self.release_asked {
            Some(asked) => asked.min(self.certain_until),
            None => self.certain_until,
        }
    }

    /// Accounts for a crash of the store. The store may acknowledge an unlock before it is on disk
    /// and lose its last moments of work: the lease then runs to its end. A running lease may last
    /// its whole length again, starting when the store is back.
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

    /// The end by the store's clock that the owner had learned by `told`, unless it gave the lock
    /// back by `held`.
    pub(super) fn end_known_by(&self, told: u64, held: u64) -> Option<u64> {
        if self.release_asked.is_some_and(|asked| asked <= held) {
            return None;
        }
        let known = self.ends.iter().filter(|(at, _)| *at <= told);
        known.map(|(_, until)| *until).max()
    }

    /// Whether it can have won: it was granted, or its outcome is unknown.
    pub(super) fn may_have_won(&self) -> bool {
        self.acquired.is_some() || self.possible_until.is_some()
    }

    /// Whether it gave the lock back rather than letting it expire.
    pub(super) fn was_given_back(&self) -> bool {
        self.released.is_some()
    }

    /// Whether copies from an earlier version are in flight, which its store does not refuse,
    /// however late they arrive.
    pub(super) fn may_return(&self) -> bool {
        self.is_old && self.stray.is_some()
    }

    /// Another process's request may end the lease at any time, and at-least with it.
    pub(super) fn is_at_the_mercy_of_another(&mut self) {
        self.certain_until = self.certain_until.min(self.asked);
        self.withdrawn = true;
        // Anything it lost may have been lost to that request.
        self.broken.clear();
        self.losses.clear();
    }

    /// The latest end of a lease granted at this moment.
    fn lease_from(&self, granted: u64) -> u64 {
        granted
            .saturating_add(self.at_most)
            .saturating_add(self.granularity)
    }

    /// Until when a stray copy may hold the lock.
    fn stray_until(&self) -> Option<u64> {
        self.stray.map(|stray| self.lease_from(stray.by))
    }

    /// The copy that was sent last has no reply by then, and gets none.
    fn goes_astray(&mut self, given_up: u64, faults: &Faults) {
        let Some((sent, timeout)) = self.open.take() else {
            return;
        };
        // The timeout counts from when the process resumes to send it.
        let stopped = faults.stopped_between(self.process, sent, given_up);
        let timeout = sent.saturating_add(timeout).saturating_add(stopped);
        let sent = match self.pause {
            // It is more than one request.
            Some(_) => timeout.min(given_up),
            None => sent,
        };
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
                    "{} was granted {} at {at} ns, although it had given it back by {ended} ns",
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
                        "an extension of {} at {} that was requested at {} ns succeeded, although \
                         its lease was over at {over} ns",
                        self.owner, self.name, renewal.asked
                    ),
                ));
            }
            self.renewal_asked = Some(renewal.asked);
            let ends = renewal.asked.saturating_add(renewal.at_most);
            let is_certain_until = ends.min(self.forced.unwrap_or(u64::MAX));
            self.certain_until = self.certain_until.max(is_certain_until);
            if ends > self.runs_until {
                (self.runs_since, self.runs_until) = (renewal.asked, ends);
            }
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

    /// It may arrive late, while the lease still runs.
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
            // It may arrive after the unlock and find the lock kept by at-least.
            self.adrift = self.adrift.max(self.possible_until);
        }
    }

    fn step(&mut self, at: u64, faults: &Faults) {
        let until = match self.notice {
            Some(notice) => faults.closer(self.process, self.runs_since, self.runs_until, notice),
            None => self.runs_until,
        };
        if at > until {
            self.late_steps.push((at, until));
        }
    }
}

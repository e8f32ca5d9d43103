//! When a job is stopped: the deadlines of one run, and the steps that follow from them.
//!
//! Nothing here reads a clock or touches a process, so every decision can be tested.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use shedlock::Moment;

/// The deadlines of one run.
///
/// ```text
/// acquired ... warn (TERM) ---- grace ---- kill (KILL) -- lead -- end | end in the store
/// ```
///
/// An extension of the lease moves all of them, but not the maximum run time, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    grace: Duration,
    /// How long the command may take to end after a signal that asks it to.
    stop_grace: Duration,
    #[serde(with = "moment")]
    terminate_at: Moment,
    #[serde(with = "moment")]
    kill_at: Moment,
    #[serde(with = "moment")]
    ends_at: Moment,
    #[serde(with = "moment")]
    run_until: Moment,
}

impl Plan {
    /// The longest time between TERM and the end of the lease.
    const LONGEST_GRACE: Duration = Duration::from_secs(10);
    /// The longest time between KILL and the end of the lease: the time that the kernel may need to end processes on a
    /// busy machine.
    const LONGEST_LEAD: Duration = Duration::from_secs(1);
    /// How long processes that an ended command left behind may take to end by themselves.
    const LONGEST_SETTLING: Duration = Duration::from_secs(1);

    /// The plan for a lease that ends, for us, at `ends_at`.
    pub(crate) fn new(ends_at: Moment, lock_at_most_for: Duration) -> Self {
        let grace = Self::grace_of(lock_at_most_for);
        let lead = Self::LONGEST_LEAD.min(grace / 4);
        Self {
            grace,
            stop_grace: Self::LONGEST_GRACE,
            terminate_at: before(ends_at, grace),
            kill_at: before(ends_at, lead),
            ends_at,
            run_until: Moment::from_origin(Duration::MAX),
        }
    }

    /// How long before the end of such a lease the command is stopped.
    pub(crate) fn grace_of(lock_at_most_for: Duration) -> Duration {
        Self::LONGEST_GRACE.min(lock_at_most_for / 3)
    }

    /// The same plan for a command that is stopped at this moment, whatever its lease.
    pub(crate) fn with_run_until(mut self, moment: Moment) -> Self {
        self.run_until = moment;
        self
    }

    /// The same plan for a command that is killed this long after a signal that asks it to end.
    pub(crate) fn with_stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Whether a command that starts now has any time before it is stopped.
    pub(crate) fn has_time(&self, now: Moment) -> bool {
        now < self.terminate_at
    }

    /// The latest moment at which the last process of the job is killed.
    pub(crate) fn kill_at(&self) -> Moment {
        self.kill_at.min(self.run_until + self.grace)
    }

    /// When the lease ends for us.
    pub(crate) fn ends_at(&self) -> Moment {
        self.ends_at
    }

    /// When the command is stopped, and for which of its two bounds.
    pub(crate) fn stop(&self) -> (Moment, StopReason) {
        if self.run_until < self.terminate_at {
            (self.run_until, StopReason::RanTooLong)
        } else {
            (self.terminate_at, StopReason::Deadline)
        }
    }

    fn settling(&self) -> Duration {
        Self::LONGEST_SETTLING.min(self.grace / 2)
    }
}

fn before(moment: Moment, duration: Duration) -> Moment {
    Moment::from_origin(moment.since_origin().saturating_sub(duration))
}

/// Why a job is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StopReason {
    /// Its lease is about to end.
    Deadline,
    /// Its maximum run time has passed.
    RanTooLong,
    /// Its lease is no longer ours: the lock was freed by force, or its record was changed.
    LeaseLost,
    /// It did not end within the stop grace after a signal that asked it to.
    IgnoredSignal,
    /// It was asked to end a second time.
    SecondSignal,
    /// `run`, which holds the lock, is gone.
    HolderGone,
    /// The command has ended and left processes behind.
    LeftBehind,
    /// The watchdog is gone.
    WatchdogGone,
}

/// What to do with the job now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before this moment.
    Wait(Moment),
    /// Send TERM to the whole job.
    Terminate,
    /// Kill the whole job.
    Kill,
}

/// The progress of a job from running to gone.
#[derive(Debug)]
pub(crate) struct Supervision {
    plan: Plan,
    phase: Phase,
    /// When the job is killed because a signal has asked it to end.
    kill: Option<(Moment, StopReason)>,
}

#[derive(Debug)]
enum Phase {
    Running {
        asked: Option<(Moment, StopReason)>,
    },
    Terminating {
        kill_at: Moment,
        reason: StopReason,
    },
    Killing {
        again_at: Moment,
        pause: Duration,
        reason: StopReason,
    },
}

impl Supervision {
    const FIRST_PAUSE: Duration = Duration::from_millis(5);
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);

    /// A job that follows this plan.
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            phase: Phase::Running { asked: None },
            kill: None,
        }
    }

    /// When the lease ends for us.
    pub(crate) fn lease_ends_at(&self) -> Moment {
        self.plan.ends_at()
    }

    /// Whether a signal has asked the job to end.
    pub(crate) fn is_asked_to_end(&self) -> bool {
        self.kill.is_some()
    }

    /// Why the job was sent TERM, if it was.
    pub(crate) fn stopped_for(&self) -> Option<StopReason> {
        match self.phase {
            Phase::Running { .. } => None,
            Phase::Terminating { reason, .. } | Phase::Killing { reason, .. } => Some(reason),
        }
    }

    /// The lease was extended: this is the new plan. A job that was sent TERM keeps stopping, by its previous plan.
    pub(crate) fn extend(&mut self, plan: Plan) {
        if let Phase::Running { .. } = self.phase {
            self.plan = plan;
        }
    }

    /// Stops the job for this reason from now on, before its deadline. The first reason stays.
    pub(crate) fn stop(&mut self, reason: StopReason, now: Moment) {
        let Phase::Running { asked } = &mut self.phase else {
            return;
        };
        let at = match reason {
            StopReason::LeftBehind => now + self.plan.settling(),
            _ => now,
        };
        *asked = Some(match *asked {
            Some((before, first)) => (before.min(at), first),
            None => (at, reason),
        });
    }

    /// A signal that asks the job to end was passed on to it. The first one starts the stop grace.
    pub(crate) fn asked_to_end(&mut self, now: Moment) {
        let kill_at = now + self.plan.stop_grace;
        self.kill
            .get_or_insert((kill_at, StopReason::IgnoredSignal));
    }

    /// Kills the job from now on, without asking it to end.
    pub(crate) fn kill(&mut self, reason: StopReason, now: Moment) {
        if self.kill.is_none_or(|(kill_at, _)| now < kill_at) {
            self.kill = Some((now, reason));
        }
    }

    /// The step that is due now. Call it repeatedly until it returns [`Step::Wait`].
    pub(crate) fn step(&mut self, now: Moment) -> Step {
        if let Some((kill_at, why)) = self.kill
            && !matches!(self.phase, Phase::Killing { .. })
        {
            if now >= kill_at {
                return self.first_kill(self.stopped_for().unwrap_or(why), now);
            }
            return match self.planned_step(now) {
                Step::Wait(until) => Step::Wait(until.min(kill_at)),
                step => step,
            };
        }
        self.planned_step(now)
    }

    /// The same without the kill that a signal has brought about.
    fn planned_step(&mut self, now: Moment) -> Step {
        match &mut self.phase {
            Phase::Running { asked } => {
                let (planned, why) = self.plan.stop();
                let (at, reason) =
                    asked.map_or((planned, why), |(at, first)| (at.min(planned), first));
                if now < at {
                    return Step::Wait(at);
                }
                let kill_at = self.plan.kill_at.min(now + self.plan.grace);
                self.phase = Phase::Terminating { kill_at, reason };
                Step::Terminate
            }
            Phase::Terminating { kill_at, reason } if now >= *kill_at => {
                let reason = *reason;
                self.first_kill(reason, now)
            }
            Phase::Terminating { kill_at, .. } => Step::Wait(*kill_at),
            // Repeatedly, because processes may have been created while the first KILL was sent.
            Phase::Killing {
                again_at, pause, ..
            } if now >= *again_at => {
                *pause = (*pause * 2).min(Self::LONGEST_PAUSE);
                *again_at = now + *pause;
                Step::Kill
            }
            Phase::Killing { again_at, .. } => Step::Wait(*again_at),
        }
    }

    fn first_kill(&mut self, reason: StopReason, now: Moment) -> Step {
        self.phase = Phase::Killing {
            again_at: now + Self::FIRST_PAUSE,
            pause: Self::FIRST_PAUSE,
            reason,
        };
        Step::Kill
    }

    /// Whether nothing more can be done: the lease has ended, and the remaining processes do not die (a process of
    /// another user, or one that hangs in the kernel).
    pub(crate) fn is_hopeless(&self, now: Moment) -> bool {
        const PATIENCE: Duration = Duration::from_secs(5);
        matches!(self.phase, Phase::Killing { .. }) && now >= self.plan.ends_at + PATIENCE
    }
}

/// A moment on the shared clock, as another process reads it.
mod moment {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use shedlock::Moment;

    pub(super) fn serialize<S: Serializer>(moment: &Moment, to: S) -> Result<S::Ok, S::Error> {
        moment.since_origin().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
        Duration::deserialize(from).map(Moment::from_origin)
    }
}

#[cfg(test)]
mod tests {
    use shedlock::{Clock, ManualClock};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ten_minutes(clock: &ManualClock) -> Supervision {
        Supervision::new(Plan::new(clock.now() + 600 * SECOND, 600 * SECOND))
    }

    #[test]
    fn the_job_is_asked_then_killed_before_the_lease_ends() {
        let clock = ManualClock::new();
        let start = clock.now();
        let mut job = ten_minutes(&clock);
        assert_eq!(job.step(clock.now()), Step::Wait(start + 590 * SECOND));
        clock.advance(590 * SECOND);
        assert_eq!(job.step(clock.now()), Step::Terminate);
        assert_eq!(job.step(clock.now()), Step::Wait(start + 599 * SECOND));
        assert_eq!(job.stopped_for(), Some(StopReason::Deadline));
        clock.advance(9 * SECOND);
        assert_eq!(job.step(clock.now()), Step::Kill);
        assert!(matches!(job.step(clock.now()), Step::Wait(_)));
        clock.advance(SECOND);
        assert_eq!(job.step(clock.now()), Step::Kill, "killed again");
    }

    #[test]
    fn grace_shrinks_with_the_lease() {
        let now = ManualClock::new().now();
        let plan = Plan::new(now + 3 * SECOND, 3 * SECOND);
        assert_eq!(plan.terminate_at, now + 2 * SECOND);
        assert_eq!(plan.kill_at, now + Duration::from_millis(2_750));
        let plan = Plan::new(now + 30 * SECOND, 30 * SECOND);
        assert_eq!(plan.terminate_at, now + 20 * SECOND);
        let plan = Plan::new(now + 3_600 * SECOND, 3_600 * SECOND);
        assert_eq!(plan.terminate_at, now + 3_590 * SECOND);
    }

    #[test]
    fn a_lease_that_is_nearly_used_up_has_no_time_for_a_command() {
        let now = ManualClock::new().now();
        let plan = Plan::new(now + 9 * SECOND, 600 * SECOND);
        assert!(!plan.has_time(now));
        let plan = Plan::new(now + 11 * SECOND, 600 * SECOND);
        assert!(plan.has_time(now));
    }

    #[test]
    fn a_job_whose_holder_is_gone_is_stopped_at_once_and_never_past_its_deadline() {
        let clock = ManualClock::new();
        let start = clock.now();
        let mut job = ten_minutes(&clock);
        clock.advance(5 * SECOND);
        job.stop(StopReason::HolderGone, clock.now());
        assert_eq!(job.step(clock.now()), Step::Terminate);
        assert_eq!(job.step(clock.now()), Step::Wait(start + 15 * SECOND));

        let clock = ManualClock::new();
        let mut job = ten_minutes(&clock);
        clock.advance(589 * SECOND);
        job.stop(StopReason::HolderGone, clock.now());
        assert_eq!(job.step(clock.now()), Step::Terminate);
        assert_eq!(job.step(clock.now()), Step::Wait(start + 599 * SECOND));
        assert_eq!(job.stopped_for(), Some(StopReason::HolderGone));
    }

    #[test]
    fn what_is_left_behind_may_end_by_itself_first() {
        let clock = ManualClock::new();
        let start = clock.now();
        let mut job = ten_minutes(&clock);
        job.stop(StopReason::LeftBehind, clock.now());
        assert_eq!(job.step(clock.now()), Step::Wait(start + SECOND));
        assert_eq!(job.stopped_for(), None);
        // A later reason neither prolongs the grace nor replaces the first reason.
        job.stop(StopReason::HolderGone, clock.now());
        assert_eq!(job.step(clock.now()), Step::Terminate);
        assert_eq!(job.stopped_for(), Some(StopReason::LeftBehind));
    }

    #[test]
    fn a_watchdog_that_slept_past_everything_kills_at_once() {
        let clock = ManualClock::new();
        let mut job = ten_minutes(&clock);
        clock.advance(700 * SECOND);
        assert_eq!(job.step(clock.now()), Step::Terminate);
        assert_eq!(job.step(clock.now()), Step::Kill);
        assert!(job.is_hopeless(clock.now()));
    }

    #[test]
    fn an_extension_moves_the_deadline_until_the_job_is_asked_to_end() {
        let clock = ManualClock::new();
        let start = clock.now();
        let mut job = ten_minutes(&clock);
        clock.advance(200 * SECOND);
        let extended = Plan::new(start + 800 * SECOND, 600 * SECOND);
        job.extend(extended);
        assert_eq!(job.step(clock.now()), Step::Wait(start + 790 * SECOND));
        clock.advance(590 * SECOND);
        assert_eq!(job.step(clock.now()), Step::Terminate);
        // A plan that was in flight in the meantime arrives too late.
        job.extend(Plan::new(start + 1_400 * SECOND, 600 * SECOND));
        assert_eq!(job.step(clock.now()), Step::Wait(start + 799 * SECOND));
        assert_eq!(job.stopped_for(), Some(StopReason::Deadline));
    }

    #[test]
    fn an_extension_does_not_take_back_what_was_asked() {
        let clock = ManualClock::new();
        let start = clock.now();
        let mut job = ten_minutes(&clock);
        job.stop(StopReason::LeftBehind, clock.now());
        job.extend(Plan::new(start + 800 * SECOND, 600 * SECOND));
        assert_eq!(job.step(clock.now()), Step::Wait(start + SECOND));
    }

    #[test]
    fn the_longest_run_ends_a_job_whose_lease_goes_on() {
        let clock = ManualClock::new();
        let start = clock.now();
        let plan = Plan::new(start + 600 * SECOND, 600 * SECOND);
        let mut job = Supervision::new(plan.with_run_until(start + 30 * SECOND));
        assert_eq!(job.step(clock.now()), Step::Wait(start + 30 * SECOND));
        let extended = Plan::new(start + 800 * SECOND, 600 * SECOND);
        job.extend(extended.with_run_until(start + 30 * SECOND));
        clock.advance(30 * SECOND);
        assert_eq!(job.step(clock.now()), Step::Terminate);
        assert_eq!(job.step(clock.now()), Step::Wait(start + 40 * SECOND));
        assert_eq!(job.stopped_for(), Some(StopReason::RanTooLong));
        // And never past the end of the lease.
        let plan = Plan::new(start + 600 * SECOND, 600 * SECOND);
        let late = plan.with_run_until(start + 599 * SECOND);
        assert_eq!(late.stop(), (start + 590 * SECOND, StopReason::Deadline));
        assert_eq!(late.kill_at(), plan.kill_at());
    }

    #[test]
    fn a_lease_that_is_lost_ends_the_job_now() {
        let clock = ManualClock::new();
        let mut job = ten_minutes(&clock);
        job.stop(StopReason::LeaseLost, clock.now());
        assert_eq!(job.step(clock.now()), Step::Terminate);
        assert_eq!(job.stopped_for(), Some(StopReason::LeaseLost));
    }

    #[test]
    fn a_job_that_ignores_a_signal_is_killed_when_the_stop_grace_has_passed() {
        let clock = ManualClock::new();
        let start = clock.now();
        let plan = Plan::new(start + 600 * SECOND, 600 * SECOND).with_stop_grace(30 * SECOND);
        let mut job = Supervision::new(plan);
        job.asked_to_end(clock.now());
        assert_eq!(job.step(clock.now()), Step::Wait(start + 30 * SECOND));
        // A further signal does not prolong it.
        clock.advance(20 * SECOND);
        job.asked_to_end(clock.now());
        assert_eq!(job.step(clock.now()), Step::Wait(start + 30 * SECOND));
        clock.advance(10 * SECOND);
        assert_eq!(job.step(clock.now()), Step::Kill);
        assert!(matches!(job.step(clock.now()), Step::Wait(_)));
        assert_eq!(job.stopped_for(), Some(StopReason::IgnoredSignal));
    }

    #[test]
    fn the_stop_grace_does_not_outlast_the_lease() {
        let clock = ManualClock::new();
        let start = clock.now();
        let mut job = ten_minutes(&clock);
        clock.advance(585 * SECOND);
        job.asked_to_end(clock.now());
        assert_eq!(job.step(clock.now()), Step::Wait(start + 590 * SECOND));
        clock.advance(5 * SECOND);
        assert_eq!(job.step(clock.now()), Step::Terminate);
        assert_eq!(job.step(clock.now()), Step::Wait(start + 595 * SECOND));
        assert_eq!(job.stopped_for(), Some(StopReason::Deadline));
        clock.advance(5 * SECOND);
        assert_eq!(job.step(clock.now()), Step::Kill);
        assert_eq!(job.stopped_for(), Some(StopReason::Deadline));
    }

    #[test]
    fn a_second_signal_kills_at_once() {
        let clock = ManualClock::new();
        let mut job = ten_minutes(&clock);
        job.asked_to_end(clock.now());
        clock.advance(SECOND);
        job.kill(StopReason::SecondSignal, clock.now());
        assert_eq!(job.step(clock.now()), Step::Kill);
        assert_eq!(job.stopped_for(), Some(StopReason::SecondSignal));
    }

    #[test]
    fn a_plan_reaches_the_watchdog_unchanged() {
        let plan = Plan::new(ManualClock::new().now() + SECOND, 3 * SECOND);
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}

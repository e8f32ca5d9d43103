//! When a job is stopped: the deadlines of one run, and the steps that follow from them.
//!
//! Nothing here reads a clock or touches a process, so every decision can be tested.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use shedlock::{Deadline, Reading};

use crate::clock::Stamp;
use shedlock_support::Backoff;

/// The deadlines of one run.
///
/// ```text
/// acquired ... warn (TERM) ---- grace ---- kill (KILL) -- lead -- end | end in the store
/// ```
///
/// An extension of the lease moves all of them, but not the maximum run time, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    grace: Duration,
    /// How long the command may take to end after a signal that asks it to.
    stop_grace: Duration,
    terminate_at: Deadline,
    kill_at: Deadline,
    ends_at: Deadline,
    run_until: Option<Deadline>,
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
    pub(crate) fn new(ends_at: Deadline, lock_at_most_for: Duration) -> Self {
        Self::with_grace(ends_at, Self::grace_of(lock_at_most_for))
    }

    fn with_grace(ends_at: Deadline, grace: Duration) -> Self {
        let lead = Self::LONGEST_LEAD.min(grace / 4);
        Self {
            grace,
            stop_grace: Self::LONGEST_GRACE,
            terminate_at: ends_at.earlier_by(grace),
            kill_at: ends_at.earlier_by(lead),
            ends_at,
            run_until: None,
        }
    }

    /// How long before the end of such a lease the command is stopped.
    pub(crate) fn grace_of(lock_at_most_for: Duration) -> Duration {
        Self::LONGEST_GRACE.min(lock_at_most_for / 3)
    }

    /// The same plan for a command that is stopped at this moment, whatever its lease.
    pub(crate) fn with_run_until(mut self, moment: Deadline) -> Self {
        self.run_until = Some(moment);
        self
    }

    /// The same plan for a command that is killed this long after a signal that asks it to end.
    pub(crate) fn with_stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Whether a command that starts now has any time before it is stopped.
    pub(crate) fn has_time(&self, now: Reading) -> bool {
        !self.terminate_at.has_passed(now)
    }

    /// The latest moment at which the last process of the job is killed.
    pub(crate) fn kill_at(&self) -> Deadline {
        let run_until = self.run_until.map(|until| until.later_by(self.grace));
        run_until.map_or(self.kill_at, |until| self.kill_at.or(until))
    }

    /// When the command is stopped, and for which of its two bounds.
    pub(crate) fn stop(&self) -> (Deadline, StopReason) {
        let at = self.terminate_at;
        match self.run_until.map(|until| (until, until.or(at))) {
            Some((until, first)) if first == until && until != at => {
                (until, StopReason::RanTooLong)
            }
            Some((_, first)) => (first, StopReason::Deadline),
            None => (at, StopReason::Deadline),
        }
    }

    /// For which reason a command is stopped that is only stopped now.
    pub(crate) fn stopped_at(&self, now: Reading) -> StopReason {
        if self.ends_at.has_passed(now) {
            StopReason::LeaseOver
        } else {
            self.stop().1
        }
    }

    /// The plan for another process.
    pub(crate) fn to_send(self, now: Reading) -> SentPlan {
        SentPlan {
            grace: self.grace,
            stop_grace: self.stop_grace,
            made: Stamp::now(),
            ends_in: self.ends_at.left(now),
            runs_for: self.run_until.map(|until| until.left(now)),
        }
    }

    fn settling(&self) -> Duration {
        Self::LONGEST_SETTLING.min(self.grace / 2)
    }
}

/// A plan on its way to another process of this host. That process counts the jumps of the wall clock itself, also while
/// the sender is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SentPlan {
    grace: Duration,
    stop_grace: Duration,
    made: Stamp,
    ends_in: Duration,
    runs_for: Option<Duration>,
}

impl SentPlan {
    /// The plan here.
    pub(crate) fn received(self, now: Reading) -> Plan {
        self.aged(now, self.made.age())
    }

    fn aged(self, now: Reading, age: Duration) -> Plan {
        let end = |left: Duration| now.deadline(left).earlier_by(age);
        let plan = Plan::with_grace(end(self.ends_in), self.grace);
        Plan {
            stop_grace: self.stop_grace,
            run_until: self.runs_for.map(end),
            ..plan
        }
    }
}

/// Why a job is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StopReason {
    /// Its lease is about to end.
    Deadline,
    /// Its lease has ended, or may have ended.
    LeaseOver,
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
    Wait(Deadline),
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
    kill: Option<(Deadline, StopReason)>,
}

#[derive(Debug)]
enum Phase {
    Running {
        asked: Option<(Deadline, StopReason)>,
    },
    Terminating {
        kill_at: Deadline,
        reason: StopReason,
    },
    Killing {
        /// Until then the kernel may still be ending the processes that were killed.
        dying_until: Deadline,
        again_at: Deadline,
        backoff: Backoff,
        reason: StopReason,
    },
}

impl Supervision {
    const FIRST_PAUSE: Duration = Duration::from_millis(5);
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);
    /// How long processes that were killed may take to end, and how long after its lease a job is waited for.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// A job that follows this plan.
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            phase: Phase::Running { asked: None },
            kill: None,
        }
    }

    /// When the lease ends for us.
    pub(crate) fn lease_ends_at(&self) -> Deadline {
        self.plan.ends_at
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
    pub(crate) fn stop(&mut self, reason: StopReason, now: Reading) {
        let Phase::Running { asked } = &mut self.phase else {
            return;
        };
        let at = match reason {
            StopReason::LeftBehind => now.deadline(self.plan.settling()),
            _ => now.deadline(Duration::ZERO),
        };
        *asked = Some(match *asked {
            Some((before, first)) => (before.or(at), first),
            None => (at, reason),
        });
    }

    /// A signal that asks the job to end was passed on to it. The first one starts the stop grace.
    pub(crate) fn asked_to_end(&mut self, now: Reading) {
        let kill_at = now.deadline(self.plan.stop_grace);
        self.kill
            .get_or_insert((kill_at, StopReason::IgnoredSignal));
    }

    /// Kills the job from now on, without asking it to end.
    pub(crate) fn kill(&mut self, reason: StopReason, now: Reading) {
        if self
            .kill
            .is_none_or(|(kill_at, _)| !kill_at.has_passed(now))
        {
            self.kill = Some((now.deadline(Duration::ZERO), reason));
        }
    }

    /// The step that is due now. Call it repeatedly until it returns [`Step::Wait`].
    pub(crate) fn step(&mut self, now: Reading) -> Step {
        if let Some((kill_at, why)) = self.kill
            && !matches!(self.phase, Phase::Killing { .. })
        {
            if kill_at.has_passed(now) {
                return self.first_kill(self.stopped_for().unwrap_or(why), now);
            }
            return match self.planned_step(now) {
                Step::Wait(until) => Step::Wait(until.or(kill_at)),
                step => step,
            };
        }
        self.planned_step(now)
    }

    /// The same without the kill that a signal has brought about.
    fn planned_step(&mut self, now: Reading) -> Step {
        match &mut self.phase {
            Phase::Running { asked } => {
                let (planned, why) = self.plan.stop();
                let (at, reason) =
                    asked.map_or((planned, why), |(at, first)| (at.or(planned), first));
                if !at.has_passed(now) {
                    return Step::Wait(at);
                }
                let reason = match reason {
                    StopReason::Deadline if self.plan.ends_at.has_passed(now) => {
                        StopReason::LeaseOver
                    }
                    reason => reason,
                };
                let kill_at = self.plan.kill_at.or(now.deadline(self.plan.grace));
                self.phase = Phase::Terminating { kill_at, reason };
                Step::Terminate
            }
            Phase::Terminating { kill_at, reason } if kill_at.has_passed(now) => {
                let reason = *reason;
                self.first_kill(reason, now)
            }
            Phase::Terminating { kill_at, .. } => Step::Wait(*kill_at),
            // Repeatedly, because processes may have been created while the first KILL was sent.
            Phase::Killing {
                again_at, backoff, ..
            } if again_at.has_passed(now) => {
                *again_at = now.deadline(backoff.take());
                Step::Kill
            }
            Phase::Killing { again_at, .. } => Step::Wait(*again_at),
        }
    }

    fn first_kill(&mut self, reason: StopReason, now: Reading) -> Step {
        let mut backoff = Backoff::new(Self::FIRST_PAUSE, Self::LONGEST_PAUSE);
        self.phase = Phase::Killing {
            dying_until: now.deadline(Self::PATIENCE),
            again_at: now.deadline(backoff.take()),
            backoff,
            reason,
        };
        Step::Kill
    }

    /// Whether nothing more can be done: the lease has ended, and the remaining processes do not die (a process of
    /// another user, or one that hangs in the kernel).
    pub(crate) fn is_hopeless(&self, now: Reading) -> bool {
        let Phase::Killing { dying_until, .. } = self.phase else {
            return false;
        };
        let waited_until = self.plan.ends_at.later_by(Self::PATIENCE);
        dying_until.has_passed(now) && waited_until.has_passed(now)
    }
}

#[cfg(test)]
mod tests;

//! What a seed determines about the world, including which kinds of faults occur.

use std::collections::BTreeMap;
use std::time::Duration;

use shedlock_core::{Completion, Retries};

use crate::store::{Flavour, LONGEST_LAG};
use crate::world::Faults;
use shedlock_proof::{Mistake, SeededRng};

/// Everything that is drawn before a run begins.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) family: Family,
    pub(crate) nodes: usize,
    /// How long until all faults are repaired, and from then to the end.
    pub(crate) rough: Duration,
    pub(crate) calm: Duration,
    pub(crate) locks: Vec<LockPlan>,
    pub(crate) jobs: Vec<JobPlan>,
    pub(crate) faults: Faults,
    pub(crate) struck: Vec<(Struck, Duration)>,
    /// The longest time for which a node is stopped.
    pub(crate) longest_stop: Duration,
    /// The longest time for which a node is cut off or the store is down.
    pub(crate) longest_outage: Duration,
    /// The largest error of calendars, in either direction.
    pub(crate) wrong_by: Duration,
    /// The largest error of running clocks in parts per million, in either direction.
    pub(crate) drift: u64,
    pub(crate) late_timers: (u64, Duration),
    pub(crate) tolerated_skew: Duration,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) store_timeout: Duration,
    pub(crate) clock_check: Duration,
    pub(crate) has_prefix: bool,
    pub(crate) wrong: Option<Mistake>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    Conditional,
    Versioned(Flavour),
}

/// Faults that strike repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    Crash,
    Stop,
    Retire,
    Jump,
    Part,
    Store,
    Force,
    Delete,
}

/// A lock that executors acquire.
#[derive(Clone, Debug)]
pub(crate) struct LockPlan {
    pub(crate) name: String,
    pub(crate) at_most: Duration,
    pub(crate) at_least: Duration,
    /// The time from one slot to the next, and when slots are used up.
    pub(crate) slots: Option<(Duration, Completion)>,
}

/// A job of the schedulers.
#[derive(Clone, Debug)]
pub(crate) struct JobPlan {
    pub(crate) lock: LockPlan,
    /// The cron expression, if the job has one; otherwise it uses a grid of the lock's slots.
    pub(crate) cron: Option<String>,
    pub(crate) keeps_alive: bool,
    /// One run in this many fails.
    pub(crate) fails: u64,
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

impl Plan {
    pub(crate) fn drawn(rng: &mut SeededRng, wrong: Option<Mistake>) -> Self {
        let unit = *rng.pick(&[
            SECOND,
            5 * SECOND,
            30 * SECOND,
            2 * MINUTE,
            8 * MINUTE,
            30 * MINUTE,
        ]);
        let family = match rng.below(3) {
            _ if wrong.is_some_and(is_of_conditional) => Family::Conditional,
            0 if wrong.is_none() => Family::Conditional,
            _ if wrong == Some(Mistake::VersionsReused) => Family::Versioned(Flavour {
                repeats_versions: true,
                conceals: true,
                loses_tail: true,
                ..Flavour::default()
            }),
            _ if wrong == Some(Mistake::ReadsGoBack) => Family::Versioned(Flavour {
                lag: Some(LONGEST_LAG),
                ..Flavour::default()
            }),
            _ if wrong == Some(Mistake::ReadThenWrite) => Family::Versioned(Flavour::default()),
            1 if wrong.is_none() => Family::Versioned(flavour(rng)),
            _ => Family::Conditional,
        };
        let judged_by_clients =
            matches!(family, Family::Versioned(flavour) if flavour.time.is_none());
        let tolerated_skew = rng.between(SECOND / 2, 2 * SECOND);
        let locks: Vec<LockPlan> = (0..1 + rng.below(3))
            .map(|number| LockPlan::drawn(format!("lock-{number}"), unit, rng, wrong))
            .collect();
        let jobs: Vec<JobPlan> = (0..rng.below(3))
            .filter(|_| wrong.is_none())
            .map(|number| JobPlan::drawn(format!("job-{number}"), unit, rng))
            .collect();
        let longest = 60 * unit;
        let faults = Faults {
            request_lost: *rng.pick(&[0, 8, 40]),
            reply_lost: *rng.pick(&[0, 8, 40]),
            cut: *rng.pick(&[0, 15, 60]),
            doubled: *rng.pick(&[0, 8, 40]),
            delayed: *rng.pick(&[0, 5, 30]),
            longest: *rng.pick(&[SECOND, 10 * unit, 2 * longest]),
        };
        let kinds = [
            Struck::Crash,
            Struck::Stop,
            Struck::Retire,
            Struck::Jump,
            Struck::Part,
            Struck::Store,
            Struck::Force,
            Struck::Delete,
        ];
        let struck = kinds
            .into_iter()
            .filter_map(|kind| {
                let pause = rng.between(longest / 2, 12 * longest);
                rng.flip().then_some((kind, pause))
            })
            .collect();
        let wrong_by = if judged_by_clients {
            tolerated_skew / 2
        } else {
            *rng.pick(&[Duration::ZERO, SECOND, (100 * unit).min(10 * MINUTE)])
        };
        Self {
            family,
            nodes: usize::try_from(2 + rng.below(3)).unwrap_or(2),
            rough: 120 * longest,
            calm: 10 * longest + 2 * faults.longest,
            locks,
            jobs,
            faults,
            struck,
            longest_stop: *rng.pick(&[2 * unit, 2 * longest]),
            longest_outage: longest.min(10 * MINUTE),
            wrong_by,
            // With drift, a calendar would eventually exceed every tolerance.
            drift: if judged_by_clients {
                0
            } else {
                *rng.pick(&[0, 50, 500])
            },
            late_timers: (*rng.pick(&[0, 5, 50]), *rng.pick(&[SECOND, 5 * unit])),
            tolerated_skew,
            time_limit: if matches!(family, Family::Conditional) && rng.flip() {
                None
            } else {
                Some(rng.between(SECOND, 5 * SECOND))
            },
            store_timeout: match rng.between(2 * SECOND, 10 * SECOND) {
                // Long enough for replies that arrive when a good part of the lease is over.
                _ if wrong.is_some_and(Mistake::is_of_the_clock) => longest,
                timeout => timeout,
            },
            clock_check: 5 * unit,
            has_prefix: rng.one_in(4),
            wrong,
        }
    }

    /// When the run ends.
    pub(crate) fn end(&self) -> Duration {
        self.rough + self.calm
    }

    /// The largest difference between clocks that judge.
    pub(crate) fn slack(&self) -> Duration {
        match self.family {
            Family::Conditional => Duration::ZERO,
            Family::Versioned(Flavour {
                time: Some(resolution),
                ..
            }) => 2 * resolution + Duration::from_millis(2),
            Family::Versioned(_) => {
                2 * self.wrong_by + self.tolerated_skew + Duration::from_millis(2)
            }
        }
    }

    /// How long a client may be shown an outdated state.
    pub(crate) fn lag(&self) -> Duration {
        match self.family {
            Family::Versioned(Flavour { lag: Some(lag), .. }) => lag,
            _ => Duration::ZERO,
        }
    }

    /// How long after its bound the last withdrawal may be sent: a withdrawal in flight may time
    /// out first, then there are pauses, and timers fire late.
    pub(crate) fn withdrawal(&self) -> Duration {
        self.store_timeout + 10 * SECOND + 4 * self.late_timers.1 + self.store_timeout / 100
    }

    /// Whether clients withdraw what they may have won, as far as they know.
    pub(crate) fn withdraws(&self) -> bool {
        let delays = |it: Mistake| it.is_of_the_clock() && it != Mistake::WaitCountsJumps;
        !self.wrong.is_some_and(delays)
    }

    /// The jobs whose slots all have to run once there are no more faults. None if running clocks
    /// are wrong, because the error of the calendars then keeps growing.
    pub(crate) fn grids(&self) -> BTreeMap<String, i64> {
        let jobs = self.jobs.iter().filter(|_| self.drift == 0);
        let grids = jobs.filter_map(|job| {
            let (period, completion) = job.lock.slots?;
            let is_grid = job.cron.is_none() && completion == Completion::WhenTaken;
            let micros = i64::try_from(period.as_micros()).ok()?;
            is_grid.then(|| (self.named(&job.lock.name), micros))
        });
        grids.collect()
    }

    /// How long after the repair the effects of earlier faults may last.
    pub(crate) fn recovery(&self) -> Duration {
        let jobs = self.jobs.iter();
        let longest = jobs.map(|job| {
            let period = job.lock.slots.map_or(Duration::ZERO, |(period, _)| period);
            2 * job.lock.at_most + 2 * period
        });
        longest.max().unwrap_or_default() + 2 * self.faults.longest
    }

    pub(crate) fn named(&self, name: &str) -> String {
        if self.has_prefix {
            format!("team:{name}")
        } else {
            name.to_owned()
        }
    }
}

fn is_of_conditional(wrong: Mistake) -> bool {
    !matches!(
        wrong,
        Mistake::ReadThenWrite | Mistake::VersionsReused | Mistake::ReadsGoBack
    )
}

fn flavour(rng: &mut SeededRng) -> Flavour {
    let repeats_versions = rng.one_in(4);
    Flavour {
        time: rng
            .one_in(3)
            .then(|| *rng.pick(&[Duration::from_millis(1), SECOND])),
        // Revisions are the store's numbers that never repeat.
        has_revisions: rng.flip() && !repeats_versions,
        repeats_versions,
        conceals: false,
        loses_tail: rng.one_in(3),
        lag: rng.one_in(3).then(|| *rng.pick(&[SECOND, LONGEST_LAG])),
    }
}

impl LockPlan {
    fn drawn(name: String, unit: Duration, rng: &mut SeededRng, wrong: Option<Mistake>) -> Self {
        let at_most = rng.between(10 * unit, 60 * unit).max(5 * SECOND);
        let wants_at_least = matches!(
            wrong,
            Some(Mistake::AtLeastForgotten | Mistake::AtLeastTooEarly | Mistake::AtLeastFromUnlock)
        );
        let slots = match wrong {
            Some(Mistake::SlotOfLeaseOnly | Mistake::SlotsAnyOrder) => 0,
            Some(Mistake::OpenSlotIsPassed | Mistake::AttemptsForgottenAtTakeover) => 1,
            _ => rng.below(5),
        };
        // Whole seconds, as an operator would configure.
        let period = Duration::from_secs(rng.between(10 * unit, 60 * unit).as_secs());
        Self {
            name,
            at_most,
            at_least: if wants_at_least || rng.one_in(3) {
                rng.up_to(at_most)
            } else {
                Duration::ZERO
            },
            slots: match slots {
                0 => Some((period, Completion::WhenTaken)),
                1 => Some((period, on_success(unit, rng))),
                _ => None,
            },
        }
    }
}

impl JobPlan {
    fn drawn(name: String, unit: Duration, rng: &mut SeededRng) -> Self {
        let mut lock = LockPlan::drawn(name, unit, rng, None);
        let completion = if rng.flip() {
            Completion::WhenTaken
        } else {
            on_success(unit, rng)
        };
        let period = rng.between(20 * unit, 90 * unit);
        let period = Duration::from_secs(period.as_secs().max(2));
        lock.slots = Some((period, completion));
        // A tick checks at least every ten seconds whether a lease has expired.
        lock.at_most = lock.at_most.min(15 * MINUTE);
        lock.at_least = lock.at_least.min(lock.at_most);
        let cron = match unit.as_secs() {
            0..30 if rng.one_in(3) => Some("*/30 * * * * *"),
            30..100 if rng.one_in(3) => Some("0 */20 * * * *"),
            100.. if rng.one_in(3) => Some("0 0 */2 * * *"),
            _ => None,
        };
        Self {
            lock,
            cron: cron.map(str::to_owned),
            keeps_alive: rng.one_in(3),
            fails: *rng.pick(&[0, 4, 20]),
        }
    }
}

fn on_success(unit: Duration, rng: &mut SeededRng) -> Completion {
    let attempts = u32::try_from(*rng.pick(&[1, 2, 5, 1_000])).unwrap_or(5);
    let retries = Retries::new()
        .max_attempts(attempts)
        .backoff((2 * unit).min(MINUTE));
    Completion::OnSuccess(retries.max_backoff((20 * unit).min(5 * MINUTE)))
}

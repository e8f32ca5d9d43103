//! Turns what is known of the runs into the history that is judged.
//!
//! Only a command knows that it holds the lock, and from its variables, or from the record, until when by the store's
//! clock. All servers run on
//! this machine, so the store's time and the clock of the history differ by a constant. The history is never stricter than
//! what is documented:
//!
//! - a lease begins when the store granted it, and its command must be gone when it ends in the store, or soon after a jump
//!   of the wall clock that leaves nothing of it. Nothing excuses a command whose `shedlock run` is stopped: its watchdog
//!   is not;
//! - it is given back after the last step of the command, at the latest when the last process of the run has ended, if
//!   that did not say otherwise;
//! - a run that ends by itself leaves no copy of its attempt that could still win, unless it says so. That of a killed run
//!   may win for as long as an attempt may take.

use std::collections::BTreeMap;
use std::time::Duration;

use shedlock::{Capabilities, ClockSource};
use shedlock_core::AttemptRequest;
use shedlock_proof::history::{Event, History, Rules, What, nanos};

use crate::arena::AT_MOST;
use crate::job;
use crate::observer::Observation;

/// A command must have stopped within a second of a jump. The rest is for a busy machine.
const NOTICED: Duration = Duration::from_millis(2_500);

/// If the records could not be read for this long, an extension may have been missed.
const GAP: Duration = Duration::from_secs(1);

/// How much later a store may end a lease than it was asked to, because it rounds.
const ROUNDED: Duration = Duration::from_millis(2);

/// One `shedlock run`, from its start to the end of all its processes.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) number: u32,
    pub(crate) lock: String,
    pub(crate) pid: u32,
    pub(crate) is_kept_alive: bool,
    /// What was done to it, for readers of a failure.
    #[allow(dead_code, reason = "printed")]
    pub(crate) what: String,
    /// Whether a fault has met one of its requests.
    pub(crate) is_disturbed: bool,
    pub(crate) spawned: Duration,
    pub(crate) killed: Option<Duration>,
    pub(crate) ended: Duration,
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

/// The code of a run that did not get the lock.
pub(crate) const SKIPPED: i32 = 9;

impl Run {
    fn event(&self, at: Duration, what: What) -> Event {
        Event {
            at: nanos(at),
            process: self.number,
            name: self.lock.clone(),
            owner: job::owner(self.number),
            what,
        }
    }

    fn asked(&self, at: Duration, timeout: Duration) -> Event {
        let what = What::Asked {
            at_most: nanos(AT_MOST + ROUNDED),
            at_least: 0,
            slot: None,
            slot_attempts: None,
            host: None,
            timeout: nanos(timeout),
        };
        self.event(at, what)
    }

    /// Its requests may be late until it has ended, and longer if no one has withdrawn them.
    fn is_on_its_way(&self, is_in_doubt: bool) -> Event {
        let timeout = nanos(AttemptRequest::DEFAULT_TIMEOUT);
        let delay = if is_in_doubt { timeout } else { 0 };
        self.event(self.spawned, What::WayDisturbed { delay })
    }

    /// A run whose command was not started.
    fn without_command(&self) -> Vec<Event> {
        let given_up = self.killed.unwrap_or(self.ended);
        let is_in_doubt = self.killed.is_some() || self.stderr.contains("still does not reply");
        let lasted = given_up - self.spawned;
        let timeout = match is_in_doubt {
            true => lasted + AttemptRequest::DEFAULT_TIMEOUT,
            false => lasted,
        };
        let answer = match self.code {
            Some(SKIPPED) => What::Skipped {
                locked: true,
                slot_taken: false,
                holder: None,
                until: None,
            },
            _ => What::Unknown,
        };
        let mut events = vec![
            self.is_on_its_way(is_in_doubt),
            self.asked(self.spawned, timeout),
            self.event(given_up, answer),
        ];
        if !is_in_doubt {
            events.push(self.event(given_up, What::Withdrawn));
            events.push(self.event(given_up, What::Withdrew));
        }
        events.push(self.event(given_up, What::WayRestored));
        events
    }

    /// A run whose command wrote these events.
    fn with_command(
        &self,
        clock: StoreClock,
        mut written: Vec<Event>,
        seen: &[&Observation],
    ) -> Vec<Event> {
        let mut ends = Vec::new();
        for event in &mut written {
            if let What::Acquired {
                acquired_at,
                locked_until: Some(until),
                ..
            } = &mut event.what
            {
                *acquired_at = Some(*until - nanos(AT_MOST));
                ends.push((*until, at(event.at)));
            }
        }
        let last = written.last().map_or(self.ended, |it| at(it.at));
        for observation in seen {
            let Some((_, until)) = observation.held else {
                continue;
            };
            // What was read once is read again. What was granted after the last step is no extension, but a copy of
            // the attempt.
            let is_new = ends
                .last()
                .is_none_or(|(known, _)| until > known + 1_000_000);
            if is_new && clock.moment(until) - AT_MOST <= last {
                ends.push((until, observation.answered));
            }
        }
        let mut events = Vec::new();
        let said = |words| self.stderr.contains(words);
        let over = ends.last().map_or(last, |(until, _)| clock.moment(*until));
        let is_released = last <= over
            && match self.killed {
                Some(_) => said("released the lock"),
                None => !said("not released"),
            };
        // A run that is killed while it waits for a late copy leaves it its lease.
        let is_in_doubt = !is_released || said("still does not reply");
        if ends.is_empty() {
            // Too short for anyone to read when its lease ends.
            events.push(self.asked(self.spawned, AttemptRequest::DEFAULT_TIMEOUT));
            written.retain(|event| event.what != What::Step);
        }
        for (nth, (until, seen)) in ends.iter().enumerate() {
            let granted = clock.moment(*until) - AT_MOST;
            if nth == 0 {
                if self.is_disturbed {
                    // A copy without a reply came first, and may win as long as the run waits for it.
                    let mut timeout = self.ended.saturating_sub(granted) + ROUNDED;
                    if is_in_doubt {
                        timeout += AttemptRequest::DEFAULT_TIMEOUT;
                    }
                    events.push(self.is_on_its_way(is_in_doubt));
                    events.push(self.asked(granted - ROUNDED, timeout));
                    events.push(self.event(self.ended, What::WayRestored));
                }
                events.push(self.asked(granted - ROUNDED, AttemptRequest::DEFAULT_TIMEOUT));
                continue;
            }
            let at_most = nanos(AT_MOST);
            events.push(self.event(granted, What::RenewAsked { at_most }));
            let locked_until = Some(*until);
            events.push(self.event(*seen, What::Renewed { locked_until }));
        }
        let moments = seen.iter().map(|it| it.answered).chain([self.ended]);
        let has_gap = moments
            .scan(self.spawned, |before, now| {
                Some(now.saturating_sub(std::mem::replace(before, now)))
            })
            .any(|gap| gap > GAP);
        if self.is_kept_alive && has_gap {
            let known = ends
                .last()
                .map_or(0, |(until, _)| nanos(clock.moment(*until)));
            written.retain(|event| event.what != What::Step || event.at < known);
        }
        events.extend(written);
        events.push(self.event(last, What::ReleaseAsked));
        if said("may have overlapped") && said("was freed by force") {
            events.push(self.event(self.ended, What::ReleaseLost));
        } else if is_released {
            events.push(self.event(self.ended, What::Released));
            if self.is_disturbed && !is_in_doubt {
                events.push(self.event(self.ended, What::Withdrawn));
                events.push(self.event(self.ended, What::Withdrew));
            }
        }
        events
    }
}

/// The difference between the store's clock and that of the history.
#[derive(Clone, Copy, Debug)]
struct StoreClock(u64);

impl StoreClock {
    fn read() -> Self {
        let (now, shows) = job::wall_clock().expect("a moment in which two clocks can be read");
        Self(shows - nanos(now))
    }

    fn moment(self, instant: u64) -> Duration {
        at(instant.saturating_sub(self.0))
    }
}

fn at(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// The history of these runs, whose commands wrote these events.
pub(crate) fn of(runs: &[Run], written: &History, seen: &[Observation]) -> History {
    let clock = StoreClock::read();
    let mut by_run: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
    for event in written.events() {
        by_run.entry(event.process).or_default().push(event.clone());
    }
    let mut events = Vec::new();
    let mut of_run: BTreeMap<u32, Vec<&Observation>> = BTreeMap::new();
    for observation in seen {
        let Some((owner, until)) = &observation.held else {
            continue;
        };
        let run = run_of(runs, owner, observation.answered);
        if let Some(run) = run {
            of_run.entry(run.number).or_default().push(observation);
        }
        let observer = |at: Duration, what| Event {
            at: nanos(at),
            process: u32::MAX,
            name: observation.lock.clone(),
            owner: format!("observer of {}", observation.lock),
            what,
        };
        events.push(observer(
            observation.asked,
            What::Asked {
                at_most: u64::MAX,
                at_least: 0,
                slot: None,
                slot_attempts: None,
                host: None,
                timeout: 0,
            },
        ));
        events.push(observer(
            observation.answered,
            What::Skipped {
                locked: true,
                slot_taken: false,
                holder: Some(run.map_or(owner.clone(), |run| job::owner(run.number))),
                until: Some(*until),
            },
        ));
    }
    for run in runs {
        let seen = of_run.remove(&run.number).unwrap_or_default();
        events.extend(match by_run.remove(&run.number) {
            Some(written) => run.with_command(clock, written, &seen),
            None => run.without_command(),
        });
    }
    History::new(events)
}

/// The run whose owner this is: `host/process/random`.
fn run_of<'a>(runs: &'a [Run], owner: &str, by: Duration) -> Option<&'a Run> {
    let pid: u32 = owner.rsplit('/').nth(1)?.parse().ok()?;
    let of_process = runs
        .iter()
        .filter(|run| run.pid == pid && run.spawned <= by);
    of_process.max_by_key(|run| run.spawned)
}

/// The rules for a store that declares this.
pub(crate) fn rules(capabilities: &Capabilities) -> Rules {
    let by_store = |clock| clock == ClockSource::Store;
    Rules {
        refuses_late: by_store(capabilities.clock) && by_store(capabilities.slot_clock),
        // The store's clock is slewed while it is compared with ours.
        drift: Duration::from_millis(50),
        jumps: Some(NOTICED),
        ..Rules::new(capabilities.granularity, capabilities.fencing)
    }
}

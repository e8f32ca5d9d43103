//! Tests the state of a held lock in many orders of thread operations.
//!
//! The files of the runtime that decide when a lock ends are compiled here a second time, over the
//! mutexes and tasks of [`shuttle`], which can switch threads at any of their operations. A failing
//! test prints the schedule that failed; `shuttle::replay` runs it again.

#![allow(dead_code, unreachable_pub, reason = "the runtime uses the rest")]

#[path = "../src/runtime/lease_state.rs"]
mod lease_state;
#[path = "../src/runtime/progress.rs"]
mod progress;
#[path = "../src/runtime/watcher.rs"]
mod watcher;

mod clock {
    pub(crate) use shedlock_core::{Deadline, LeaseClock, Moment, NotBefore, Reading};
}

mod contract {
    pub(crate) use shedlock_core::{Lease, LostReason, UnlockRequest};
}

mod runtime {
    pub(crate) use crate::progress::Progress;

    /// Replaces `src/runtime/sync.rs`.
    pub(crate) mod sync {
        pub(crate) use std::sync::PoisonError;

        pub(crate) use shuttle::future::AbortHandle;
        pub(crate) use shuttle::sync::{Mutex, MutexGuard};
    }
}

use std::future::{pending, poll_fn};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lease_state::{LeaseState, SlotWord};
use shedlock_core::{
    AttemptRequest, BoxFuture, Clock, Deadline, Lease, LeaseClock, LockName, LostReason,
    ManualClock, Moment, NotBefore, Owner, SlotEnd, UnlockRequest,
};
use shuttle::{check_pct, check_random, future, thread};
use watcher::Watcher;

const RUNS: usize = 2_000;

/// Tries random orders, and orders that are random except for a few changes of priority.
fn check(test: fn()) {
    check_random(test, RUNS);
    check_pct(test, RUNS, 3);
}

/// A lease that ends after 10 s, on a clock that only the test moves.
#[derive(Clone)]
struct Bench {
    state: Arc<LeaseState>,
    clock: ManualClock,
    lease_clock: LeaseClock,
    announced: Arc<AtomicUsize>,
}

impl Bench {
    fn new() -> Self {
        Self::of(|_| None)
    }

    /// Copies of its attempt may arrive for this long.
    fn with_strays(left: Duration) -> Self {
        Self::of(|clock| Some(NotBefore::after(clock.now(), left)))
    }

    fn of(strays_until: impl FnOnce(&ManualClock) -> Option<NotBefore>) -> Self {
        let clock = ManualClock::new();
        let lease_clock = LeaseClock::new(Arc::new(clock.clone()));
        let deadline = lease_clock.read().deadline(secs(10));
        let strays_until = strays_until(&clock);
        Self {
            state: Arc::new(LeaseState::new(lease(), deadline, strays_until)),
            clock,
            lease_clock,
            announced: Arc::default(),
        }
    }

    fn lost(&self) -> Option<LostReason> {
        self.state
            .lost(self.lease_clock.read(), |_| self.announce())
    }

    fn lose(&self) {
        let reason = LostReason::NotHeldInStore;
        self.state.lose(reason, |_| self.announce());
    }

    fn extend(&self, by: Duration) {
        self.state.extend(lease(), self.end(by));
    }

    fn end(&self, after: Duration) -> Deadline {
        self.lease_clock.read().deadline(after)
    }

    fn announce(&self) {
        self.announced.fetch_add(1, Ordering::SeqCst);
    }

    /// Registers a callback and counts its calls.
    fn on_lost(&self, panics: bool) -> Arc<AtomicUsize> {
        let called = Arc::new(AtomicUsize::new(0));
        let count = called.clone();
        self.state.on_lost(Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
            if panics {
                // Not `panic!`: the hook would report a failed test.
                resume_unwind(Box::new("on purpose"));
            }
        }));
        called
    }

    /// Runs until the lease is lost or released, like `guard` for a task that waits.
    fn run(&self) -> Option<LostReason> {
        let mut watcher = Watcher::default();
        loop {
            if let Some(reason) = self.lost() {
                return Some(reason);
            }
            if self.state.is_released() {
                return None;
            }
            future::block_on(poll_fn(|context| {
                watcher.poll(&self.state, &self.lease_clock, context)
            }));
        }
    }

    /// Spawns a task that never ends by itself, like `Held::spawn`.
    fn spawn(&self, given_back: &Arc<AtomicBool>) -> bool {
        if !self.state.begin_spawned() {
            return false;
        }
        let counted = Counted(self.clone(), given_back.clone());
        let task = future::spawn(async move {
            let _counted = counted;
            pending::<()>().await;
        });
        self.state.add_spawned(task.abort_handle());
        true
    }

    /// Like `Held::release`.
    fn release(&self, given_back: &AtomicBool) {
        if self.state.release(&UnlockRequest::new()) {
            self.state.abort_spawned();
            future::block_on(poll_fn(|context| self.state.poll_idle(context)));
            given_back.store(true, Ordering::SeqCst);
        }
    }
}

struct Counted(Bench, Arc<AtomicBool>);

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(!self.1.load(Ordering::SeqCst), "it outlived the lock");
        self.0.state.end_spawned();
    }
}

fn lease() -> Lease {
    let owner = Owner::generate();
    let name = LockName::new("a").expect("a name");
    Lease::granted(&AttemptRequest::new(name, owner, secs(10)))
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_callback_is_not_lost_when_it_is_registered_while_the_lease_is_lost() {
    check(|| {
        let bench = Bench::new();
        let here = bench.clone();
        let losing = thread::spawn(move || here.lose());
        let here = bench.clone();
        let passing = thread::spawn(move || {
            here.clock.advance(secs(10));
            here.lost();
        });
        let first = bench.on_lost(false);
        let second = bench.on_lost(true);
        let third = bench.on_lost(false);
        losing.join().unwrap();
        passing.join().unwrap();
        for called in [first, second, third] {
            assert_eq!(called.load(Ordering::SeqCst), 1);
        }
        assert_eq!(bench.announced.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_callback_that_panics_keeps_neither_the_others_nor_the_task_waiting() {
    check(|| {
        let bench = Bench::new();
        let here = bench.clone();
        let task = thread::spawn(move || here.run());
        let called = [true, false, true, false].map(|panics| bench.on_lost(panics));
        bench.lose();
        assert_eq!(task.join().unwrap(), Some(LostReason::NotHeldInStore));
        assert!(
            called
                .iter()
                .all(|called| called.load(Ordering::SeqCst) == 1)
        );
    });
}

/// A task that is not woken waits for ever, which is reported as a deadlock.
#[test]
fn a_lease_that_is_lost_between_two_looks_at_it_stops_its_task() {
    check(|| {
        let bench = Bench::new();
        let here = bench.clone();
        let task = thread::spawn(move || here.run());
        let here = bench.clone();
        let extending = thread::spawn(move || here.extend(secs(20)));
        bench.lose();
        extending.join().unwrap();
        assert!(task.join().unwrap().is_some());
    });
}

#[test]
fn a_deadline_that_moves_closer_or_away_stops_the_task_when_it_passes() {
    check(|| {
        let bench = Bench::new();
        let here = bench.clone();
        let task = thread::spawn(move || here.run());
        let here = bench.clone();
        let extending = thread::spawn(move || here.extend(secs(20)));
        // One limit after the existing deadline, and one before it.
        bench.state.run_until(bench.end(secs(15)));
        bench.state.run_until(bench.end(secs(3)));
        extending.join().unwrap();
        bench.clock.advance(secs(2));
        bench.clock.advance(secs(1));
        assert_eq!(task.join().unwrap(), Some(LostReason::RanTooLong));
    });
}

#[test]
fn no_spawned_task_outlives_the_lock_or_keeps_it_from_being_given_back() {
    check(|| {
        let bench = Bench::new();
        let given_back = Arc::new(AtomicBool::new(false));
        let spawning: Vec<_> = (0..2)
            .map(|_| {
                let (here, given_back) = (bench.clone(), given_back.clone());
                thread::spawn(move || (here.spawn(&given_back), here.spawn(&given_back)))
            })
            .collect();
        let here = bench.clone();
        let losing = thread::spawn(move || here.lose());
        bench.release(&given_back);
        assert!(!bench.spawn(&given_back), "the lock is over");
        for spawning in spawning {
            spawning.join().unwrap();
        }
        losing.join().unwrap();
        assert!(given_back.load(Ordering::SeqCst) && bench.state.is_idle());
    });
}

#[test]
fn all_that_can_happen_to_a_lock_at_once_ends_it_once() {
    check(|| {
        let bench = Bench::new();
        let given_back = Arc::new(AtomicBool::new(false));
        let (here, back) = (bench.clone(), given_back.clone());
        let task = thread::spawn(move || {
            let ended = here.run();
            here.release(&back);
            ended
        });
        let registering: Vec<_> = [false, true]
            .into_iter()
            .map(|panics| {
                let here = bench.clone();
                thread::spawn(move || here.on_lost(panics))
            })
            .collect();
        let (here, back) = (bench.clone(), given_back.clone());
        let spawning = thread::spawn(move || {
            here.spawn(&back);
            here.extend(secs(12));
        });
        bench.state.run_until(bench.end(secs(5)));
        bench.clock.advance(secs(30));
        spawning.join().unwrap();
        assert!(task.join().unwrap().is_some());
        for called in registering {
            assert_eq!(called.join().unwrap().load(Ordering::SeqCst), 1);
        }
        assert_eq!(bench.announced.load(Ordering::SeqCst), 1);
        assert!(given_back.load(Ordering::SeqCst));
    });
}

/// The moment this long after the beginning.
fn at(bench: &Bench, after: Duration) -> Moment {
    bench.clock.now() + after
}

#[test]
fn a_release_begins_once_and_its_first_request_counts() {
    check(|| {
        let bench = Bench::new();
        let ends = [SlotEnd::Cut, SlotEnd::NotStarted];
        let releasing = ends.map(|end| {
            let here = bench.clone();
            thread::spawn(move || {
                let request = UnlockRequest::new().with_slot_end(end);
                let is_first = here.state.release(&request);
                let counts = here.state.release_request().slot_end;
                assert!(!is_first || counts == end, "another request counts");
                (is_first, counts)
            })
        });
        let [one, other] = releasing.map(|releasing| releasing.join().unwrap());
        assert!(one.0 != other.0 && one.1 == other.1);
    });
}

#[test]
fn an_unlock_is_first_sent_at_one_moment_and_copies_are_judged_by_it() {
    check(|| {
        let bench = Bench::with_strays(secs(5));
        let sending = [3, 4].map(|after| {
            let here = bench.clone();
            thread::spawn(move || here.state.send_unlock(at(&here, secs(after))))
        });
        let [one, other] = sending.map(|sending| sending.join().unwrap());
        assert_eq!(one, other);
        // The reply came when no copy could arrive any more, but one could when the unlock did.
        let late = at(&bench, secs(9));
        assert!(bench.state.give_back(late).is_some());
    });
}

#[test]
fn what_copies_may_still_take_is_withdrawn_once() {
    check(|| {
        let bench = Bench::with_strays(secs(5));
        let ending = [(); 2].map(|()| {
            let here = bench.clone();
            thread::spawn(move || here.state.give_back(at(&here, secs(1))).is_some())
        });
        let [one, other] = ending.map(|ending| ending.join().unwrap());
        assert!(one != other && bench.state.is_given_back());
        assert_eq!(bench.state.strays(at(&bench, secs(1))), None);
    });
}

#[test]
fn a_slot_is_kept_from_the_copies_of_an_attempt_whose_task_has_started() {
    check(|| {
        let bench = Bench::with_strays(secs(5));
        let has_run = Arc::new(AtomicBool::new(false));
        let (here, ran) = (bench.clone(), has_run.clone());
        let task = thread::spawn(move || {
            here.state.start();
            ran.store(true, Ordering::SeqCst);
            here.state.say(SlotWord::Failed, Some("why".into()));
        });
        let ran_before = has_run.load(Ordering::SeqCst);
        let strays = bench.state.give_back(at(&bench, secs(1)));
        assert!(strays.is_some_and(|(_, has_run)| has_run || !ran_before));
        task.join().unwrap();
        assert_eq!(bench.state.slot_word(), SlotWord::Failed);
    });
}

#[test]
fn a_failure_is_never_seen_without_its_text() {
    check(|| {
        let bench = Bench::new();
        let failing = ["one", "other"].map(|text| {
            let here = bench.clone();
            thread::spawn(move || here.state.say(SlotWord::Failed, Some(text.into())))
        });
        let first = bench.state.said();
        if first.0 == SlotWord::Failed {
            assert!(first.1.is_some());
        }
        for failing in failing {
            failing.join().unwrap();
        }
        // The first text counts.
        assert!(
            first
                .1
                .is_none_or(|text| bench.state.said().1 == Some(text))
        );
    });
}

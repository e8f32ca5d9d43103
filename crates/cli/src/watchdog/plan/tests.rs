//! Decisions about one job, by a clock that stands still.

use std::sync::Arc;

use shedlock::{LeaseClock, ManualClock};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Moves all clocks, or the wall clock alone.
struct TestClock {
    manual: ManualClock,
    lease: LeaseClock,
}

impl TestClock {
    fn new() -> Self {
        let manual = ManualClock::new();
        let lease = LeaseClock::new(Arc::new(manual.clone()));
        Self { manual, lease }
    }

    fn now(&self) -> Reading {
        self.lease.read()
    }

    fn advance(&self, by: Duration) {
        self.manual.advance(by);
    }

    fn jump(&self, by: Duration) {
        use shedlock::Clock as _;
        self.manual.set_system_time(self.manual.system_time() + by);
    }
}

fn ten_minutes(clock: &TestClock) -> Supervision {
    Supervision::new(Plan::new(clock.now().deadline(600 * SECOND), 600 * SECOND))
}

#[test]
fn the_job_is_asked_then_killed_before_the_lease_ends() {
    let clock = TestClock::new();
    let start = clock.now();
    let mut job = ten_minutes(&clock);
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(590 * SECOND))
    );
    clock.advance(590 * SECOND);
    assert_eq!(job.step(clock.now()), Step::Terminate);
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(599 * SECOND))
    );
    assert_eq!(job.stopped_for(), Some(StopReason::Deadline));
    clock.advance(9 * SECOND);
    assert_eq!(job.step(clock.now()), Step::Kill);
    assert!(matches!(job.step(clock.now()), Step::Wait(_)));
    clock.advance(SECOND);
    assert_eq!(job.step(clock.now()), Step::Kill, "killed again");
}

#[test]
fn grace_shrinks_with_the_lease() {
    let now = TestClock::new().now();
    let plan = Plan::new(now.deadline(3 * SECOND), 3 * SECOND);
    assert_eq!(plan.terminate_at, now.deadline(2 * SECOND));
    assert_eq!(plan.kill_at, now.deadline(Duration::from_millis(2_750)));
    let plan = Plan::new(now.deadline(30 * SECOND), 30 * SECOND);
    assert_eq!(plan.terminate_at, now.deadline(20 * SECOND));
    let plan = Plan::new(now.deadline(3_600 * SECOND), 3_600 * SECOND);
    assert_eq!(plan.terminate_at, now.deadline(3_590 * SECOND));
}

#[test]
fn a_lease_that_is_nearly_used_up_has_no_time_for_a_command() {
    let now = TestClock::new().now();
    let plan = Plan::new(now.deadline(9 * SECOND), 600 * SECOND);
    assert!(!plan.has_time(now));
    let plan = Plan::new(now.deadline(11 * SECOND), 600 * SECOND);
    assert!(plan.has_time(now));
}

#[test]
fn a_job_whose_holder_is_gone_is_stopped_at_once_and_never_past_its_deadline() {
    let clock = TestClock::new();
    let start = clock.now();
    let mut job = ten_minutes(&clock);
    clock.advance(5 * SECOND);
    job.stop(StopReason::HolderGone, clock.now());
    assert_eq!(job.step(clock.now()), Step::Terminate);
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(15 * SECOND))
    );

    let clock = TestClock::new();
    let mut job = ten_minutes(&clock);
    clock.advance(589 * SECOND);
    job.stop(StopReason::HolderGone, clock.now());
    assert_eq!(job.step(clock.now()), Step::Terminate);
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(599 * SECOND))
    );
    assert_eq!(job.stopped_for(), Some(StopReason::HolderGone));
}

#[test]
fn what_is_left_behind_may_end_by_itself_first() {
    let clock = TestClock::new();
    let start = clock.now();
    let mut job = ten_minutes(&clock);
    job.stop(StopReason::LeftBehind, clock.now());
    assert_eq!(job.step(clock.now()), Step::Wait(start.deadline(SECOND)));
    assert_eq!(job.stopped_for(), None);
    // A later reason neither prolongs the grace nor replaces the first reason.
    job.stop(StopReason::HolderGone, clock.now());
    assert_eq!(job.step(clock.now()), Step::Terminate);
    assert_eq!(job.stopped_for(), Some(StopReason::LeftBehind));
}

#[test]
fn a_watchdog_that_slept_past_everything_kills_at_once() {
    let clock = TestClock::new();
    let mut job = ten_minutes(&clock);
    clock.advance(700 * SECOND);
    assert_eq!(job.step(clock.now()), Step::Terminate);
    assert_eq!(job.stopped_for(), Some(StopReason::LeaseOver));
    assert_eq!(job.step(clock.now()), Step::Kill);
    // The kernel needs a moment to end what was killed.
    assert!(!job.is_hopeless(clock.now()));
    clock.advance(5 * SECOND);
    assert!(job.is_hopeless(clock.now()));
}

#[test]
fn an_extension_moves_the_deadline_until_the_job_is_asked_to_end() {
    let clock = TestClock::new();
    let start = clock.now();
    let mut job = ten_minutes(&clock);
    clock.advance(200 * SECOND);
    let extended = Plan::new(start.deadline(800 * SECOND), 600 * SECOND);
    job.extend(extended);
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(790 * SECOND))
    );
    clock.advance(590 * SECOND);
    assert_eq!(job.step(clock.now()), Step::Terminate);
    // A plan that was in flight in the meantime arrives too late.
    job.extend(Plan::new(start.deadline(1_400 * SECOND), 600 * SECOND));
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(799 * SECOND))
    );
    assert_eq!(job.stopped_for(), Some(StopReason::Deadline));
}

#[test]
fn an_extension_does_not_take_back_what_was_asked() {
    let clock = TestClock::new();
    let start = clock.now();
    let mut job = ten_minutes(&clock);
    job.stop(StopReason::LeftBehind, clock.now());
    job.extend(Plan::new(start.deadline(800 * SECOND), 600 * SECOND));
    assert_eq!(job.step(clock.now()), Step::Wait(start.deadline(SECOND)));
}

#[test]
fn the_longest_run_ends_a_job_whose_lease_goes_on() {
    let clock = TestClock::new();
    let start = clock.now();
    let plan = Plan::new(start.deadline(600 * SECOND), 600 * SECOND);
    let mut job = Supervision::new(plan.with_run_until(start.deadline(30 * SECOND)));
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(30 * SECOND))
    );
    let extended = Plan::new(start.deadline(800 * SECOND), 600 * SECOND);
    job.extend(extended.with_run_until(start.deadline(30 * SECOND)));
    clock.advance(30 * SECOND);
    assert_eq!(job.step(clock.now()), Step::Terminate);
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(40 * SECOND))
    );
    assert_eq!(job.stopped_for(), Some(StopReason::RanTooLong));
    // And never past the end of the lease.
    let plan = Plan::new(start.deadline(600 * SECOND), 600 * SECOND);
    let late = plan.with_run_until(start.deadline(599 * SECOND));
    assert_eq!(
        late.stop(),
        (start.deadline(590 * SECOND), StopReason::Deadline)
    );
    assert_eq!(late.kill_at(), plan.kill_at());
}

#[test]
fn a_lease_that_is_lost_ends_the_job_now() {
    let clock = TestClock::new();
    let mut job = ten_minutes(&clock);
    job.stop(StopReason::LeaseLost, clock.now());
    assert_eq!(job.step(clock.now()), Step::Terminate);
    assert_eq!(job.stopped_for(), Some(StopReason::LeaseLost));
}

#[test]
fn a_job_that_ignores_a_signal_is_killed_when_the_stop_grace_has_passed() {
    let clock = TestClock::new();
    let start = clock.now();
    let plan = Plan::new(start.deadline(600 * SECOND), 600 * SECOND).with_stop_grace(30 * SECOND);
    let mut job = Supervision::new(plan);
    job.asked_to_end(clock.now());
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(30 * SECOND))
    );
    // A further signal does not prolong it.
    clock.advance(20 * SECOND);
    job.asked_to_end(clock.now());
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(30 * SECOND))
    );
    clock.advance(10 * SECOND);
    assert_eq!(job.step(clock.now()), Step::Kill);
    assert!(matches!(job.step(clock.now()), Step::Wait(_)));
    assert_eq!(job.stopped_for(), Some(StopReason::IgnoredSignal));
}

#[test]
fn the_stop_grace_does_not_outlast_the_lease() {
    let clock = TestClock::new();
    let start = clock.now();
    let mut job = ten_minutes(&clock);
    clock.advance(585 * SECOND);
    job.asked_to_end(clock.now());
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(590 * SECOND))
    );
    clock.advance(5 * SECOND);
    assert_eq!(job.step(clock.now()), Step::Terminate);
    assert_eq!(
        job.step(clock.now()),
        Step::Wait(start.deadline(595 * SECOND))
    );
    assert_eq!(job.stopped_for(), Some(StopReason::Deadline));
    clock.advance(5 * SECOND);
    assert_eq!(job.step(clock.now()), Step::Kill);
    assert_eq!(job.stopped_for(), Some(StopReason::Deadline));
}

#[test]
fn a_second_signal_kills_at_once() {
    let clock = TestClock::new();
    let mut job = ten_minutes(&clock);
    job.asked_to_end(clock.now());
    clock.advance(SECOND);
    job.kill(StopReason::SecondSignal, clock.now());
    assert_eq!(job.step(clock.now()), Step::Kill);
    assert_eq!(job.stopped_for(), Some(StopReason::SecondSignal));
}

#[test]
fn a_jump_of_the_wall_clock_brings_all_deadlines_closer() {
    let clock = TestClock::new();
    let mut job = ten_minutes(&clock);
    clock.jump(580 * SECOND);
    assert!(matches!(job.step(clock.now()), Step::Wait(_)));
    clock.advance(10 * SECOND);
    assert_eq!(job.step(clock.now()), Step::Terminate);
    assert_eq!(job.stopped_for(), Some(StopReason::Deadline));
    clock.jump(20 * SECOND);
    assert_eq!(job.step(clock.now()), Step::Kill);
}

#[test]
fn a_plan_ends_in_the_watchdog_when_it_ends_in_run() {
    let clock = TestClock::new();
    let now = clock.now();
    let plan = Plan::new(now.deadline(60 * SECOND), 60 * SECOND)
        .with_run_until(now.deadline(90 * SECOND))
        .with_stop_grace(7 * SECOND);
    let text = serde_json::to_string(&plan.to_send(now)).unwrap();
    let sent: SentPlan = serde_json::from_str(&text).unwrap();
    assert_eq!(sent.aged(now, Duration::ZERO), plan);
    // It was under way for 3 s.
    clock.advance(3 * SECOND);
    assert_eq!(sent.aged(clock.now(), 3 * SECOND), plan);
    // It was made before this process saw a jump, and arrives after it.
    clock.jump(100 * SECOND);
    let late = sent.aged(clock.now(), 103 * SECOND);
    assert!(!late.has_time(clock.now()));
}

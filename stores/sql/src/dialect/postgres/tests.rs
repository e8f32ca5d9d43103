use std::time::Duration;

use super::statements::{FLUSHED, UNFLUSHED};
use super::*;
use crate::dialect::{End, Statements, Step};
use crate::options::Settings;
use shedlock_provider::TimeMode;

fn options(change: impl FnOnce(&mut Settings)) -> Options {
    let mut settings = Settings::default();
    change(&mut settings);
    POSTGRES.options(settings).expect("valid settings")
}

fn that_waits_for_its_disk() -> Shape {
    Shape {
        server: format!("15.1{WAITS_FOR_DISK}"),
        ..POSTGRES.assumed.clone()
    }
}

/// The steps whose statements contain this text.
fn steps_with(text: &str, statements: &Statements) -> Vec<Step> {
    let steps = Step::ALL.into_iter();
    let has = |step: &Step| {
        let statement = statements.get(*step);
        statement.is_some_and(|it| it.text().contains(text))
    };
    steps.filter(has).collect()
}

#[test]
fn only_what_gives_back_is_answered_before_it_is_on_the_disk() {
    let gives_back = [
        Step::Unlock(End::Nothing),
        Step::Unlock(End::Done { durable: false }),
        Step::Unlock(End::Failed),
        Step::Unlock(End::NotStarted),
        Step::Unlock(End::Cut),
        Step::Withdraw,
        Step::Settle,
    ];
    let hurried = POSTGRES.statements(&options(|_| {}), &that_waits_for_its_disk());
    assert_eq!(steps_with(UNFLUSHED, &hurried), gives_back);
}

#[test]
fn an_unlock_that_need_not_hurry_does_not() {
    let withdraws = [Step::Unlock(End::NotStarted), Step::Withdraw, Step::Settle];
    let plain = POSTGRES.statements(&options(|_| {}), &POSTGRES.assumed);
    assert_eq!(steps_with(UNFLUSHED, &plain), withdraws);
    let durable = options(|settings| settings.durable_unlock = true);
    let durable = POSTGRES.statements(&durable, &that_waits_for_its_disk());
    assert_eq!(steps_with(UNFLUSHED, &durable), withdraws);
}

#[test]
fn a_promise_waits_for_the_disk_whatever_the_session_is_set_to() {
    let is_promise = |step: &Step| {
        matches!(
            step,
            Step::Attempt(_)
                | Step::Insert(_)
                | Step::Extend
                | Step::Unlock(End::Done { durable: true })
                | Step::ResetSlot
                | Step::Pause
                | Step::Resume
        )
    };
    let promises: Vec<_> = Step::ALL.into_iter().filter(is_promise).collect();
    for shape in [that_waits_for_its_disk(), POSTGRES.assumed.clone()] {
        let statements = POSTGRES.statements(&options(|_| {}), &shape);
        assert_eq!(steps_with(FLUSHED, &statements), promises);
    }
    let durable = options(|settings| settings.durable_unlock = true);
    let durable = POSTGRES.statements(&durable, &POSTGRES.assumed);
    let flushed = steps_with(FLUSHED, &durable);
    let is_unlock = |step: &Step| matches!(step, Step::Unlock(end) if *end != End::NotStarted);
    let mut unlocks = Step::ALL.into_iter().filter(is_unlock);
    assert!(unlocks.all(|step| flushed.contains(&step)));
}

/// In a transaction that was left open, each write finds no record, and inserts none.
#[test]
fn every_write_over_a_users_pool_asks_whether_it_is_alone() {
    let mut options = options(|_| {});
    options.checks_itself = true;
    for exact in [true, false] {
        let mut shape = POSTGRES.assumed.clone();
        shape.name.exact = exact;
        let statements = POSTGRES.statements(&options, &shape);
        for step in Step::ALL.into_iter().filter(|step| step.writes()) {
            let text = statements[step].text();
            let asked = text.matches("now() = statement_timestamp()").count();
            assert_eq!(asked, 1, "{text}");
        }
    }
}

#[test]
fn the_clients_time_judges_leases_and_the_servers_only_what_is_too_late() {
    let options = options(|settings| {
        settings.time = TimeMode::Client {
            tolerated_skew: Duration::from_secs(1),
        };
    });
    let statements = POSTGRES.statements(&options, &POSTGRES.assumed);
    assert_eq!(steps_with("CURRENT_TIMESTAMP", &statements), []);
    let reads_the_clock =
        |step: &Step| step.claims() || matches!(step, Step::Read | Step::ReadToDecide);
    let expected: Vec<_> = Step::ALL.into_iter().filter(reads_the_clock).collect();
    assert_eq!(steps_with("clock_timestamp()", &statements), expected);
}

#[test]
fn what_a_crash_forgets_is_not_called_durable() {
    let mut shape = that_waits_for_its_disk();
    assert!(POSTGRES.is_durable(&shape) && POSTGRES.warnings(&options(|_| {}), &shape).is_empty());
    for fact in [FSYNC_OFF, UNLOGGED] {
        shape.server = format!("15.1{fact}");
        assert!(!POSTGRES.is_durable(&shape), "{fact}");
        assert_eq!(POSTGRES.warnings(&options(|_| {}), &shape).len(), 1);
    }
}

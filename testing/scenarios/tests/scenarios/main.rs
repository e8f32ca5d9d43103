//! The stories of `docs/scenarios.md`, with real processes on real PostgreSQL and MariaDB.
//!
//! Each test judges from the database and from the log that all its processes write to. None of
//! them counts on the machine to be quick: where a story is about time, and the machine was too
//! slow to tell it, it is told again with more time to get ready.
//!
//! `SHEDLOCK_SCENARIO_KILLS` says how many times a replica is killed in the story of the outbox, on
//! each store; unless set, 30 on PostgreSQL and 10 on MariaDB, 100 and 20 in a full run
//! (`SHEDLOCK_TEST_FULL`). `SHEDLOCK_SCENARIO_LOGS` names a folder that is to keep the logs.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod blue_and_green;
mod clocks;
mod common;
mod expiring_subscriptions;
mod judge;
mod outbox_mail;
mod slow_midnight;
mod swallowed_tick;

use common::Store;
use libtest_mimic::{Arguments, Trial};

/// Most of the time they wait; more of them at once than there are cores.
const AT_ONCE: usize = 4;

type Story = fn(Store);

fn main() {
    let stories: [(&str, Story); 13] = [
        ("outbox_mail::no_mail_is_lost", outbox_mail::no_mail_is_lost),
        (
            "outbox_mail::sending_does_not_outlive_the_lock",
            outbox_mail::sending_does_not_outlive_the_lock,
        ),
        (
            "expiring_subscriptions::nobody_is_lost_or_repeated",
            expiring_subscriptions::nobody_is_lost_or_repeated,
        ),
        (
            "blue_and_green::the_run_is_finished",
            blue_and_green::the_run_is_finished,
        ),
        (
            "blue_and_green::the_run_is_cut",
            blue_and_green::the_run_is_cut,
        ),
        (
            "blue_and_green::the_run_is_taken_over",
            blue_and_green::the_run_is_taken_over,
        ),
        (
            "swallowed_tick::without_slot_it_is_lost",
            swallowed_tick::without_slot_it_is_lost,
        ),
        (
            "swallowed_tick::with_slot_it_runs",
            swallowed_tick::with_slot_it_runs,
        ),
        (
            "slow_midnight::without_slot_two_runs",
            slow_midnight::without_slot_two_runs,
        ),
        (
            "slow_midnight::with_slot_one_run",
            slow_midnight::with_slot_one_run,
        ),
        (
            "clocks::without_slot_two_runs",
            clocks::without_slot_two_runs,
        ),
        (
            "clocks::a_clock_behind_is_one_run",
            clocks::a_clock_behind_is_one_run,
        ),
        (
            "clocks::a_clock_ahead_is_one_run",
            clocks::a_clock_ahead_is_one_run,
        ),
    ];
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let mut trials = vec![Trial::test("judge::finds_what_must_not_be", || {
        judge::finds_what_must_not_be();
        Ok(())
    })];
    // The longest first, and both stores' of it: they set how long the whole takes.
    for (name, story) in stories {
        for store in Store::wanted() {
            trials.push(Trial::test(
                format!("{name}::{}", store.name()),
                move || {
                    story(store);
                    Ok(())
                },
            ));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

//! The scenarios of `docs/scenarios.md`, with real processes on real PostgreSQL and MariaDB.
//!
//! Each test judges by the database and by the log that all its processes write to. No test relies
//! on a fast machine: if a scenario depends on time and the machine was too slow, it is repeated
//! with more time to get ready.
//!
//! `SHEDLOCK_SCENARIO_KILLS` sets how many times a replica is killed in the outbox scenario, on
//! each store. The default is 30 on PostgreSQL and 10 on MariaDB, and 100 and 20 in a full run
//! (`SHEDLOCK_TEST_FULL`). `SHEDLOCK_SCENARIO_LOGS` names a folder in which the logs are kept.

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

/// The scenarios mostly wait, so more of them run at once than there are cores.
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
            "expiring_subscriptions::no_user_is_lost_or_repeated",
            expiring_subscriptions::no_user_is_lost_or_repeated,
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
    // The longest scenario first, on both stores: it determines how long the whole run takes.
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

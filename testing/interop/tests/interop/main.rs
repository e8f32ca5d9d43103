//! Real ShedLock and this project contend for locks on real stores. `docs/interop.md` describes the
//! results, and its table is generated from the expectations here.
//!
//! `SHEDLOCK_INTEROP_TICKS` sets the number of ticks of the mixed fleet (default: 6).
//! `SHEDLOCK_BLESS=1` rewrites the table.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod cases;
mod cron;
mod document;
mod holding;
mod late;
mod mixed;
mod names;
mod pause;
mod prune;
mod slots;
mod times;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use cases::CASES;
use libtest_mimic::{Arguments, Failed, Trial};
use shedlock_interop::{Cell, Fleet, Fleets, Java};
use shedlock_rig::given;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// Longer than any case.
const LONG: Duration = Duration::from_secs(600);
/// A lease whose end a case waits for.
const SHORT: Duration = Duration::from_secs(2);

/// The cases wait nearly all of the time.
const AT_ONCE: usize = 48;

/// How many processes of ShedLock start at the same time. Each needs a processor; more of them
/// would only delay each other, some for too long.
const STARTING: usize = 3;

/// The environment variable that marks the process of ours that is killed.
const HOLD: &str = "SHEDLOCK_INTEROP_HOLD";

fn main() {
    let runtime = Arc::new(Runtime::new().unwrap());
    if let Ok(url) = std::env::var(HOLD) {
        runtime.block_on(times::hold_until_killed(&url)).unwrap();
    }
    given::needs("real ShedLock");
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let mut trials = vec![Trial::test(
        "the_document_says_what_is_expected_here",
        || document::check().map_err(Into::into),
    )];
    if Fleets::ALL.iter().any(|how| given::is_listed(how.store())) {
        let runtime = Arc::clone(&runtime);
        trials.push(Trial::test(
            "cron_differs_from_spring_as_documented",
            move || {
                runtime
                    .block_on(cron::differs_as_documented())
                    .map_err(|why| format!("{why:#}").into())
            },
        ));
    }
    for fleet in fleets(&runtime, &arguments) {
        let fleet = Arc::new(fleet);
        for case in CASES {
            let expected = case.cell(fleet.how);
            if expected == Cell::NotTried {
                continue;
            }
            let (runtime, fleet) = (Arc::clone(&runtime), Arc::clone(&fleet));
            let name = format!("{}::{}", fleet.how.name(), case.name);
            trials.push(Trial::test(name, move || {
                let holds = runtime.block_on((case.shows)(&fleet));
                judge(expected, holds)
            }));
        }
    }
    // The longest cases begin first, and the cases that need the second process of ShedLock come
    // after them.
    trials.sort_by_key(|trial| !trial.name().ends_with("::mixed_fleet"));
    libtest_mimic::run(&arguments, trials).exit();
}

/// A fault that no longer occurs makes the table as wrong as a new one does.
fn judge(expected: Cell, holds: anyhow::Result<bool>) -> Result<(), Failed> {
    match (expected, holds) {
        (Cell::Holds, Ok(true)) | (Cell::Fault(_), Ok(false)) => Ok(()),
        (Cell::Fault(number), Ok(true)) => {
            Err(format!("it holds: fault {number} of the table no longer occurs here").into())
        }
        (Cell::Lacks(_), Err(error)) if Java::lacks(&error) => Ok(()),
        (Cell::Lacks(number), Ok(_)) => {
            Err(format!("ShedLock has what it lacks according to {number} of the table").into())
        }
        (_, Err(error)) => Err(format!("{error:#}").into()),
        _ => Err("it does not hold".into()),
    }
}

/// The fleets of this run.
#[expect(clippy::print_stderr, reason = "what is not tested is printed")]
fn fleets(runtime: &Runtime, arguments: &Arguments) -> Vec<Fleet> {
    let is_wanted = |how: &Fleets| given::is_listed(how.store());
    if arguments.list {
        return Vec::new();
    }
    let starting = Arc::new(Semaphore::new(STARTING));
    let mut opening = Vec::new();
    for how in Fleets::ALL.into_iter().filter(is_wanted) {
        match how.server() {
            Some(server) => {
                let starting = Arc::clone(&starting);
                opening.push(runtime.spawn(async move {
                    let _starting = starting.acquire().await;
                    how.open(&server).await
                }));
            }
            None => eprintln!("NOT TESTED: {}: its server is unavailable", how.name()),
        }
    }
    opening
        .into_iter()
        .map(|fleet| runtime.block_on(fleet).unwrap().unwrap())
        .collect()
}

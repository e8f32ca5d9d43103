//! The command under torture: processes contend for a few locks of a real store with `shedlock run`. Some are killed with
//! -9, some stopped for longer than their lease, the wall clocks of some jump forward, connections are cut, and requests
//! arrive late. What their commands did is judged by the judge of all histories.
//!
//! `SHEDLOCK_TORTURE_SECONDS` sets how long. The random choices are repeated with the seed that each run prints.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod arena;
mod faults;
mod history;
mod job;
mod observer;
mod stores;

use job::Job;
use libtest_mimic::{Arguments, Trial};

fn main() {
    // The contenders' command is this program too.
    if let Some(job) = Job::of_environment() {
        return job.run();
    }
    let arguments = Arguments::from_args();
    let trials = stores::all()
        .into_iter()
        .map(|store| {
            Trial::test(format!("commands_on_{}", store.name()), move || {
                Ok(arena::fight(&store)?)
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

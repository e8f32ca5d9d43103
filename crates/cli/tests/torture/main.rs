//! Ten processes contend for one lock of a real store, and random holders are killed with -9. The commands never run at
//! once, and no lock stays taken for longer than allowed.
//!
//! `SHEDLOCK_TORTURE_ACQUISITIONS` sets how many times the lock is won. The default is 40, or 100 in a full run
//! (`SHEDLOCK_TEST_FULL`).

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod arena;
mod job;
mod stores;

use libtest_mimic::{Arguments, Trial};

fn main() {
    // The contenders' command is this program too.
    if job::is_wanted() {
        return job::run();
    }
    let arguments = Arguments::from_args();
    let trials = stores::all()
        .into_iter()
        .map(|store| {
            Trial::test(format!("ten_processes_on_{}", store.name()), move || {
                Ok(arena::fight(&store)?)
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

//! Ten processes fight for one lock of a real store, and random holders are killed with -9: the
//! commands never run at once, and no lock stays taken for longer than it may.
//!
//! `SHEDLOCK_TORTURE_ACQUISITIONS` says how many times the lock is won; unless set, 40, and 100 in a full
//! run (`SHEDLOCK_TEST_FULL`).

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod arena;
mod job;
mod stores;

use libtest_mimic::{Arguments, Trial};

fn main() {
    // The command that is fought for is this program too.
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

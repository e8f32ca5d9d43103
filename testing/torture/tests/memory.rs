//! A store that no other process reaches is not tortured, and its run says so.

#[path = "../../../crates/conformance/tests/memory/harness.rs"]
mod harness;

use std::process::ExitCode;

use shedlock_conformance::Runner;

fn main() -> ExitCode {
    shedlock_torture::tortured(Runner::new(harness::harnesses())).run()
}

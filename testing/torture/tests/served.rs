//! The torture over the kit's small store behind a socket, which finds every wrong protocol out.

#[path = "../../../crates/conformance/tests/served/harness.rs"]
mod harness;
#[path = "../../../crates/conformance/tests/served/wrappers.rs"]
mod wrappers;

use std::process::ExitCode;

use shedlock_conformance::Runner;

fn main() -> ExitCode {
    shedlock_torture::tortured(Runner::new(wrappers::harnesses())).run()
}

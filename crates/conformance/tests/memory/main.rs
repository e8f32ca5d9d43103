//! Runs the kit over the in-memory provider.

mod harness;

use std::process::ExitCode;

fn main() -> ExitCode {
    shedlock_conformance::main(harness::harnesses())
}

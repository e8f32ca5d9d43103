//! Runs the kit over a small store behind a socket, for the cases that need several processes and a
//! fault proxy. It is also an example of a harness with all optional actions. It runs once directly
//! and once behind each wrapper.

#[path = "harness.rs"]
mod harness;
mod wrappers;

use std::process::ExitCode;

fn main() -> ExitCode {
    shedlock_conformance::main(wrappers::harnesses())
}

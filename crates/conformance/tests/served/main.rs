//! The kit over a small store behind a socket: what several processes and a fault proxy need, and
//! an example of a harness with all powers. Once straight, and once behind each wrapper.

#[path = "harness.rs"]
mod harness;
mod wrappers;

use std::process::ExitCode;

fn main() -> ExitCode {
    shedlock_conformance::main(wrappers::harnesses())
}

//! A store that no other process can reach is not tortured, and its run reports so.

#[path = "../../../crates/conformance/tests/memory/harness.rs"]
mod harness;

use std::process::ExitCode;

use harness::Map;
use shedlock_conformance::Runner;
use shedlock_torture::{TortureNamespace, tortured};

impl TortureNamespace for Map {}

fn main() -> ExitCode {
    tortured::<Map>(Runner::new(harness::harnesses())).run()
}

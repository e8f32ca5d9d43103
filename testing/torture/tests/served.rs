//! Runs the torture over the kit's small store behind a socket; the judge must detect every wrong
//! protocol.

#[path = "../../../crates/conformance/tests/served/harness.rs"]
mod harness;
#[path = "../../../crates/conformance/tests/served/wrappers.rs"]
mod wrappers;

use std::net::SocketAddr;
use std::process::ExitCode;

use harness::Own;
use shedlock_conformance::Runner;
use shedlock_torture::{TortureNamespace, tortured, wrong_protocols};

impl TortureNamespace for Own {
    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        Some(addr.to_string())
    }
}

fn main() -> ExitCode {
    tortured::<Own>(Runner::new(wrappers::harnesses()))
        .cases(|harness| match harness.name() {
            "served" => Ok(wrong_protocols::<Own>()),
            _ => Ok(Vec::new()),
        })
        .run()
}

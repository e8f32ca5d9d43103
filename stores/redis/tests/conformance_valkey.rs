//! The laws over Valkey, where one can be had.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use common::own::program;
use kit::{Redis, Way};
use shedlock_conformance::Harness;

fn main() -> ExitCode {
    let server = common::server_if_any("SHEDLOCK_TEST_VALKEY");
    shedlock_conformance::main(server.map(|server| {
        Arc::new(Redis {
            name: "valkey",
            server,
            way: Way::Url,
            program: program("valkey-server"),
        }) as Arc<dyn Harness>
    }))
}

//! The laws over Valkey, where one can be had.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use kit::{Redis, Room, Way, race};
use shedlock_conformance::Harness;
use shedlock_conformance::support::program;

fn main() -> ExitCode {
    let Some(server) = common::server_if_any("SHEDLOCK_TEST_VALKEY") else {
        return shedlock_conformance::main([]);
    };
    let harness = Redis {
        name: "valkey",
        server: server.clone(),
        way: Way::Url,
        program: program("valkey-server"),
    };
    shedlock_torture::main_after::<Room>(race(&server), [Arc::new(harness) as Arc<dyn Harness>])
}

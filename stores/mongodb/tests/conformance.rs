//! The laws over the MongoDB emulator, or over the MongoDB that the environment names: with default
//! settings, by the clients' clocks, and inside a wrapper.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use kit::{Mongo, Room, Way, race};
use shedlock_conformance::{Harness, prefixed};

fn main() -> ExitCode {
    let server = common::server();
    let variant = |name, way| {
        Arc::new(Mongo {
            name,
            server: server.clone(),
            way,
        }) as Arc<dyn Harness>
    };
    let straight = variant("mongodb", Way::Plain);
    let harnesses = [
        Arc::new(prefixed(&straight)),
        straight,
        variant("mongodb-client-time", Way::ClientTime),
    ];
    shedlock_torture::main_after::<Room>(race(server), harnesses)
}

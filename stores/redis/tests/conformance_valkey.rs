//! The laws over Valkey, if it is available.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use kit::{Redis, Room, Way, race};
use shedlock_conformance::{Harness, Scope, Tag};
use shedlock_rig::host::find_program;

fn main() -> ExitCode {
    let Some(server) = common::server_if_any("valkey") else {
        return shedlock_conformance::main([]);
    };
    let harness = Redis {
        name: "valkey",
        server: server.clone(),
        way: Way::Url,
        program: find_program("valkey-server"),
        // The scripts and the client are the same. Only what depends on the server is tested, not
        // how scripts reach it.
        scope: Scope::About(&[
            Tag::Time,
            Tag::Fencing,
            Tag::Slots,
            Tag::Record,
            Tag::Declared,
        ]),
    };
    shedlock_torture::main_after::<Room>(race(&server), [Arc::new(harness) as Arc<dyn Harness>])
}

//! The laws over Valkey, where one can be had.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use kit::{Redis, Room, Way, race};
use shedlock_conformance::support::program;
use shedlock_conformance::{Harness, Scope, Tag};

fn main() -> ExitCode {
    let Some(server) = common::server_if_any("SHEDLOCK_TEST_VALKEY") else {
        return shedlock_conformance::main([]);
    };
    let harness = Redis {
        name: "valkey",
        server: server.clone(),
        way: Way::Url,
        program: program("valkey-server"),
        // The same scripts and client: what they do is the server's, how they come there is not.
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

//! The laws over Redis: from a URL, over the client's connection manager, and inside a wrapper.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use kit::{Redis, Room, Way, race};
use shedlock_conformance::{Harness, Scope, Tag, prefixed};
use shedlock_rig::host::find_program;

fn main() -> ExitCode {
    let server = common::server("redis");
    let variant = |name, way, scope| {
        Arc::new(Redis {
            name,
            server: server.clone(),
            way,
            program: find_program("redis-server"),
            scope,
        }) as Arc<dyn Harness>
    };
    let straight = variant("redis", Way::Url, Scope::Whole);
    let harnesses = [
        Arc::new(prefixed(&straight)),
        straight,
        // The same scripts on another kind of connection.
        variant(
            "redis-manager",
            Way::Manager,
            Scope::About(&[Tag::Connection]),
        ),
    ];
    shedlock_torture::main_after::<Room>(race(&server), harnesses)
}

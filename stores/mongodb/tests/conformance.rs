//! The laws over the MongoDB emulator, or over the MongoDB that the environment names: with default
//! settings, by the clients' clocks, and inside a wrapper.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use kit::{Mongo, Room, Way, race};
use shedlock_conformance::{Harness, Tag, wrapped};
use shedlock_core::{LockName, PrefixProvider};

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
    let prefixed = wrapped(Arc::clone(&straight), "mongodb-prefixed", |provider| {
        Ok(Arc::new(PrefixProvider::new(provider, "team:")?))
    })
    .with_names(|name| LockName::new(format!("team:{name}")))
    .about(&[Tag::Names, Tag::Record, Tag::Operators, Tag::Declared]);
    let harnesses = [
        straight,
        variant("mongodb-client-time", Way::ClientTime),
        Arc::new(prefixed),
    ];
    shedlock_torture::main_after::<Room>(race(server), harnesses)
}

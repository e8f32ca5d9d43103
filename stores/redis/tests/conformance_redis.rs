//! The laws over Redis: from a URL, over the client's connection manager, and behind a wrapper.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use kit::{Redis, Room, Way, race};
use shedlock_conformance::support::program;
use shedlock_conformance::{Harness, wrapped};
use shedlock_core::{LockName, PrefixProvider};

fn main() -> ExitCode {
    let server = common::server("SHEDLOCK_TEST_REDIS_URL");
    let variant = |name, way| {
        Arc::new(Redis {
            name,
            server: server.clone(),
            way,
            program: program("redis-server"),
        }) as Arc<dyn Harness>
    };
    let straight = variant("redis", Way::Url);
    let prefixed = wrapped(Arc::clone(&straight), "redis-prefixed", |provider| {
        Ok(Arc::new(PrefixProvider::new(provider, "team:")?))
    })
    .with_names(|name| LockName::new(format!("team:{name}")));
    let harnesses = [
        straight,
        variant("redis-manager", Way::Manager),
        Arc::new(prefixed),
    ];
    shedlock_torture::main_after::<Room>(race(&server), harnesses)
}

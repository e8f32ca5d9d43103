//! The laws over Redis: from a URL, over the client's connection manager, and behind a wrapper.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use common::own::program;
use kit::{Redis, Way};
use shedlock_conformance::Harness;

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
    shedlock_conformance::main([
        variant("redis", Way::Url),
        variant("redis-manager", Way::Manager),
    ])
}

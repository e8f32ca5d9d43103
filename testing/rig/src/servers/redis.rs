//! Redis and Valkey: the same server under two names.

use super::SERVER;
use crate::engine::{Definition, Extract, Found, Kind, Probe, Role, Source, probe};

pub(super) const REDIS: Kind = Kind(&DEFINITION);

/// Valkey, additionally.
pub(super) const VALKEY: Kind = Kind(&Definition {
    word: "valkey",
    title: "Valkey",
    role: Role::Beside("redis"),
    kit: ("shedlock-redis", "conformance_valkey"),
    source: Source::Extract(EXTRACT),
    find: || EXTRACT.installed_or_extracted("valkey-server"),
    probe: Probe::Tcp(probe::redis::info, |reply, at| {
        probe::redis::version(reply, at, true)
    }),
    ..DEFINITION
});

const DEFINITION: Definition = Definition {
    word: "redis",
    title: "Redis",
    kit: ("shedlock-redis", "conformance_redis"),
    source: Source::Packages(&["redis-server"]),
    find: || Ok(Found::installed("redis-server")),
    #[rustfmt::skip]
    command: &[
        "{program}", "--bind", "127.0.0.1", "--maxclients", "2000",
        // Its data is thrown away.
        "--save", "", "--appendonly", "no",
        "--dir", "{home}", "--port", "{port}", "{settings}",
    ],
    url: "redis://127.0.0.1:{port}",
    port: 6379,
    probe: Probe::Tcp(probe::redis::info, |reply, at| {
        probe::redis::version(reply, at, false)
    }),
    ..SERVER
};

const EXTRACT: Extract = Extract {
    program: "valkey-server",
    package: "valkey-server",
    suite: "sid",
    folder: "valkey-sid",
};

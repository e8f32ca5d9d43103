//! NATS with JetStream: the installed version, and newer ones, built from source with Go.

use super::SERVER;
use crate::engine::{Definition, Found, Go, Kind, Probe, Role, Source, probe};
use crate::host;
use std::path::PathBuf;

/// The version in Debian.
pub(super) const NATS: Kind = Kind(&DEFINITION);

/// Additionally 2.10, which can start buckets at a chosen sequence.
pub(super) const NATS_2_10: Kind = Kind(&Definition {
    word: "nats210",
    title: "NATS 2.10",
    role: Role::Version("nats"),
    source: Source::Go(&V2_10),
    find: || V2_10.find(),
    ..DEFINITION
});

/// Additionally 2.12, which writes several messages atomically.
pub(super) const NATS_2_12: Kind = Kind(&Definition {
    word: "nats212",
    title: "NATS 2.12",
    role: Role::Version("nats"),
    source: Source::Go(&V2_12),
    find: || V2_12.find(),
    ..DEFINITION
});

const V2_10: Go = of_version("2.10.27");
const V2_12: Go = of_version("2.12.15");

const fn of_version(version: &'static str) -> Go {
    Go {
        name: "NATS",
        module: "github.com/nats-io/nats-server/v2",
        program: "nats-server",
        version,
        oldest_go: "1.25",
    }
}

const DEFINITION: Definition = Definition {
    word: "nats",
    title: "NATS",
    kit: ("shedlock-nats", "conformance"),
    source: Source::Packages(&["nats-server"]),
    find: || {
        let debians = PathBuf::from("/usr/sbin/nats-server");
        let debians = host::is_program(&debians).then(|| Found::program(&debians));
        Ok(Found::installed("nats-server").or(debians))
    },
    #[rustfmt::skip]
    command: &[
        "{program}", "-a", "127.0.0.1", "-js", "-p", "{port}", "-sd", "{home}/data", "{settings}",
    ],
    url: "nats://127.0.0.1:{port}",
    port: 4222,
    probe: Probe::Tcp(|_| Vec::new(), probe::nats::version),
    ..SERVER
};

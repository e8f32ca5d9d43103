//! Consul, installed or extracted: a cluster of one that keeps its data on disk.

use super::SERVER;
use crate::engine::{Definition, Extract, Http, Kind, Probe, Source};
use rustix::process::Signal;

pub(super) const CONSUL: Kind = Kind(&Definition {
    word: "consul",
    title: "Consul",
    kit: ("shedlock-consul", "conformance"),
    source: Source::Extract(EXTRACT),
    find: || EXTRACT.installed_or_extracted("consul"),
    // The cluster ports cannot be disabled and must not change: a server that restarts looks for
    // itself at its previous address.
    more_ports: 2,
    // What is not on its command line.
    files: &[(
        "settings.json",
        "{\"ports\": {\"server\": {port2}, \"serf_lan\": {port3}, \"serf_wan\": -1, \"dns\": -1, \
         \"grpc\": -1}, \"performance\": {\"raft_multiplier\": 1}, \"leave_on_terminate\": false, \
         \"disable_update_check\": true, \"limits\": {\"http_max_conns_per_client\": 2000}}",
    )],
    #[rustfmt::skip]
    command: &[
        "{program}", "agent", "-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-client=127.0.0.1",
        "-log-level=warn", "-http-port={port}", "-data-dir={home}/data", "-config-file={home}/settings.json",
        "{settings}",
    ],
    url: "consul://127.0.0.1:{port}",
    port: 8500,
    probe: Probe::Http(Http {
        ready: ("/v1/status/leader", |reply| {
            reply.starts_with("HTTP/1.0 200") && !reply.ends_with("\"\"")
        }),
        not_ready: "its cluster has no leader",
        version: ("/v1/agent/self", "Version"),
    }),
    shutdown: Signal::INT,
    ..SERVER
});

/// From the last Debian that had it.
const EXTRACT: Extract = Extract {
    program: "consul",
    package: "consul",
    suite: "bullseye",
    folder: "consul-bullseye",
};

//! The installed etcd: a cluster of one.

use super::SERVER;
use crate::engine::{Definition, Found, Http, Kind, Probe, Source};

pub(super) const ETCD: Kind = Kind(&Definition {
    word: "etcd",
    title: "etcd",
    kit: ("shedlock-etcd", "conformance"),
    source: Source::Packages(&["etcd-server"]),
    find: || Ok(Found::installed("etcd")),
    #[rustfmt::skip]
    command: &[
        "{program}", "--data-dir", "{home}/data",
        "--listen-client-urls", "http://127.0.0.1:{port}", "--advertise-client-urls", "http://127.0.0.1:{port}",
        // This cluster has no other member, so any port will do.
        "--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", "http://127.0.0.1:0",
        "--initial-cluster", "default=http://127.0.0.1:0",
        // Half of the default: this allows leases of a second, and tests wait for them.
        "--heartbeat-interval", "50", "--election-timeout", "500", "{settings}",
    ],
    url: "etcd://127.0.0.1:{port}",
    port: 2379,
    probe: Probe::Http(Http {
        ready: ("/health", |reply| reply.contains("\"true\"")),
        not_ready: "it is not healthy",
        // That of the server, not of the cluster.
        version: ("/version", "etcdserver"),
    }),
    ..SERVER
});

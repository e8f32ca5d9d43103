//! The installed ZooKeeper, standalone.

use super::SERVER;
use crate::engine::{Definition, Found, Kind, Probe, Source, probe};
use std::path::Path;

/// The server without its service, and the Java that runs it.
pub(super) const ZOOKEEPER: Kind = Kind(&Definition {
    word: "zookeeper",
    title: "ZooKeeper",
    kit: ("shedlock-zookeeper", "conformance"),
    source: Source::Packages(&["libzookeeper-java", "default-jre-headless"]),
    find: || {
        let is_there = CLASS_PATH.split(':').all(|jar| Path::new(jar).is_file());
        Ok(Found::installed("java").filter(|_| is_there))
    },
    // Any number of clients from this one host, and sessions short enough for tests to outlive.
    files: &[(
        "zoo.cfg",
        "clientPort={port}\n\
         clientPortAddress=127.0.0.1\n\
         dataDir={home}/data\n\
         tickTime=1000\n\
         minSessionTimeout=1000\n\
         maxSessionTimeout=40000\n\
         maxClientCnxns=0\n\
         admin.enableServer=false\n",
    )],
    #[rustfmt::skip]
    command: &[
        "{program}", "-Xmx256m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "{settings}",
        "-cp", CLASS_PATH, "org.apache.zookeeper.server.quorum.QuorumPeerMain", "{home}/zoo.cfg",
    ],
    url: "zookeeper://127.0.0.1:{port}",
    port: 2181,
    probe: Probe::Tcp(|_| b"srvr".to_vec(), probe::zookeeper::version),
    ..SERVER
});

/// Debian's path of it, and of the library that writes its log.
const CLASS_PATH: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";

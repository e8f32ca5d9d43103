//! The servers, as data: what differs between them, one file each. [`crate::engine`] does the rest.

mod consul;
mod etcd;
mod mariadb;
mod mongodb;
mod mysql;
mod nats;
mod pgbouncer;
pub(crate) mod postgres;
mod redis;
mod zookeeper;

use crate::engine::{Definition, Ending, Kind, Probe, Role, Source};
use rustix::process::Signal;

impl Kind {
    /// All of them, in the order in which reports list them.
    pub const ALL: [Self; 14] = [
        postgres::POSTGRES,
        pgbouncer::PGBOUNCER,
        mariadb::MARIADB,
        mariadb::IN_ANOTHER_ZONE,
        mysql::MYSQL,
        redis::REDIS,
        redis::VALKEY,
        nats::NATS,
        nats::NATS_2_10,
        nats::NATS_2_12,
        zookeeper::ZOOKEEPER,
        etcd::ETCD,
        mongodb::MONGODB,
        consul::CONSUL,
    ];
}

/// What most servers have in common.
const SERVER: Definition = Definition {
    word: "",
    title: "",
    role: Role::Main,
    kit: ("", "conformance"),
    source: Source::Packages(&[]),
    advice: None,
    find: || Ok(None),
    user: None,
    before: None,
    more_ports: 0,
    prepare: &[],
    files: &[],
    command: &[],
    variables: &[],
    without_fsync: &[],
    url: "",
    port: 0,
    probe: Probe::Tcp(|_| Vec::new(), |_, _| Ok(String::new())),
    shown: "{}",
    ending: Ending::Kill,
    shutdown: Signal::TERM,
};

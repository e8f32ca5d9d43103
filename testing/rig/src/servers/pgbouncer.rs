//! PgBouncer in transaction pooling in front of our own PostgreSQL. Each transaction may use
//! another server connection, so session state and named statements are unreliable.

use super::SERVER;
use super::postgres::USER;
use crate::debian;
use crate::engine::{Definition, Found, Kind, Probe, Role, Source, probe};

pub(super) const PGBOUNCER: Kind = Kind(&Definition {
    word: "pgbouncer",
    title: "PgBouncer",
    role: Role::Beside("postgres"),
    kit: ("shedlock-sql", "conformance_postgres"),
    source: Source::Packages(&[PACKAGE]),
    advice: Some(|variable| {
        format!(
            "not installed, or PostgreSQL is not one of ours; on Debian `{}`, or set {variable}",
            debian::by_hand(&[PACKAGE])
        )
    }),
    find: || Ok(Found::installed(PACKAGE)),
    user: Some(USER),
    before: Some("postgres"),
    files: &[
        ("users", "\"postgres\" \"\"\n"),
        // Otherwise its default settings. A test changes some of them on its console.
        (
            "pgbouncer.ini",
            "[databases]\n\
             * = host=127.0.0.1 port={before} user=postgres\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir = {home}\n\
             auth_type = trust\n\
             auth_file = {home}/users\n\
             admin_users = postgres\n\
             pool_mode = transaction\n\
             default_pool_size = 10\n\
             max_client_conn = 1000\n",
        ),
    ],
    command: &["{program}", "{home}/pgbouncer.ini"],
    url: "postgres://postgres@127.0.0.1:{port}/postgres",
    port: 5432,
    probe: Probe::Tcp(probe::postgres::hello, probe::postgres::version),
    shown: "in front of {}",
    ..SERVER
});

/// The name of its `apt-get` package, and of its program.
const PACKAGE: &str = "pgbouncer";

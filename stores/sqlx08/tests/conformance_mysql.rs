//! The laws over MySQL, if it is available: from a URL, and over the application's pool. Tables and zones are the
//! statements', which `shedlock-sql` tests over sqlx 0.9.

extern crate shedlock_sqlx08 as shedlock_sqlx;

#[path = "common/client.rs"]
mod client;
#[path = "../../sql/tests/common/mod.rs"]
mod common;
#[path = "common/diesel.rs"]
mod diesel;
#[path = "../../sql/tests/common/left_open.rs"]
mod left_open;
#[allow(dead_code, reason = "sqlx 0.9 is tested with more variants")]
#[path = "../../sql/tests/mysql_kit/mod.rs"]
mod mysql_kit;

use std::process::ExitCode;

use mysql_kit::{Base, MySql, race};
use shedlock_conformance::Tag;

/// What depends on the client. MariaDB runs all cases.
const CLIENT: &[Tag] = &[
    Tag::Connection,
    Tag::Cost,
    Tag::Names,
    Tag::Processes,
    Tag::Time,
];

fn main() -> ExitCode {
    let Some(server) = common::server_if_any("mysql") else {
        return shedlock_conformance::main([]);
    };
    let variants = [
        MySql::new("mysql-sqlx08", &server).about(CLIENT),
        MySql::new("mysql-sqlx08-unprepared", &server)
            .options("prepared=false")
            .about(&[]),
        MySql::new("mysql-sqlx08-pool", &server)
            .pool_in("-03:00")
            .about(&[]),
        MySql::new("mysql-sqlx08-careless-pool", &server)
            .options("by=pool")
            .about(&[]),
    ];
    shedlock_torture::main_after::<Base>(race(&server), common::harnesses(variants))
}

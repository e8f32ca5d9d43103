//! The laws over MariaDB: from a URL, and over the application's pool. Tables and zones are the statements', which
//! `shedlock-sql` tests over sqlx 0.9.

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

fn main() -> ExitCode {
    let server = common::server("mariadb");
    let variants = [
        MySql::new("mariadb-sqlx08", &server),
        MySql::new("mariadb-sqlx08-unprepared", &server)
            .options("prepared=false")
            .about(&[]),
        MySql::new("mariadb-sqlx08-pool", &server)
            .pool_in("-03:00")
            .about(&[]),
        MySql::new("mariadb-sqlx08-careless-pool", &server)
            .options("by=pool")
            .about(&[]),
    ];
    shedlock_torture::main_after::<Base>(race(&server), common::harnesses(variants))
}

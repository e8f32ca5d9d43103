//! The laws over MySQL, if it is available.

#[path = "common/client.rs"]
mod client;
mod common;
#[path = "common/diesel.rs"]
mod diesel;
#[path = "common/left_open.rs"]
mod left_open;
mod mysql_kit;

use std::process::ExitCode;

use mysql_kit::{Base, race, variants};

fn main() -> ExitCode {
    let names = [
        "mysql",
        "mysql-as-shedlock-made-it",
        "mysql-whole-seconds",
        "mysql-datetime",
        "mysql-client-time",
        "mysql-unprepared",
        "mysql-pool-elsewhere",
        "mysql-shared-zone",
        "mysql-pool",
        "mysql-diesel-bb8",
        "mysql-diesel-deadpool",
        "mysql-diesel-mobc",
        "mysql-diesel-pool",
    ];
    let Some(server) = common::server_if_any("mysql") else {
        return shedlock_conformance::main([]);
    };
    shedlock_torture::main_after::<Base>(
        race(&server),
        common::harnesses(variants(&names, &server)),
    )
}

//! The laws over MariaDB, on a server in UTC and on one that starts its sessions at +05:30.

#[path = "common/client.rs"]
mod client;
mod common;
#[path = "common/diesel.rs"]
mod diesel;
#[path = "common/left_open.rs"]
mod left_open;
mod mysql_kit;

use std::process::ExitCode;

use mysql_kit::{Base, INSTANTS, MySql, SHEDLOCKS, race, variants};

fn main() -> ExitCode {
    let server = common::server("mariadb");
    let ahead = common::server("mariadb-tz");
    let names = [
        "mariadb",
        "mariadb-as-shedlock-made-it",
        "mariadb-whole-seconds",
        "mariadb-datetime",
        "mariadb-client-time",
        "mariadb-unprepared",
        "mariadb-pool-elsewhere",
        "mariadb-shared-zone",
        "mariadb-pool",
        "mariadb-diesel-bb8",
        "mariadb-diesel-deadpool",
        "mariadb-diesel-mobc",
        "mariadb-diesel-pool",
    ];
    let mut all = variants(&names, &server);
    all.push(
        MySql::new("mariadb-server-ahead", &ahead)
            .pool_in("SYSTEM")
            .about(INSTANTS),
    );
    all.push(
        MySql::new("mariadb-server-ahead-shared", &ahead)
            .table(SHEDLOCKS)
            .shared_with("SYSTEM")
            .about(INSTANTS),
    );
    shedlock_torture::main_after::<Base>(race(&server), common::harnesses(all))
}

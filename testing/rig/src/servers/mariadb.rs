//! The installed MariaDB.

use super::SERVER;
use crate::engine::{Definition, Found, Kind, Probe, Role, Source, probe};
use crate::host::find_program;

pub(super) const MARIADB: Kind = Kind(&DEFINITION);

/// The same in a time zone other than UTC, with an offset of half an hour, so that times that are
/// computed in the server's zone by mistake are wrong in every test.
pub(super) const IN_ANOTHER_ZONE: Kind = Kind(&Definition {
    word: "mariadb-tz",
    title: "MariaDB at +05:30",
    role: Role::Beside("mariadb"),
    find: || Ok(found()?.map(|found| found.with("zone", "--default-time-zone=+05:30"))),
    ..DEFINITION
});

const DEFINITION: Definition = Definition {
    word: "mariadb",
    title: "MariaDB",
    kit: ("shedlock-sql", "conformance_mariadb"),
    source: Source::Packages(&["mariadb-server"]),
    find: found,
    user: Some("mysql"),
    #[rustfmt::skip]
    prepare: &[
        "{installer}", "--no-defaults", "--auth-root-authentication-method=normal",
        "--skip-test-db", "--datadir={home}/data", "--tmpdir={home}",
    ],
    #[rustfmt::skip]
    command: &[
        "{program}", "--no-defaults", "--datadir={home}/data",
        // At startup it deletes the temporary tables of any server with the same directory.
        "--tmpdir={home}",
        "--socket={home}/s.sock", "--pid-file={home}/pid",
        "--bind-address=127.0.0.1", "--max-connections=300", "--port={port}", "{settings}", "{zone}",
    ],
    without_fsync: &["--innodb-flush-log-at-trx-commit=0"],
    url: "mysql://root@127.0.0.1:{port}/mysql",
    port: 3306,
    probe: Probe::Tcp(
        |_| Vec::new(),
        |reply, at| probe::mysql::version(reply, at, true),
    ),
    ..SERVER
};

fn found() -> anyhow::Result<Option<Found>> {
    let installers = ["mariadb-install-db", "mysql_install_db"];
    let installer = installers.into_iter().find_map(find_program);
    let found = Found::installed("mariadbd").zip(installer);
    Ok(found.map(|(found, installer)| found.with("installer", installer.display())))
}

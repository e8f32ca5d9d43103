//! The installed PostgreSQL: the newest in `/usr/lib/postgresql/*/bin`, or the one in `PATH`.

use super::SERVER;
use crate::engine::{Definition, Ending, Found, Kind, Probe, Source, probe};
use crate::host;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const POSTGRES: Kind = Kind(&Definition {
    word: "postgres",
    title: "PostgreSQL",
    kit: ("shedlock-sql", "conformance_postgres"),
    source: Source::Packages(&["postgresql"]),
    find: || Ok(bin().map(|bin| Found::default().with("bin", bin.display()))),
    user: Some(USER),
    #[rustfmt::skip]
    prepare: &[
        "{bin}/initdb", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync", "-D", "{home}/data",
    ],
    #[rustfmt::skip]
    command: &[
        "{bin}/postgres", "-D", "{home}/data", "-p", "{port}",
        "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300",
        "-c", "unix_socket_directories={home}", "{settings}",
    ],
    without_fsync: &["-c", "fsync=off"],
    url: "postgres://postgres@127.0.0.1:{port}/postgres",
    port: 5432,
    probe: Probe::Tcp(probe::postgres::hello, probe::postgres::version),
    ending: Ending::Quit,
    // "Fast": clients are disconnected, not waited for.
    shutdown: Signal::INT,
    ..SERVER
});

/// The superuser of our instances, and the user that PostgreSQL runs as if we are root.
pub(super) const USER: &str = "postgres";

/// The newest of Debian's folders, one per major version, otherwise the real location of the `postgres` in `PATH`: its
/// `initdb` need not be linked there.
pub(crate) fn bin() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut bins: Vec<(u32, PathBuf)> = folders
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    let by_path = host::find_program("postgres").and_then(|path| fs::canonicalize(path).ok());
    bins.extend(by_path.and_then(|path| Some((0, path.parent()?.to_owned()))));
    let has = |bin: &Path, name| host::is_program(&bin.join(name));
    bins.retain(|(_, bin)| has(bin, "postgres") && has(bin, "initdb"));
    bins.into_iter().max().map(|(_, bin)| bin)
}

//! MySQL itself, not MariaDB under its name: installed, or extracted from Debian sid.

use super::SERVER;
use crate::engine::{Definition, Extract, Found, Kind, Probe, Source, probe};
use crate::host;
use std::process::Command;

pub(super) const MYSQL: Kind = Kind(&Definition {
    word: "mysql",
    title: "MySQL",
    kit: ("shedlock-sql", "conformance_mysql"),
    source: Source::Extract(EXTRACT),
    find: || {
        // Its folder may be accessible only to root.
        let user = if host::is_root() { "--user=root" } else { "" };
        let found = installed().map_or_else(|| EXTRACT.find("usr/sbin/mysqld"), |it| Ok(Some(it)));
        Ok(found?.map(|found| found.with("as", user)))
    },
    #[rustfmt::skip]
    prepare: &[
        "{program}", "--no-defaults", BASE, CHARSETS, MESSAGES, PLUGINS,
        "--initialize-insecure", "--datadir={home}/data", "--tmpdir={home}", "--secure-file-priv=", "{as}", "{settings}",
    ],
    #[rustfmt::skip]
    command: &[
        "{program}", "--no-defaults", BASE, CHARSETS, MESSAGES, PLUGINS,
        "--datadir={home}/data", "--tmpdir={home}",
        "--socket={home}/s.sock", "--pid-file={home}/pid",
        "--secure-file-priv=", "--mysqlx=OFF", "--performance-schema=OFF",
        "--bind-address=127.0.0.1", "--max-connections=300", "--port={port}", "{as}", "{settings}",
    ],
    without_fsync: &["--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0"],
    url: "mysql://root@127.0.0.1:{port}/mysql",
    port: 3306,
    probe: Probe::Tcp(
        |_| Vec::new(),
        |reply, at| probe::mysql::version(reply, at, false),
    ),
    ..SERVER
});

const EXTRACT: Extract = Extract {
    program: "mysqld 8 or later",
    package: "mysql-server-core",
    suite: "sid",
    folder: "mysql-sid",
};

// The folders of an extracted one.
const BASE: &str = "--basedir={root}/usr";
const CHARSETS: &str = "--character-sets-dir={root}/usr/share/mysql/charsets";
const MESSAGES: &str = "--lc-messages-dir={root}/usr/share/mysql";
const PLUGINS: &str = "--plugin-dir={root}/usr/lib/mysql/plugin";

/// A `mysqld` that is not MariaDB under the old name.
fn installed() -> Option<Found> {
    let daemon = host::find_program("mysqld")?;
    let said = host::output(Command::new(&daemon).args(["--no-defaults", "--version"])).ok()?;
    (!said.contains("MariaDB")).then(|| Found::default().with("program", daemon.display()))
}

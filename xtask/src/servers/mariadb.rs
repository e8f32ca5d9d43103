//! The installed MariaDB.

use super::instance::{Server, boxed};
use super::kind::{Address, Definition, Kind, Role, Source};
use super::probe;
use super::profile::{Durability, Profile};
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use anyhow::ensure;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How to obtain, find and probe it.
pub(super) const KIND: Kind = Kind(&Definition {
    word: "mariadb",
    title: "MariaDB",
    role: Role::Main,
    kit: ("shedlock-sql", "conformance_mariadb"),
    source: Source::Packages(&["mariadb-server"]),
    advice: None,
    find: |profile| Ok(Mariadb::find(profile)?.map(boxed)),
    port: 3306,
    version_at: |at| version_at(at, true),
});

/// The same in a time zone other than UTC.
pub(super) const KIND_IN_ANOTHER_ZONE: Kind = Kind(&Definition {
    word: "mariadb-tz",
    title: "MariaDB at +05:30",
    role: Role::Beside("mariadb"),
    kit: ("shedlock-sql", "conformance_mariadb"),
    source: Source::Packages(&["mariadb-server"]),
    advice: None,
    find: |profile| {
        let found = Mariadb::find(profile)?;
        Ok(found.map(Mariadb::in_another_zone).map(boxed))
    },
    port: 3306,
    version_at: |at| version_at(at, true),
});

/// The user that it runs as if we are root.
const USER: &str = "mysql";

/// An installed MariaDB.
pub(crate) struct Mariadb {
    name: &'static str,
    daemon: PathBuf,
    installer: PathBuf,
    account: Option<Account>,
    settings: Vec<String>,
}

impl Mariadb {
    /// The installed one, if any.
    pub(crate) fn find(profile: &Profile) -> anyhow::Result<Option<Self>> {
        let daemon = host::find_program("mariadbd");
        let installer = ["mariadb-install-db", "mysql_install_db"]
            .into_iter()
            .find_map(host::find_program);
        let (Some(daemon), Some(installer)) = (daemon, installer) else {
            return Ok(None);
        };
        let mut settings = Vec::new();
        if profile.durability == Durability::Off {
            settings.push("--innodb-flush-log-at-trx-commit=0".to_owned());
        }
        settings.extend(profile.extra_args.iter().cloned());
        let account = Account::for_server(USER)?;
        Ok(Some(Self {
            name: "mariadb",
            daemon,
            installer,
            account,
            settings,
        }))
    }

    /// The same in a time zone other than UTC, with an offset of half an hour, so that times that
    /// are computed in the server's zone by mistake are wrong in every test.
    pub(crate) fn in_another_zone(self) -> Self {
        let mut settings = self.settings;
        settings.push("--default-time-zone=+05:30".to_owned());
        Self {
            name: "mariadb-tz",
            settings,
            ..self
        }
    }
}

impl Server for Mariadb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn account(&self) -> Option<Account> {
        self.account
    }

    fn init(&self, run: &RunDir, home: &Path) -> anyhow::Result<()> {
        let mut install = Command::new(&self.installer);
        install
            .args(["--no-defaults", "--auth-root-authentication-method=normal"])
            .arg("--skip-test-db")
            .arg(option("datadir", &home.join("data")))
            .arg(option("tmpdir", home))
            .current_dir(home);
        if let Some(account) = self.account {
            account.apply(&mut install);
        }
        let name = format!("{}-init", self.name);
        run.complete(&name, &home.with_extension("init.log"), &mut install)
    }

    fn command(&self, home: &Path, port: u16) -> Command {
        let mut command = Command::new(&self.daemon);
        command
            .arg("--no-defaults")
            .arg(option("datadir", &home.join("data")))
            // At startup it deletes the temporary tables of any server with the same directory.
            .arg(option("tmpdir", home))
            .arg(option("socket", &home.join("s.sock")))
            .arg(option("pid-file", &home.join("pid")))
            .args(["--bind-address=127.0.0.1", "--max-connections=300"])
            .arg(format!("--port={port}"))
            .args(&self.settings);
        command
    }

    fn url(&self, port: u16) -> String {
        format!("mysql://root@127.0.0.1:{port}/mysql")
    }

    fn probe(&self, port: u16) -> anyhow::Result<String> {
        probe::mysql("127.0.0.1", port)
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

/// An option with a path, in the syntax of MySQL and MariaDB.
pub(crate) fn option(name: &str, value: &Path) -> String {
    format!("--{name}={}", value.display())
}

/// The version of the MariaDB, or otherwise of the MySQL, at this address.
pub(super) fn version_at(at: &Address<'_>, is_mariadb: bool) -> anyhow::Result<String> {
    let version = probe::mysql(at.host, at.port)?;
    ensure!(
        version.contains("MariaDB") == is_mariadb,
        "the server there is {version}, not {}",
        if is_mariadb { "MariaDB" } else { "MySQL" }
    );
    Ok(version)
}

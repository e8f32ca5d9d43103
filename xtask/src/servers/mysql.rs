//! MySQL itself, not MariaDB under its name: installed, or extracted from Debian sid into our own
//! folder.

use super::instance::{Server, boxed};
use super::kind::{Definition, Kind, Role, Source};
use super::mariadb::{option, version_at};
use super::probe;
use super::profile::{Durability, Profile};
use super::run_dir::{Ending, RunDir};
use super::sid::{Extract, Extracted};
use crate::host::{self, Account};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How to obtain, find and probe it.
pub(super) const KIND: Kind = Kind(&Definition {
    word: "mysql",
    title: "MySQL",
    role: Role::Main,
    kit: ("shedlock-sql", "conformance_mysql"),
    source: Source::Extract(EXTRACT),
    advice: None,
    find: |profile| Ok(Mysql::find(profile)?.map(boxed)),
    port: 3306,
    version_at: |at| version_at(at, false),
});

const EXTRACT: Extract = Extract {
    name: "MySQL",
    program: "mysqld 8 or later",
    package: "mysql-server-core",
    suite: "sid",
    folder: "mysql-sid",
};

/// An installed MySQL.
pub(crate) struct Mysql {
    program: Program,
    settings: Vec<String>,
}

/// How `mysqld` is started.
enum Program {
    /// As the system installed it.
    Installed(PathBuf),
    /// From a folder with a complete system, with that system's loader.
    Extracted(Extracted),
}

impl Mysql {
    /// The installed one, otherwise the extracted one, if any.
    fn find(profile: &Profile) -> anyhow::Result<Option<Self>> {
        let root = EXTRACT.root()?;
        let Some(program) = installed()
            .or_else(|| Extracted::find(&root, "usr/sbin/mysqld").map(Program::Extracted))
        else {
            return Ok(None);
        };
        let mut settings = Vec::new();
        if host::is_root() {
            // Its folder may be accessible only to root.
            settings.push("--user=root".to_owned());
        }
        if profile.durability == Durability::Off {
            settings.push("--innodb-flush-log-at-trx-commit=0".to_owned());
            settings.push("--sync-binlog=0".to_owned());
        }
        settings.extend(profile.extra_args.iter().cloned());
        Ok(Some(Self { program, settings }))
    }

    fn mysqld(&self) -> Command {
        match &self.program {
            Program::Installed(daemon) => {
                let mut command = Command::new(daemon);
                command.arg("--no-defaults");
                command
            }
            Program::Extracted(extracted) => {
                let root = extracted.root();
                let share = root.join("usr/share/mysql");
                let mut command = extracted.command();
                command
                    .arg("--no-defaults")
                    .arg(option("basedir", &root.join("usr")))
                    .arg(option("character-sets-dir", &share.join("charsets")))
                    .arg(option("lc-messages-dir", &share))
                    .arg(option("plugin-dir", &root.join("usr/lib/mysql/plugin")));
                command
            }
        }
    }
}

impl Server for Mysql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn account(&self) -> Option<Account> {
        None
    }

    fn init(&self, run: &RunDir, home: &Path) -> anyhow::Result<()> {
        let mut initialize = self.mysqld();
        initialize
            .arg("--initialize-insecure")
            .arg(option("datadir", &home.join("data")))
            .arg(option("tmpdir", home))
            .arg("--secure-file-priv=")
            .args(&self.settings)
            .current_dir(home);
        run.complete(
            "mysql-init",
            &home.with_extension("init.log"),
            &mut initialize,
        )
    }

    fn command(&self, home: &Path, port: u16) -> Command {
        let mut command = self.mysqld();
        command
            .arg(option("datadir", &home.join("data")))
            .arg(option("tmpdir", home))
            .arg(option("socket", &home.join("s.sock")))
            .arg(option("pid-file", &home.join("pid")))
            .args([
                "--secure-file-priv=",
                "--mysqlx=OFF",
                "--performance-schema=OFF",
            ])
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

/// A `mysqld` that is not MariaDB under the old name.
fn installed() -> Option<Program> {
    let daemon = host::find_program("mysqld")?;
    let said = host::output(Command::new(&daemon).args(["--no-defaults", "--version"])).ok()?;
    (!said.contains("MariaDB")).then_some(Program::Installed(daemon))
}

//! The installed PostgreSQL: the newest in `/usr/lib/postgresql/*/bin`, or the one in `PATH`.

use super::instance::{Server, boxed};
use super::kind::{Address, Definition, Kind, Role, Source};
use super::probe;
use super::profile::{Durability, Profile};
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use anyhow::ensure;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How to obtain, find and probe it.
pub(super) const KIND: Kind = Kind(&Definition {
    word: "postgres",
    title: "PostgreSQL",
    role: Role::Main,
    kit: ("shedlock-sql", "conformance_postgres"),
    source: Source::Packages(&["postgresql"]),
    advice: None,
    find: |profile| Ok(Postgres::find(profile)?.map(boxed)),
    port: 5432,
    version_at,
});

/// The superuser of our instances, and the user that PostgreSQL runs as if we are root.
pub(crate) const USER: &str = "postgres";

/// An installed PostgreSQL.
pub(crate) struct Postgres {
    bin: PathBuf,
    account: Option<Account>,
    settings: Vec<String>,
}

impl Postgres {
    /// The newest installed one, if any.
    pub(crate) fn find(profile: &Profile) -> anyhow::Result<Option<Self>> {
        let Some(bin) = newest_bin().or_else(bin_by_path) else {
            return Ok(None);
        };
        let mut settings = Vec::new();
        if profile.durability == Durability::Off {
            settings.extend(["-c", "fsync=off"].map(str::to_owned));
        }
        settings.extend(profile.extra_args.iter().cloned());
        Ok(Some(Self {
            bin,
            account: Account::for_server(USER)?,
            settings,
        }))
    }
}

impl Server for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn account(&self) -> Option<Account> {
        self.account
    }

    fn init(&self, run: &RunDir, home: &Path) -> anyhow::Result<()> {
        let mut initdb = Command::new(self.bin.join("initdb"));
        initdb
            .args([
                "-A",
                "trust",
                "-U",
                USER,
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
                "-D",
            ])
            .arg(home.join("data"))
            .current_dir(home);
        if let Some(account) = self.account {
            account.apply(&mut initdb);
        }
        run.complete(
            "postgres-init",
            &home.with_extension("init.log"),
            &mut initdb,
        )
    }

    fn command(&self, home: &Path, port: u16) -> Command {
        let mut command = Command::new(self.bin.join("postgres"));
        command
            .arg("-D")
            .arg(home.join("data"))
            .args(["-p", &port.to_string()])
            .args([
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "max_connections=300",
                "-c",
            ])
            .arg(format!("unix_socket_directories={}", home.display()))
            .args(&self.settings);
        command
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://{USER}@127.0.0.1:{port}/postgres")
    }

    fn probe(&self, port: u16) -> anyhow::Result<String> {
        probe::postgres("127.0.0.1", port, USER, "postgres")
    }

    fn ending(&self) -> Ending {
        Ending::Quit
    }

    fn shutdown(&self) -> Signal {
        // "Fast": clients are disconnected, not waited for.
        Signal::INT
    }
}

/// Debian's folders, one per major version.
fn newest_bin() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    versions
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let bin = entry.path().join("bin");
            is_complete(&bin).then_some((version, bin))
        })
        .max()
        .map(|(_, bin)| bin)
}

/// The real location of the `postgres` in `PATH`: its `initdb` need not be linked there.
fn bin_by_path() -> Option<PathBuf> {
    let program = fs::canonicalize(host::find_program("postgres")?).ok()?;
    let bin = program.parent()?.to_owned();
    is_complete(&bin).then_some(bin)
}

fn is_complete(bin: &Path) -> bool {
    ["postgres", "initdb"]
        .iter()
        .all(|name| host::is_program(&bin.join(name)))
}

/// The version of the PostgreSQL, or of a proxy in front of one, at this address.
pub(super) fn version_at(at: &Address<'_>) -> anyhow::Result<String> {
    let user = at.url.username();
    let database = Some(at.url.path().trim_start_matches('/')).filter(|name| !name.is_empty());
    probe::postgres(at.host, at.port, user, database.unwrap_or(user)).or_else(|error| {
        // Our probe has no passwords; the tests do.
        let locked = error.to_string().contains("password");
        ensure!(locked, error);
        Ok("version not reported without a password".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_url_where_nothing_serves_is_refused() {
        let port = super::super::port::free().unwrap();
        let url = format!("postgres://u@127.0.0.1:{port}/d");
        let said = format!("{:#}", KIND.version_at(&url).unwrap_err());
        assert!(said.contains("nothing answers"), "{said}");
        assert!(KIND.version_at("nonsense").is_err());
    }
}

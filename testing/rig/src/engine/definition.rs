//! What a server is, in data.

use super::Probe;
use super::probe::Address;
use super::run_dir::Ending;
use super::source::{Extract, Go, Pip};
use super::words::Words;
use crate::debian;
use crate::given;
use crate::host::{self, Account};
use anyhow::Context as _;
use rustix::process::Signal;
use std::fmt;
use std::path::Path;
use url::Url;

/// A server for tests. [`Kind::ALL`] lists them.
#[derive(Clone, Copy)]
pub struct Kind(pub(crate) &'static Definition);

/// What differs between servers.
///
/// In texts, `{home}`, `{port}`, `{settings}` and what [`Found`] holds are replaced. An argument
/// is left out if one of its placeholders has no value.
pub(crate) struct Definition {
    /// The word for it on command lines, in folder names and, in capitals, in names of variables.
    pub(crate) word: &'static str,
    /// The word for it in messages.
    pub(crate) title: &'static str,
    /// Its purpose.
    pub(crate) role: Role,
    /// The package and test target in which the conformance kit runs on it.
    pub(crate) kit: (&'static str, &'static str),
    /// Where it comes from if it is missing.
    pub(crate) source: Source,
    /// Instructions for obtaining it by hand, given the variable of its URL, if they differ from those of its source.
    pub(crate) advice: Option<fn(&str) -> String>,
    /// Finds its program.
    pub(crate) find: fn() -> anyhow::Result<Option<Found>>,
    /// The user that it runs as if we are root, if it refuses to run as root.
    pub(crate) user: Option<&'static str>,
    /// The server of ours that it needs, whose port is `{before}`.
    pub(crate) before: Option<&'static str>,
    /// How many ports it needs in addition to the one of its clients: `{port2}` and so on. They never change.
    pub(crate) more_ports: u16,
    /// The command that fills its empty folder. None if this is empty.
    pub(crate) prepare: &'static [&'static str],
    /// Files in its folder: their names and texts.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// The command that serves what is in its folder, in the foreground.
    pub(crate) command: &'static [&'static str],
    /// Variables of that command.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// The first settings if a commit need not be on disk before it is answered.
    pub(crate) without_fsync: &'static [&'static str],
    /// The URL for clients.
    pub(crate) url: &'static str,
    /// The port for URLs that name none.
    pub(crate) port: u16,
    /// How to query its version, once it serves.
    pub(crate) probe: Probe,
    /// How the version of one of ours is shown.
    pub(crate) shown: &'static str,
    /// How it ends when its data is no longer needed.
    pub(crate) ending: Ending,
    /// The signal that shuts it down in order, disconnecting its clients.
    pub(crate) shutdown: Signal,
}

/// The purpose of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The store of this name is tested on it.
    Main,
    /// The full test of this store also uses it, but can do without.
    Beside(&'static str),
    /// The full test of this store also uses it, and it can be requested alone.
    Version(&'static str),
}

/// Where a server comes from.
pub(crate) enum Source {
    /// Packages of Debian.
    Packages(&'static [&'static str]),
    /// A folder of ours, extracted from a Debian release that has it.
    Extract(Extract),
    /// A build with Go.
    Go(&'static Go),
    /// A folder of ours with Python packages.
    Pip(&'static Pip),
}

/// The program of a server, as words that replace `{program}` and other placeholders.
#[derive(Clone, Default)]
pub(crate) struct Found(pub(crate) Words);

impl Found {
    /// This program.
    pub(crate) fn program(path: &Path) -> Self {
        Self::default().with("program", path.display())
    }

    /// The installed program of this name, if any.
    pub(crate) fn installed(name: &str) -> Option<Self> {
        host::find_program(name).map(|path| Self::program(&path))
    }

    /// The same with one more word, unless it is empty.
    pub(crate) fn with(mut self, name: &str, word: impl fmt::Display) -> Self {
        self.0.set(name, word);
        self
    }
}

impl Definition {
    /// The account that it must run as, if not the current one.
    pub(crate) fn account(&self) -> anyhow::Result<Option<Account>> {
        Ok(self.user.map(Account::for_server).transpose()?.flatten())
    }
}

impl Kind {
    /// The server of this name.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The word for it on command lines.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.0.word
    }

    /// The word for it in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.title
    }

    /// Its purpose.
    #[must_use]
    pub fn role(self) -> Role {
        self.0.role
    }

    /// The variable that contains `unavailable` if there is none.
    #[must_use]
    pub fn variable(self) -> String {
        given::variable(self.0.word)
    }

    /// The variable that contains its URL.
    #[must_use]
    pub fn url_variable(self) -> String {
        given::url_variable(self.0.word)
    }

    /// The package and test target in which the conformance kit runs on it.
    #[must_use]
    pub fn kit(self) -> (&'static str, &'static str) {
        self.0.kit
    }

    /// Why it is missing and how to get it.
    pub(crate) fn what_to_do(self) -> String {
        let variable = self.url_variable();
        if let Some(advice) = self.0.advice {
            return advice(&variable);
        }
        let compose = self.compose();
        match &self.0.source {
            Source::Packages(packages) => format!(
                "not installed; on Debian `{}`, elsewhere install it so that its programs are in \
                 PATH, or run `{compose}` and set {variable} as that file says",
                debian::by_hand(packages)
            ),
            Source::Extract(extract) => format!(
                "not installed; install {}, or run `{compose}` and set {variable} as that file says \
                 (on Debian, root gets it automatically if the registry has it)",
                extract.program
            ),
            Source::Go(build) => build.what_to_do(&compose, &variable),
            Source::Pip(_) => {
                format!("not installed; run `{compose}` and set {variable} as that file says")
            }
        }
    }

    /// The command that starts it on a machine without Debian.
    #[must_use]
    pub fn compose(self) -> String {
        let (package, _) = self.0.kit;
        let folder = package.strip_prefix("shedlock-").unwrap_or(package);
        format!("docker compose -f stores/{folder}/compose.yaml up --wait")
    }

    /// The version that the server at a user's URL reports.
    ///
    /// # Errors
    /// If nothing serves there.
    pub fn version_at(self, url: &str) -> anyhow::Result<String> {
        let url = Url::parse(url).context("the URL cannot be read")?;
        let host = url.host_str().context("the URL names no host")?;
        self.0.probe.version(&Address {
            host: host.trim_matches(['[', ']']),
            port: url.port().unwrap_or(self.0.port),
            url: &url,
            is_ours: false,
        })
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.0.word == other.0.word
    }
}

impl Eq for Kind {}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PgBouncer is only used in front of our own PostgreSQL.
    #[test]
    fn a_server_that_cannot_be_installed_is_in_the_compose_file_of_its_store() {
        for kind in Kind::ALL.into_iter().filter(|it| it.word() != "pgbouncer") {
            let command = kind.compose();
            let file = command.split(' ').find(|word| word.starts_with("stores/"));
            let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(file.unwrap());
            let text = std::fs::read_to_string(&file).unwrap();
            let export = format!("export {}=", kind.url_variable());
            assert!(text.contains(&export), "{}: {export}", file.display());
        }
    }

    #[test]
    fn variables_are_the_ones_that_tests_read() {
        let variable = |name| Kind::of(name).unwrap().url_variable();
        assert_eq!(variable("mariadb-tz"), "SHEDLOCK_TEST_MARIADB_TZ_URL");
        assert_eq!(Kind::of("mysql").unwrap().variable(), "SHEDLOCK_TEST_MYSQL");
    }

    #[test]
    fn a_given_url_where_nothing_serves_is_refused() {
        let port = crate::port::free().unwrap();
        let url = format!("postgres://u@127.0.0.1:{port}/d");
        let postgres = Kind::of("postgres").unwrap();
        let said = format!("{:#}", postgres.version_at(&url).unwrap_err());
        assert!(said.contains("nothing answers"), "{said}");
        assert!(postgres.version_at("nonsense").is_err());
    }
}

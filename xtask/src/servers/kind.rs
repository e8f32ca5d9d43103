//! The places where locks can be kept, and the servers for their tests.

use super::instance::Server;
use super::profile::Profile;
use super::{debian, nats, sid};
use anyhow::Context as _;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use shedlock::__stores::STORES;
use std::fmt;
use std::sync::LazyLock;
use url::Url;

/// A place where locks can be kept: each server of each store in the registry, and the stores without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Store(&'static str);

/// A server for tests. [`Kind::ALL`] lists them.
#[derive(Clone, Copy)]
pub(crate) struct Kind(pub(super) &'static Definition);

/// What differs between servers. Each is defined in the server's file.
pub(crate) struct Definition {
    /// The word for it on command lines and, in capitals, in names of variables.
    pub(super) word: &'static str,
    /// The word for it in messages.
    pub(super) title: &'static str,
    /// Its purpose.
    pub(super) role: Role,
    /// The package and test target in which the conformance kit runs on it.
    pub(super) kit: (&'static str, &'static str),
    /// Where it comes from if it is missing.
    pub(super) source: Source,
    /// Instructions for obtaining it by hand, given the variable of its URL, if they differ from those of its source.
    pub(super) advice: Option<fn(&str) -> String>,
    /// Finds its program.
    pub(super) find: Find,
    /// The port for URLs that name none.
    pub(super) port: u16,
    /// The version of the server at an address.
    pub(super) version_at: fn(&Address<'_>) -> anyhow::Result<String>,
}

/// The purpose of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
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
    Extract(sid::Extract),
    /// A build with Go.
    Go(&'static nats::Version),
    /// Packages of Debian, followed by an additional step.
    Made(&'static [&'static str], Step),
}

/// Finds a server's program.
pub(crate) type Find = fn(&Profile) -> anyhow::Result<Option<Box<dyn Server>>>;

/// Creates a server from installed packages.
pub(crate) type Step = fn() -> anyhow::Result<()>;

/// The address of a given server.
pub(crate) struct Address<'a> {
    pub(super) url: &'a Url,
    pub(super) host: &'a str,
    pub(super) port: u16,
}

static ALL: LazyLock<Vec<Store>> = LazyLock::new(|| {
    let names = STORES.iter().flat_map(|entry| match entry.servers {
        [] => vec![entry.name],
        servers => servers.to_vec(),
    });
    names.map(Store).collect()
});

static NAMED: LazyLock<Vec<Store>> = LazyLock::new(|| {
    let versions = Kind::ALL.into_iter();
    let versions = versions.filter(|kind| matches!(kind.0.role, Role::Version(_)));
    let versions = versions.map(|kind| Store(kind.0.word));
    Store::all().iter().copied().chain(versions).collect()
});

impl Store {
    pub(crate) const POSTGRES: Self = Self("postgres");
    pub(crate) const MARIADB: Self = Self("mariadb");
    pub(crate) const MYSQL: Self = Self("mysql");
    pub(crate) const REDIS: Self = Self("redis");
    pub(crate) const ZOOKEEPER: Self = Self("zookeeper");
    pub(crate) const MONGODB: Self = Self("mongodb");
    pub(crate) const SQLITE: Self = Self("sqlite");

    /// All of them, in the order of the registry, without those that are only a version of another.
    pub(crate) fn all() -> &'static [Self] {
        &ALL
    }

    /// The word for it on the command line and in `SHEDLOCK_TEST_STORES`.
    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    /// Its server, if it has one.
    pub(crate) fn kind(self) -> Option<Kind> {
        let mut kinds = Kind::ALL.into_iter();
        kinds.find(|kind| kind.0.word == self.0 && !matches!(kind.0.role, Role::Beside(_)))
    }

    pub(crate) fn kinds(self, companions: bool) -> Vec<Kind> {
        let beside = Kind::ALL.into_iter().filter(|kind| match kind.0.role {
            Role::Main => false,
            Role::Beside(store) | Role::Version(store) => companions && store == self.0,
        });
        self.kind().into_iter().chain(beside).collect()
    }
}

impl ValueEnum for Store {
    fn value_variants<'a>() -> &'a [Self] {
        &NAMED
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let title = self.kind().map(Kind::name);
        Some(PossibleValue::new(self.0).help(title))
    }
}

impl Kind {
    /// The word for it in messages.
    pub(crate) fn name(self) -> &'static str {
        self.0.title
    }

    /// The variable that contains `unavailable` if there is none.
    pub(crate) fn variable(self) -> String {
        let name = self.0.word.replace('-', "_").to_uppercase();
        format!("SHEDLOCK_TEST_{name}")
    }

    /// The variable that contains its URL.
    pub(crate) fn url_variable(self) -> String {
        format!("{}_URL", self.variable())
    }

    /// The package and test target in which the conformance kit runs on it.
    pub(crate) fn kit(self) -> (&'static str, &'static str) {
        self.0.kit
    }

    /// Why it is missing and how to get it.
    pub(super) fn what_to_do(self) -> String {
        let variable = self.url_variable();
        if let Some(advice) = self.0.advice {
            return advice(&variable);
        }
        let compose = self.compose();
        match &self.0.source {
            Source::Packages(packages) | Source::Made(packages, _) => format!(
                "not installed; on Debian `{}`, elsewhere install it so that its programs are in \
                 PATH, or run `{compose}` and set {variable} as that file says",
                debian::by_hand(packages)
            ),
            Source::Extract(extract) => format!(
                "not installed; install {}, or run `{compose}` and set {variable} as that file says \
                 (on Debian, root gets it automatically if the registry has it)",
                extract.program
            ),
            Source::Go(version) => version.what_to_do(&compose, &variable),
        }
    }

    /// The command that starts it on a machine without Debian.
    pub(super) fn compose(self) -> String {
        let (package, _) = self.0.kit;
        let folder = package.strip_prefix("shedlock-").unwrap_or(package);
        format!("docker compose -f stores/{folder}/compose.yaml up --wait")
    }

    /// The version that the server at a user's URL reports. Fails if nothing serves there.
    pub(super) fn version_at(self, url: &str) -> anyhow::Result<String> {
        let url = Url::parse(url).context("the URL cannot be read")?;
        let host = url.host_str().context("the URL names no host")?;
        (self.0.version_at)(&Address {
            url: &url,
            host: host.trim_matches(['[', ']']),
            port: url.port().unwrap_or(self.0.port),
        })
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.0.word == other.0.word
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_come_only_when_asked_for() {
        let of = |store: Store, companions| -> Vec<_> {
            let kinds = store.kinds(companions).into_iter();
            kinds.map(|kind| kind.0.word).collect()
        };
        assert_eq!(of(Store::POSTGRES, false), ["postgres"]);
        assert_eq!(of(Store::POSTGRES, true), ["postgres", "pgbouncer"]);
        assert_eq!(of(Store::MARIADB, true), ["mariadb", "mariadb-tz"]);
        assert_eq!(of(Store::REDIS, true), ["redis", "valkey"]);
        assert_eq!(of(Store("nats"), false), ["nats"]);
        assert_eq!(of(Store("nats"), true), ["nats", "nats210", "nats212"]);
        assert_eq!(of(Store("nats210"), true), ["nats210"]);
        assert!(of(Store::SQLITE, true).is_empty());
    }

    #[test]
    fn the_servers_of_the_registry_are_the_ones_that_can_be_started() {
        let main = |kind: &Kind| kind.0.role == Role::Main;
        let mut known: Vec<_> = Kind::ALL.into_iter().filter(main).collect();
        known.sort_by_key(|kind| kind.0.word);
        let listed = STORES.iter().flat_map(|entry| entry.servers);
        let mut listed: Vec<_> = listed.copied().collect();
        listed.sort_unstable();
        let known: Vec<_> = known.iter().map(|kind| kind.0.word).collect();
        assert_eq!(known, listed);
        let kinds = Kind::ALL.into_iter();
        for kind in kinds.filter(|kind| !main(kind)) {
            let (Role::Beside(store) | Role::Version(store)) = kind.0.role else {
                continue;
            };
            assert!(known.contains(&store), "{store}");
        }
    }

    /// PgBouncer is only used in front of our own PostgreSQL.
    #[test]
    fn a_server_that_cannot_be_installed_is_in_the_compose_file_of_its_store() {
        for kind in Kind::ALL.into_iter().filter(|it| it.0.word != "pgbouncer") {
            let command = kind.compose();
            let file = command.split(' ').find(|word| word.starts_with("stores/"));
            let file = crate::steps::workspace_root().join(file.unwrap());
            let text = std::fs::read_to_string(&file).unwrap();
            let export = format!("export {}=", kind.url_variable());
            assert!(text.contains(&export), "{}: {export}", file.display());
        }
    }

    #[test]
    fn variables_are_the_ones_that_tests_read() {
        let of = |name| Kind::ALL.into_iter().find(|kind| kind.0.word == name);
        assert_eq!(
            of("mariadb-tz").unwrap().url_variable(),
            "SHEDLOCK_TEST_MARIADB_TZ_URL"
        );
        assert_eq!(of("mysql").unwrap().variable(), "SHEDLOCK_TEST_MYSQL");
    }
}

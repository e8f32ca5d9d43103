//! `cargo xtask servers`, and which servers the stores of the registry are tested on.

use crate::{browser, faketime, host, programs, prometheus, protoc};
use anyhow::Context as _;
use clap::builder::PossibleValue;
use clap::{Subcommand, ValueEnum};
use shedlock::__stores::STORES;
use shedlock_rig::engine::{Kind, Profile, Role, Servers, run_dir};
use std::io::{self, BufRead as _, Write as _};
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::LazyLock;

/// A place where locks can be kept: each server of each store in the registry, and the stores without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Store(&'static str);

static ALL: LazyLock<Vec<Store>> = LazyLock::new(|| {
    let names = STORES.iter().flat_map(|entry| match entry.servers {
        [] => vec![entry.name],
        servers => servers.to_vec(),
    });
    names.map(Store).collect()
});

static NAMED: LazyLock<Vec<Store>> = LazyLock::new(|| {
    let versions = Kind::ALL.into_iter();
    let versions = versions.filter(|kind| matches!(kind.role(), Role::Version(_)));
    let versions = versions.map(|kind| Store(kind.word()));
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

    /// These, or all of them if none is named.
    pub(crate) fn or_all(named: &[Self]) -> &[Self] {
        if named.is_empty() { Self::all() } else { named }
    }

    /// The word for it on the command line and in `SHEDLOCK_TEST_STORES`.
    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    /// Its server, if it has one.
    pub(crate) fn kind(self) -> Option<Kind> {
        Kind::of(self.0).filter(|kind| !matches!(kind.role(), Role::Beside(_)))
    }

    fn kinds(self, companions: bool) -> Vec<Kind> {
        let beside = Kind::ALL.into_iter().filter(|kind| match kind.role() {
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

/// Starts all servers that these stores need, with their companions if wanted: PgBouncer, or a newer version.
pub(crate) fn start(
    stores: &[Store],
    companions: bool,
    profile: &Profile,
) -> anyhow::Result<Servers> {
    let mut kinds: Vec<Kind> = Vec::new();
    for kind in stores.iter().flat_map(|store| store.kinds(companions)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Servers::start(&kinds, profile)
}

/// The profile for tests of everything.
pub(crate) fn of_all_tests() -> Profile {
    Profile {
        given: true,
        packages: tools(),
        extracts_may_miss: true,
        ..Profile::default()
    }
}

/// The packages of the tools that the whole workspace is built and tested with, if they are missing.
fn tools() -> Vec<&'static str> {
    let protoc = (!protoc::works()).then_some(&protoc::PACKAGES[..]);
    let prometheus = (!prometheus::is_there()).then_some(&prometheus::PACKAGES[..]);
    let missing = protoc.into_iter().chain(prometheus).flatten();
    missing.copied().chain(programs::missing()).collect()
}

/// The environment variables that contain the servers' URLs, and what else the tests use.
fn exports(servers: &Servers) -> Vec<(String, String)> {
    let xtask = host::own_program().map(|path| {
        let path = path.to_string_lossy().into_owned();
        ("SHEDLOCK_TEST_XTASK".to_owned(), path)
    });
    let tools = xtask.into_iter().chain([faketime::export()]);
    let tools = tools.chain(browser::exports());
    servers.exports().into_iter().chain(tools).collect()
}

/// Names them to a command that tests these stores.
pub(crate) fn name(servers: &Servers, stores: &[Store], command: &mut process::Command) {
    // Only what this run decided on, without the user's own variables.
    for kind in Kind::ALL {
        command
            .env_remove(kind.variable())
            .env_remove(kind.url_variable());
    }
    let names: Vec<_> = stores.iter().map(|store| store.name()).collect();
    command
        .env("SHEDLOCK_TEST_STORES", names.join(","))
        .envs(exports(servers));
}

/// What can be asked of the servers by hand.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start servers, print their URLs as `export` lines, stop when standard input closes.
    Up(Up),
    /// Clear up after the process that started this one.
    #[command(name = run_dir::GUARD, hide = true)]
    Guard {
        /// The entry of the run in the cache folder.
        entry: PathBuf,
    },
}

/// Arguments of `cargo xtask servers up`.
#[derive(clap::Args)]
pub(crate) struct Up {
    /// Start the servers of this store; can be repeated. All stores that have servers if none is
    /// named.
    #[arg(long = "store", value_name = "STORE", value_enum)]
    stores: Vec<Store>,
    /// Add this argument to the server's command line, such as `-cwal_level=minimal`; can be
    /// repeated. Name exactly one store with it, because the arguments differ between servers.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    extra_arg: Vec<String>,
    /// Do not start the companions of a store: PgBouncer, the second MariaDB, Valkey, newer
    /// versions of NATS.
    #[arg(long)]
    bare: bool,
    /// Do not install missing servers and tools.
    #[arg(long)]
    no_install: bool,
}

/// Carries out `cargo xtask servers …`.
pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(args) => up(args)?,
        Command::Guard { entry } => run_dir::guard(entry),
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts servers, for use by hand and for tests that break one. Standard output starts with one
/// `export NAME='value'` line per variable and then the line `# ready`, so that a shell can read all of it. After that,
/// each line of standard input is an order ([`Servers::obey`]). When it closes, everything is stopped and removed.
fn up(args: &Up) -> anyhow::Result<()> {
    let profile = Profile {
        extra_args: args.extra_arg.clone(),
        no_install: args.no_install,
        extracts_may_miss: args.stores.is_empty(),
        ..Profile::default()
    };
    let mut servers = start(Store::or_all(&args.stores), !args.bare, &profile)?;
    for seen in servers.seen() {
        match seen.version {
            Ok(version) => eprintln!("xtask: {} {version}", seen.kind.name()),
            Err(why) => eprintln!("xtask: {}: NOT UP: {why}", seen.kind.name()),
        }
    }
    let exports: String = exports(&servers)
        .iter()
        .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
        .collect();
    say(&format!("{exports}# ready"))?;
    for line in io::stdin().lock().lines() {
        let line = line.context("standard input could not be read")?;
        if !line.trim().is_empty() {
            say(&servers.obey(&line))?;
        }
    }
    Ok(())
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .context("standard output is gone")
}

/// The value, quoted for a shell.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_come_only_when_asked_for() {
        let of = |store: Store, companions| -> Vec<_> {
            let kinds = store.kinds(companions).into_iter();
            kinds.map(Kind::word).collect()
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
        let main = |kind: &Kind| kind.role() == Role::Main;
        let known = Kind::ALL.into_iter().filter(main).map(Kind::word);
        let mut known: Vec<_> = known.collect();
        known.sort_unstable();
        let listed = STORES.iter().flat_map(|entry| entry.servers);
        let mut listed: Vec<_> = listed.copied().collect();
        listed.sort_unstable();
        assert_eq!(known, listed);
        let kinds = Kind::ALL.into_iter();
        for kind in kinds.filter(|kind| !main(kind)) {
            let (Role::Beside(store) | Role::Version(store)) = kind.role() else {
                continue;
            };
            assert!(known.contains(&store), "{store}");
        }
    }

    #[test]
    fn values_survive_the_shell() {
        let value = "it's $HOME `x`";
        let said = host::output(
            process::Command::new("sh")
                .arg("-c")
                .arg(format!("printf %s {}", quoted(value))),
        );
        assert_eq!(said.unwrap(), value);
    }
}

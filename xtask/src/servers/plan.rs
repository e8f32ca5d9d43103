//! Where each server that is asked for comes from: decided before anything is started.

use super::consul::Consul;
use super::etcd::{self, Etcd};
use super::instance::Server;
use super::kind::{Kind, Store};
use super::mariadb::Mariadb;
use super::mongodb::{self, Mongodb};
use super::mysql::Mysql;
use super::nats::Nats;
use super::postgres::Postgres;
use super::profile::Profile;
use super::redis::{self, Redis};
use super::zookeeper::{self, ZooKeeper};
use super::{debian, mariadb, nats, pgbouncer, postgres, probe, protoc, sid};
use crate::host;
use anyhow::{Context as _, bail, ensure};
use std::env;
use std::fs::File;
use url::Url;

/// Where every server comes from.
pub(crate) struct Plan {
    /// One each, in the order of [`Kind`].
    pub(crate) offers: Vec<(Kind, Offer)>,
}

/// Where one server comes from.
pub(crate) enum Offer {
    /// The environment names one that is up.
    Given {
        /// Where it is.
        url: String,
        /// What it says it is.
        version: String,
    },
    /// We start one.
    Ours(Box<dyn Server>),
    /// It cannot be had, and tests can do without.
    Missing(String),
}

impl Plan {
    /// Decides, and installs what is missing where that is allowed and possible.
    ///
    /// A store that is asked for by name and cannot be had is an error, after all have been
    /// looked for. One that the registries may lack (MySQL, Valkey, Consul), and what only stands
    /// beside a store, may miss.
    pub(crate) fn make(stores: &[Store], profile: &Profile) -> anyhow::Result<Self> {
        let mut kinds: Vec<Kind> = Vec::new();
        for kind in stores
            .iter()
            .flat_map(|store| store.kinds(profile.companions))
        {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if !profile.no_install {
            install_missing(&kinds, profile)?;
        }
        let mut offers = Vec::new();
        let mut lacking = Vec::new();
        for kind in kinds {
            match offer(kind, profile) {
                Ok(Offer::Missing(why)) if !profile.may_miss(kind) => {
                    lacking.push(format!("{}: {why}", kind.name()));
                }
                Ok(offer) => offers.push((kind, offer)),
                Err(error) => lacking.push(format!("{}: {error:#}", kind.name())),
            }
        }
        if lacking.is_empty() {
            return Ok(Self { offers });
        }
        bail!(
            "not every store that was asked for can be had:\n  {}",
            lacking.join("\n  ")
        )
    }
}

/// Installs packages for the servers that are neither given nor found.
fn install_missing(kinds: &[Kind], profile: &Profile) -> anyhow::Result<()> {
    let mut packages = Vec::new();
    let mut extracts = Vec::new();
    let mut builds = Vec::new();
    if profile.build_tools && !protoc::works() {
        packages.extend(protoc::PACKAGES);
    }
    let mut needs_mongodb = false;
    for kind in kinds
        .iter()
        .filter(|kind| given_url(**kind, profile).is_none())
    {
        match kind {
            Kind::Postgres if Postgres::find(profile)?.is_none() => {
                packages.push(postgres::PACKAGE)
            }
            Kind::Mariadb if Mariadb::find(profile)?.is_none() => packages.push(mariadb::PACKAGE),
            Kind::PgBouncer if host::find_program("pgbouncer").is_none() => {
                packages.push(pgbouncer::PACKAGE);
            }
            Kind::Redis if Redis::find(profile).is_none() => packages.push(redis::PACKAGE),
            Kind::Mysql if Mysql::find(profile, &sid::MYSQL.root()?)?.is_none() => {
                extracts.push(sid::MYSQL);
            }
            Kind::Valkey if Redis::find_valkey(profile)?.is_none() => extracts.push(sid::VALKEY),
            Kind::Consul if Consul::find(profile)?.is_none() => extracts.push(sid::CONSUL),
            Kind::Nats if Nats::find(profile).is_none() => packages.push(nats::PACKAGE),
            Kind::Nats210 if Nats::find_built(&nats::V2_10, profile)?.is_none() => {
                builds.push(&nats::V2_10);
            }
            Kind::Nats212 if Nats::find_built(&nats::V2_12, profile)?.is_none() => {
                builds.push(&nats::V2_12);
            }
            Kind::ZooKeeper if ZooKeeper::find(profile).is_none() => {
                packages.extend(zookeeper::PACKAGES);
            }
            Kind::Etcd if Etcd::find(profile).is_none() => packages.push(etcd::PACKAGE),
            Kind::Mongodb if Mongodb::find(profile)?.is_none() => {
                packages.extend(mongodb::PACKAGES);
                needs_mongodb = true;
            }
            Kind::Postgres
            | Kind::Mariadb
            | Kind::PgBouncer
            | Kind::MariadbTz
            | Kind::Mysql
            | Kind::Redis
            | Kind::Valkey
            | Kind::Nats
            | Kind::Nats210
            | Kind::Nats212
            | Kind::ZooKeeper
            | Kind::Etcd
            | Kind::Mongodb
            | Kind::Consul => {}
        }
    }
    if !builds.is_empty() && debian::can_install() && nats::go().is_none() {
        packages.push(nats::GO_PACKAGE);
    }
    install(packages, &extracts, needs_mongodb)?;
    for version in builds {
        if let Err(error) = version.build() {
            eprintln!(
                "xtask: NATS {} could not be built: {error:#}",
                version.version
            );
        }
    }
    Ok(())
}

/// Installs packages, and what comes into folders of ours, where that is possible here.
fn install(
    mut packages: Vec<&'static str>,
    extracts: &[sid::Extract],
    needs_mongodb: bool,
) -> anyhow::Result<()> {
    if !debian::can_install() {
        return Ok(());
    }
    let one_at_a_time = host::cache_dir()?.join("install.lock");
    let lock = File::create(&one_at_a_time)
        .with_context(|| format!("{} could not be made", one_at_a_time.display()))?;
    if packages.is_empty() && extracts.is_empty() {
        if lock.try_lock().is_ok() {
            debian::clean_up();
        }
        return Ok(());
    }
    lock.lock()
        .context("the lock of the installation could not be taken")?;
    debian::clean_up();
    let needs_mmdebstrap = !extracts.is_empty() && host::find_program(sid::PACKAGE).is_none();
    packages.extend(needs_mmdebstrap.then_some(sid::PACKAGE));
    // What could not be installed is missed, and told, when it is looked for again.
    if !packages.is_empty()
        && let Err(error) = debian::install(&packages)
    {
        eprintln!("xtask: {error:#}");
    }
    for server in extracts {
        if let Err(error) = server.extract() {
            eprintln!("xtask: {} is not to be had: {error:#}", server.name);
        }
    }
    if needs_mongodb && let Err(error) = mongodb::install() {
        eprintln!("xtask: the double of MongoDB is not to be had: {error:#}");
    }
    Ok(())
}

/// Looks for one server.
fn offer(kind: Kind, profile: &Profile) -> anyhow::Result<Offer> {
    if let Some(url) = given_url(kind, profile) {
        let version = version_at(kind, &url).with_context(|| {
            format!("{} names a server that does not serve", kind.url_variable())
        })?;
        return Ok(Offer::Given { url, version });
    }
    let ours = match kind {
        Kind::Postgres => Postgres::find(profile)?.map(boxed),
        Kind::Mariadb => Mariadb::find(profile)?.map(boxed),
        Kind::MariadbTz => Mariadb::find(profile)?
            .map(Mariadb::in_another_zone)
            .map(boxed),
        Kind::Mysql => Mysql::find(profile, &sid::MYSQL.root()?)?.map(boxed),
        Kind::Redis => Redis::find(profile).map(boxed),
        Kind::Valkey => Redis::find_valkey(profile)?.map(boxed),
        Kind::Nats => Nats::find(profile).map(boxed),
        Kind::Nats210 => Nats::find_built(&nats::V2_10, profile)?.map(boxed),
        Kind::Nats212 => Nats::find_built(&nats::V2_12, profile)?.map(boxed),
        Kind::ZooKeeper => ZooKeeper::find(profile).map(boxed),
        Kind::Etcd => Etcd::find(profile).map(boxed),
        Kind::Mongodb => Mongodb::find(profile)?.map(boxed),
        Kind::Consul => Consul::find(profile)?.map(boxed),
        // Made once the port of its PostgreSQL is known.
        Kind::PgBouncer => None,
    };
    Ok(ours.map_or_else(|| Offer::Missing(what_to_do(kind)), Offer::Ours))
}

fn boxed(server: impl Server + 'static) -> Box<dyn Server> {
    Box::new(server)
}

/// Why a server is missing and how to get it.
fn what_to_do(kind: Kind) -> String {
    let variable = kind.url_variable();
    let packages: &[&str] = match kind {
        Kind::Postgres => &[postgres::PACKAGE],
        Kind::Mariadb | Kind::MariadbTz => &[mariadb::PACKAGE],
        Kind::Nats => &[nats::PACKAGE],
        Kind::Nats210 => return nats::V2_10.what_to_do(&variable),
        Kind::Nats212 => return nats::V2_12.what_to_do(&variable),
        Kind::ZooKeeper => &zookeeper::PACKAGES,
        Kind::Etcd => &[etcd::PACKAGE],
        Kind::PgBouncer => {
            return format!(
                "not installed, or PostgreSQL is not one of ours; on Debian `{}`, or set {variable}",
                debian::by_hand(&[pgbouncer::PACKAGE])
            );
        }
        Kind::Redis => &[redis::PACKAGE],
        Kind::Mongodb => {
            return format!(
                "no registry has MongoDB; on Debian as root its double comes by itself (`{}`), \
                 elsewhere run `docker compose up --wait mongodb` and set {variable} as \
                 compose.yaml says",
                mongodb::by_hand()
            );
        }
        Kind::Valkey => {
            return format!(
                "not installed; install valkey-server, or set {variable} (on Debian as root it \
                 comes by itself where the registry has it)"
            );
        }
        Kind::Consul => {
            return format!(
                "not installed; install consul, or run `docker compose up --wait consul` and set \
                 {variable} as compose.yaml says (on Debian as root it comes by itself where the \
                 registry has it)"
            );
        }
        Kind::Mysql => {
            return format!(
                "not installed; install mysqld 8 or later, or run `docker compose up --wait mysql` \
                 and set {variable} as compose.yaml says (on Debian as root it comes by itself \
                 where the registry has it)"
            );
        }
    };
    format!(
        "not installed; on Debian `{}`, elsewhere install it so that its programs are in PATH, or \
         run `docker compose up --wait` and set {variable} as compose.yaml says",
        debian::by_hand(packages)
    )
}

fn given_url(kind: Kind, profile: &Profile) -> Option<String> {
    if !profile.given {
        return None;
    }
    env::var(kind.url_variable())
        .ok()
        .filter(|url| !url.is_empty())
}

/// What the server at a URL of the user's says it is; fails if nothing serves there.
fn version_at(kind: Kind, url: &str) -> anyhow::Result<String> {
    let url = Url::parse(url).context("the URL cannot be read")?;
    let host = url
        .host_str()
        .context("the URL names no host")?
        .trim_matches(['[', ']']);
    let (default, is_postgres) = match kind {
        Kind::Postgres | Kind::PgBouncer => (5432, true),
        Kind::Mariadb | Kind::MariadbTz | Kind::Mysql => (3306, false),
        Kind::Redis | Kind::Valkey => {
            let (is_valkey, version) = probe::redis(host, url.port().unwrap_or(6379))?;
            ensure!(
                is_valkey == (kind == Kind::Valkey),
                "the server there is version {version} of the other one, not {}",
                kind.name()
            );
            return Ok(version);
        }
        Kind::Consul => return probe::consul(host, url.port().unwrap_or(8500)),
        Kind::Nats | Kind::Nats210 | Kind::Nats212 => {
            return probe::nats(host, url.port().unwrap_or(4222));
        }
        Kind::ZooKeeper => return probe::zookeeper(host, url.port().unwrap_or(2181)),
        Kind::Etcd => return probe::etcd(host, url.port().unwrap_or(2379)),
        Kind::Mongodb => return probe::mongodb(host, url.port().unwrap_or(27017)),
    };
    let port = url.port().unwrap_or(default);
    if is_postgres {
        let database = Some(url.path().trim_start_matches('/')).filter(|name| !name.is_empty());
        let user = url.username();
        return probe::postgres(host, port, user, database.unwrap_or(user)).or_else(|error| {
            // Our probe knows no passwords; the tests do.
            let locked = error.to_string().contains("password");
            ensure!(locked, error);
            Ok("version not told without a password".to_owned())
        });
    }
    let version = probe::mysql(host, port)?;
    let is_mariadb = version.contains("MariaDB");
    ensure!(
        is_mariadb == (kind != Kind::Mysql),
        "the server there is {version}, not {}",
        kind.name()
    );
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_url_where_nothing_serves_is_refused() {
        let port = super::super::port::free().unwrap();
        let url = format!("postgres://u@127.0.0.1:{port}/d");
        let said = format!("{:#}", version_at(Kind::Postgres, &url).unwrap_err());
        assert!(said.contains("nothing answers"), "{said}");
        assert!(version_at(Kind::Mysql, "nonsense").is_err());
    }
}

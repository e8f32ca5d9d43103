//! Where each requested server comes from, decided before anything is started.

use super::instance::Server;
use super::kind::{Kind, Source, Step, Store};
use super::pgbouncer::{self, PgBouncer};
use super::profile::Profile;
use super::{chromium, debian, nats, prometheus, protoc, sid};
use crate::host;
use anyhow::{Context as _, bail};
use std::env;
use std::fs::File;

/// Where every server comes from.
pub(crate) struct Plan {
    /// One offer per server.
    pub(crate) offers: Vec<(Kind, Offer)>,
}

/// Where one server comes from.
pub(crate) enum Offer {
    /// The environment names a running one.
    Given {
        /// Its URL.
        url: String,
        /// The version that it reports.
        version: String,
    },
    /// We start one.
    Ours(Box<dyn Server>),
    /// It is unavailable, and tests can do without it.
    Missing(String),
}

impl Plan {
    /// Decides, and installs missing servers if that is allowed and possible.
    ///
    /// A store that is requested by name but unavailable is an error, after all have been looked
    /// for. Extracted servers, which the registries may lack, and companions of a store are
    /// optional.
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
            "some of the requested stores are unavailable:\n  {}",
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
    if profile.build_tools && !prometheus::is_there() {
        packages.extend(prometheus::PACKAGES);
    }
    if profile.build_tools && !chromium::is_there() {
        packages.extend(chromium::PACKAGES);
    }
    let mut steps = Vec::new();
    for kind in kinds {
        if given_url(*kind, profile).is_some() || is_there(*kind, profile)? {
            continue;
        }
        match &kind.0.source {
            Source::Packages(of_debian) => packages.extend(*of_debian),
            Source::Extract(extract) => extracts.push(extract),
            Source::Go(version) => builds.push(*version),
            Source::Made(of_debian, step) => {
                packages.extend(*of_debian);
                steps.push((*kind, *step));
            }
        }
    }
    if !builds.is_empty() && debian::can_install() && nats::go().is_none() {
        packages.push(nats::GO_PACKAGE);
    }
    install(packages, &extracts, &steps)?;
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

/// Whether its program is installed.
fn is_there(kind: Kind, profile: &Profile) -> anyhow::Result<bool> {
    if kind == pgbouncer::KIND {
        return Ok(PgBouncer::is_there());
    }
    Ok((kind.0.find)(profile)?.is_some())
}

/// Installs packages and extracted folders, if that is possible here.
fn install(
    mut packages: Vec<&'static str>,
    extracts: &[&sid::Extract],
    steps: &[(Kind, Step)],
) -> anyhow::Result<()> {
    if !debian::can_install() {
        return Ok(());
    }
    let one_at_a_time = host::cache_dir()?.join("install.lock");
    let lock = File::create(&one_at_a_time)
        .with_context(|| format!("{} could not be created", one_at_a_time.display()))?;
    if packages.is_empty() && extracts.is_empty() {
        if lock.try_lock().is_ok() {
            debian::clean_up();
        }
        return Ok(());
    }
    lock.lock()
        .context("the lock of the installation could not be acquired")?;
    debian::clean_up();
    let needs_mmdebstrap = !extracts.is_empty() && host::find_program(sid::PACKAGE).is_none();
    packages.extend(needs_mmdebstrap.then_some(sid::PACKAGE));
    // If a package could not be installed, the next search finds and reports that.
    if !packages.is_empty()
        && let Err(error) = debian::install(&packages)
    {
        eprintln!("xtask: {error:#}");
    }
    for server in extracts {
        if let Err(error) = server.extract() {
            eprintln!("xtask: {} is unavailable: {error:#}", server.name);
        }
    }
    for (kind, step) in steps {
        if let Err(error) = step() {
            eprintln!("xtask: {} is unavailable: {error:#}", kind.name());
        }
    }
    Ok(())
}

/// Finds one server.
fn offer(kind: Kind, profile: &Profile) -> anyhow::Result<Offer> {
    if let Some(url) = given_url(kind, profile) {
        let version = kind.version_at(&url).with_context(|| {
            format!(
                "the server that {} names does not respond correctly",
                kind.url_variable()
            )
        })?;
        return Ok(Offer::Given { url, version });
    }
    let ours = (kind.0.find)(profile)?;
    Ok(ours.map_or_else(|| Offer::Missing(kind.what_to_do()), Offer::Ours))
}

fn given_url(kind: Kind, profile: &Profile) -> Option<String> {
    if !profile.given {
        return None;
    }
    env::var(kind.url_variable())
        .ok()
        .filter(|url| !url.is_empty())
}

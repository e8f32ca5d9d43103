//! Where each requested server comes from, decided before anything is started.

use super::definition::{Found, Kind, Source};
use super::profile::Profile;
use super::source;
use crate::{debian, host};
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
    Ours(Found),
    /// It is unavailable, and tests can do without it.
    Missing(String),
}

impl Plan {
    /// Decides, and installs missing servers if that is allowed and possible.
    ///
    /// A store that is requested by name but unavailable is an error, after all have been looked
    /// for. Extracted servers, which the registries may lack, and companions of a store are
    /// optional.
    pub(crate) fn make(kinds: &[Kind], profile: &Profile) -> anyhow::Result<Self> {
        if !profile.no_install {
            install(&Missing::find(kinds, profile)?)?;
        }
        let mut offers = Vec::new();
        let mut lacking = Vec::new();
        for &kind in kinds {
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

/// What can be installed for servers that are neither given nor found.
struct Missing {
    packages: Vec<&'static str>,
    folders: Vec<Kind>,
    /// These need no root.
    builds: Vec<&'static source::Go>,
}

impl Missing {
    fn find(kinds: &[Kind], profile: &Profile) -> anyhow::Result<Self> {
        let mut missing = Self {
            packages: profile.packages.clone(),
            folders: Vec::new(),
            builds: Vec::new(),
        };
        for kind in kinds {
            if given_url(*kind, profile).is_some() || (kind.0.find)()?.is_some() {
                continue;
            }
            match &kind.0.source {
                Source::Packages(packages) => missing.packages.extend(*packages),
                Source::Extract(_) => missing.folders.push(*kind),
                Source::Go(build) => missing.builds.push(build),
                Source::Pip(_) => {
                    missing.packages.extend(source::PIP_PACKAGES);
                    missing.folders.push(*kind);
                }
            }
        }
        if !missing.builds.is_empty() && debian::can_install() && source::go().is_none() {
            missing.packages.push(source::GO_PACKAGE);
        }
        let is_extract = |kind: &Kind| matches!(kind.0.source, Source::Extract(_));
        let needs_mmdebstrap = missing.folders.iter().any(is_extract)
            && host::find_program(source::MMDEBSTRAP).is_none();
        missing
            .packages
            .extend(needs_mmdebstrap.then_some(source::MMDEBSTRAP));
        Ok(missing)
    }
}

/// Installs what is possible here. What could not be installed is reported here, and by the next search.
fn install(missing: &Missing) -> anyhow::Result<()> {
    install_as_root(missing)?;
    for build in &missing.builds {
        if let Err(error) = build.build() {
            let (name, version) = (build.name, build.version);
            eprintln!("xtask: {name} {version} could not be built: {error:#}");
        }
    }
    Ok(())
}

fn install_as_root(missing: &Missing) -> anyhow::Result<()> {
    if !debian::can_install() {
        return Ok(());
    }
    let one_at_a_time = host::cache_dir()?.join("install.lock");
    let lock = File::create(&one_at_a_time)
        .with_context(|| format!("{} could not be created", one_at_a_time.display()))?;
    if missing.packages.is_empty() && missing.folders.is_empty() {
        if lock.try_lock().is_ok() {
            debian::clean_up();
        }
        return Ok(());
    }
    lock.lock()
        .context("the lock of the installation could not be acquired")?;
    debian::clean_up();
    if !missing.packages.is_empty()
        && let Err(error) = debian::install(&missing.packages)
    {
        eprintln!("xtask: {error:#}");
    }
    for kind in &missing.folders {
        let filled = match &kind.0.source {
            Source::Extract(extract) => extract.extract(),
            Source::Pip(pip) => pip.install(),
            Source::Packages(_) | Source::Go(_) => Ok(()),
        };
        if let Err(error) = filled {
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
    let ours = (kind.0.find)()?;
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

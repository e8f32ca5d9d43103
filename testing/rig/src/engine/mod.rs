//! Throw-away servers of the real databases: found or installed, started, broken and stopped. What differs between
//! them is in `crate::servers`.
//!
//! [`Servers::start`] finds or installs what is requested, and starts it on free loopback ports
//! with temporary data. When it is dropped, it stops and removes everything, whatever happens.
//! Servers and data that are not ours are never touched.

mod definition;
mod instance;
mod orders;
mod plan;
pub(crate) mod probe;
mod profile;
pub mod run_dir;
mod source;
mod words;

pub(crate) use definition::{Definition, Found, Source};
pub use definition::{Kind, Role};
pub use instance::Instance;
pub(crate) use probe::{Http, Probe};
pub use profile::{Durability, Profile};
pub use run_dir::{Ending, RunDir};
pub(crate) use source::{Extract, Go, Pip};

use plan::{Offer, Plan};
use std::thread;

/// The servers of one run.
pub struct Servers {
    // Dropped before the run's folder, which ends what they leave behind.
    instances: Vec<(Kind, Instance)>,
    given: Vec<(Kind, String, String)>,
    missing: Vec<(Kind, String)>,
    run: RunDir,
}

/// One server in the report.
pub struct Seen<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its version, or why it is not available.
    pub version: Result<&'a str, &'a str>,
}

impl Servers {
    /// Starts these servers. [`Servers::seen`] reports those that are unavailable and optional. If any
    /// other server is unavailable, an error names all of them.
    ///
    /// # Errors
    /// If a server is unavailable, or does not start.
    pub fn start(kinds: &[Kind], profile: &Profile) -> anyhow::Result<Self> {
        let plan = Plan::make(kinds, profile)?;
        let mut servers = Self {
            instances: Vec::new(),
            given: Vec::new(),
            missing: Vec::new(),
            run: RunDir::create()?,
        };
        let (mut first, mut after) = (Vec::new(), Vec::new());
        for (kind, offer) in plan.offers {
            match offer {
                Offer::Given { url, version } => servers.given.push((kind, url, version)),
                Offer::Missing(why) => servers.missing.push((kind, why)),
                Offer::Ours(found) if kind.0.before.is_some() => after.push((kind, found)),
                Offer::Ours(found) => first.push((kind, found, None)),
            }
        }
        servers.add(first, profile)?;
        // They need the port of the server behind them.
        for (kind, found) in after {
            let before = kind.0.before.and_then(|name| servers.instance(name));
            match before.map(Instance::port) {
                Some(port) => servers.add(vec![(kind, found, Some(port))], profile)?,
                None => servers.missing.push((kind, kind.what_to_do())),
            }
        }
        Ok(servers)
    }

    /// Starts these at the same time.
    fn add(
        &mut self,
        kinds: Vec<(Kind, Found, Option<u16>)>,
        profile: &Profile,
    ) -> anyhow::Result<()> {
        let run = &self.run;
        let started: Vec<_> = thread::scope(|scope| {
            let start = |(kind, found, before): (Kind, Found, Option<u16>)| {
                let settings = profile.settings(kind);
                let thread =
                    scope.spawn(move || Instance::start(run, kind, found, settings, before));
                (kind, thread)
            };
            let threads: Vec<_> = kinds.into_iter().map(start).collect();
            let joined = threads
                .into_iter()
                .map(|(kind, thread)| (kind, thread.join()));
            joined.collect()
        });
        for (kind, instance) in started {
            let instance = instance.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            self.instances.push((kind, instance));
        }
        Ok(())
    }

    /// The URL of each server.
    #[must_use]
    pub fn urls(&self) -> Vec<(Kind, String)> {
        let own = self.instances.iter().map(|(kind, it)| (*kind, it.url()));
        let given = self.given.iter().map(|(kind, url, _)| (*kind, url.clone()));
        own.chain(given).collect()
    }

    /// The environment variables that contain the servers' URLs, or state that there is none.
    #[must_use]
    pub fn exports(&self) -> Vec<(String, String)> {
        let urls = self.urls().into_iter();
        let there = urls.map(|(kind, url)| (kind.url_variable(), url));
        // This includes servers that were not requested: a test that finds neither a URL nor this
        // word fails.
        let missing = Kind::ALL
            .into_iter()
            .filter(|kind| !self.has(*kind))
            .map(|kind| (kind.variable(), "unavailable".to_owned()));
        there.chain(missing).collect()
    }

    /// The servers that were started, given or unavailable.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen<'_>> {
        let own = self
            .instances
            .iter()
            .map(|(kind, it)| (kind, Ok(it.version())));
        let given = self
            .given
            .iter()
            .map(|(kind, _, version)| (kind, Ok(&**version)));
        let missing = self.missing.iter().map(|(kind, why)| (kind, Err(&**why)));
        let seen = own.chain(given).chain(missing);
        seen.map(|(kind, version)| Seen {
            kind: *kind,
            version,
        })
        .collect()
    }

    /// The folder and processes of this run.
    #[must_use]
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    fn has(&self, kind: Kind) -> bool {
        self.urls().iter().any(|(of, _)| *of == kind)
    }

    fn instance(&self, name: &str) -> Option<&Instance> {
        let mut instances = self.instances.iter().map(|(_, it)| it);
        instances.find(|it| it.name() == name)
    }
}

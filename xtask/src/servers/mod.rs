//! Throw-away servers of the real databases.
//!
//! [`Servers::start`] finds or installs what is requested, and starts it on free loopback ports
//! with temporary data. When it is dropped, it stops and removes everything, whatever happens.
//! Servers and data that are not ours are never touched.

mod consul;
pub(crate) mod debian;
mod etcd;
mod instance;
mod kind;
mod mariadb;
mod mongodb;
mod mysql;
mod nats;
mod pgbouncer;
mod plan;
mod port;
mod postgres;
mod probe;
mod profile;
mod prometheus;
mod protoc;
mod redis;
pub(crate) mod run_dir;
mod sid;
mod up;
mod zookeeper;

pub(crate) use instance::Instance;
pub(crate) use kind::{Kind, Store};
pub(crate) use profile::{Durability, Profile};
pub(crate) use prometheus::check as check_prometheus;
pub(crate) use protoc::check as check_protoc;
pub(crate) use run_dir::RunDir;

use crate::{browser, faketime, host};
use clap::Subcommand;
use plan::{Offer, Plan};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

impl Kind {
    /// All of them, in the order in which reports list them.
    pub(crate) const ALL: [Self; 14] = [
        postgres::KIND,
        pgbouncer::KIND,
        mariadb::KIND,
        mariadb::KIND_IN_ANOTHER_ZONE,
        mysql::KIND,
        redis::REDIS,
        redis::VALKEY,
        nats::KIND,
        nats::KIND_2_10,
        nats::KIND_2_12,
        zookeeper::KIND,
        etcd::KIND,
        mongodb::KIND,
        consul::KIND,
    ];
}

/// What can be asked of the servers by hand.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start servers, print their URLs as `export` lines, stop when standard input closes.
    Up(up::Args),
    /// Clear up after the process that started this one.
    #[command(name = run_dir::GUARD, hide = true)]
    Guard {
        /// The entry of the run in the cache folder.
        entry: PathBuf,
    },
}

/// Carries out `cargo xtask servers …`.
pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(args) => up::run(args),
        Command::Guard { entry } => {
            run_dir::guard(entry);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The servers of one run.
pub(crate) struct Servers {
    // Dropped before the run's folder, which ends what they leave behind.
    instances: Vec<(Kind, Instance)>,
    given: Vec<(Kind, String, String)>,
    missing: Vec<(Kind, String)>,
    run: RunDir,
}

/// One server in the report.
pub(crate) struct Seen<'a> {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its version, or why it is not available.
    pub(crate) version: Result<&'a str, &'a str>,
}

impl Servers {
    /// Starts all servers that `stores` need. [`Servers::seen`] reports those that are unavailable
    /// and optional. If any other server is unavailable, an error names all of them.
    pub(crate) fn start(stores: &[Store], profile: &Profile) -> anyhow::Result<Self> {
        let plan = Plan::make(stores, profile)?;
        let run = RunDir::create()?;
        let mut servers = Self {
            instances: Vec::new(),
            given: Vec::new(),
            missing: Vec::new(),
            run,
        };
        let mut starting = Vec::new();
        for (kind, offer) in plan.offers {
            match offer {
                Offer::Given { url, version } => servers.given.push((kind, url, version)),
                Offer::Missing(why) => servers.missing.push((kind, why)),
                Offer::Ours(server) => starting.push((kind, server)),
            }
        }
        let run = &servers.run;
        let started = thread::scope(|scope| {
            let threads: Vec<_> = starting
                .into_iter()
                .map(|(kind, server)| (kind, scope.spawn(|| Instance::start(run, server))))
                .collect();
            threads
                .into_iter()
                .map(|(kind, thread)| (kind, thread.join()))
                .collect::<Vec<_>>()
        });
        for (kind, instance) in started {
            let instance = instance.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            servers.instances.push((kind, instance));
        }
        if profile.companions {
            servers.start_pgbouncer()?;
        }
        Ok(servers)
    }

    /// It needs the port of the PostgreSQL behind it.
    fn start_pgbouncer(&mut self) -> anyhow::Result<()> {
        let Some(postgres) = self.instance("postgres").map(Instance::port) else {
            return Ok(());
        };
        if self.given.iter().any(|(kind, ..)| *kind == pgbouncer::KIND) {
            return Ok(());
        }
        if let Some(server) = pgbouncer::PgBouncer::find(postgres)? {
            let instance = Instance::start(&self.run, Box::new(server))?;
            self.missing.retain(|(kind, _)| *kind != pgbouncer::KIND);
            self.instances.push((pgbouncer::KIND, instance));
        }
        Ok(())
    }

    /// The URL of each server.
    pub(crate) fn urls(&self) -> Vec<(Kind, String)> {
        let own = self.instances.iter().map(|(kind, it)| (*kind, it.url()));
        let given = self.given.iter().map(|(kind, url, _)| (*kind, url.clone()));
        own.chain(given).collect()
    }

    /// The environment variables that contain the servers' URLs, and what else the tests use.
    pub(crate) fn exports(&self) -> Vec<(String, String)> {
        let urls = self.urls().into_iter();
        let there = urls.map(|(kind, url)| (kind.url_variable(), url));
        // This includes servers that were not requested: a test that finds neither a URL nor this
        // word fails.
        let missing = Kind::ALL
            .into_iter()
            .filter(|kind| !self.has(*kind))
            .map(|kind| (kind.variable(), "unavailable".to_owned()));
        let xtask = host::own_program().map(|path| {
            (
                "SHEDLOCK_TEST_XTASK".to_owned(),
                path.to_string_lossy().into_owned(),
            )
        });
        let clocks = [faketime::export()];
        let tools = clocks.into_iter().chain(browser::exports());
        there.chain(missing).chain(xtask).chain(tools).collect()
    }

    /// Names them to a command that tests these stores.
    pub(crate) fn name(&self, stores: &[Store], command: &mut std::process::Command) {
        // Only what this run decided on, without the user's own variables.
        for kind in Kind::ALL {
            command
                .env_remove(kind.variable())
                .env_remove(kind.url_variable());
        }
        let names: Vec<_> = stores.iter().map(|store| store.name()).collect();
        command
            .env("SHEDLOCK_TEST_STORES", names.join(","))
            .envs(self.exports());
    }

    /// The servers that were started, given or unavailable.
    pub(crate) fn seen(&self) -> Vec<Seen<'_>> {
        let own = self.instances.iter().map(|(kind, it)| Seen {
            kind: *kind,
            version: Ok(it.version()),
        });
        let given = self.given.iter().map(|(kind, _, version)| Seen {
            kind: *kind,
            version: Ok(version),
        });
        let missing = self.missing.iter().map(|(kind, why)| Seen {
            kind: *kind,
            version: Err(why),
        });
        own.chain(given).chain(missing).collect()
    }

    /// The folder and processes of this run.
    pub(crate) fn run(&self) -> &RunDir {
        &self.run
    }

    fn has(&self, kind: Kind) -> bool {
        self.instances.iter().any(|(of, _)| *of == kind)
            || self.given.iter().any(|(of, ..)| *of == kind)
    }

    fn instance(&self, name: &str) -> Option<&Instance> {
        self.instances
            .iter()
            .map(|(_, it)| it)
            .find(|it| it.name() == name)
    }

    fn instance_mut(&mut self, name: &str) -> Option<(&mut Instance, &RunDir)> {
        let run = &self.run;
        let found = self
            .instances
            .iter_mut()
            .map(|(_, it)| it)
            .find(|it| it.name() == name)?;
        Some((found, run))
    }
}

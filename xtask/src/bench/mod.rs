//! `cargo xtask bench`: the cost of locks, measured on throw-away servers with and without fsync.
//!
//! A separate program (`testing/bench/`) does the measuring, so that xtask needs no database client and builds quickly.

mod peers;

use crate::servers::{self, Store};
use crate::steps::{self, Outcome};
use anyhow::{Context as _, bail};
use shedlock_rig::engine::{Durability, Profile, Servers};
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use only this store; can be repeated. All stores if none is named.
    #[arg(long = "store", value_name = "STORE", value_enum)]
    stores: Vec<Store>,
    /// Compare with ShedLock, other locks in Rust and the bare statements, on the stores that they
    /// support. With SHEDLOCK_BLESS=1, write the results to docs/performance.md.
    #[arg(long)]
    peers: bool,
    /// Measure the pages of the dashboard instead, over a journal with 1,000,000 runs in PostgreSQL, and how late jobs
    /// start while it is used.
    #[arg(long, conflicts_with_all = ["stores", "peers", "rounds", "json"])]
    dashboard: bool,
    /// How often to measure each side of a comparison.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Run only a few short rounds, for a first impression.
    #[arg(long)]
    quick: bool,
    /// Also write the rows as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Do not install missing servers and tools.
    #[arg(long)]
    no_install: bool,
}

/// The settings of every PostgreSQL: no background writes while bytes are counted, and a log file from which statements
/// are counted.
const POSTGRES_SETTINGS: [&str; 6] = [
    "autovacuum=off",
    "logging_collector=on",
    "log_directory=log",
    "log_filename=bench.log",
    "log_rotation_size=0",
    "log_rotation_age=0",
];

/// The program, as cargo's arguments.
fn package(args: &Args) -> Vec<&'static str> {
    let mut package = vec!["--release", "--package", "shedlock-benches"];
    if args.peers || args.dashboard {
        package.push("--no-default-features");
    }
    package
}

/// Builds the program, starts the servers and runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let built = steps::cargo().arg("build").args(package(args)).status();
    if !built.context("cargo could not be started")?.success() {
        bail!("the benchmark could not be built");
    }
    // Created even if no store has a server: the folder and guard of the run.
    let host = Servers::start(&[], &Profile::default())?;
    let peers = if args.peers {
        Some(peers::build(host.run(), args.no_install)?)
    } else {
        None
    };
    let stores = match (&args.stores[..], &peers) {
        _ if args.dashboard => &[Store::POSTGRES],
        ([], Some(_)) => &peers::STORES[..],
        ([], None) => Store::all(),
        (named, _) => named,
    };
    let mut running = Vec::new();
    let mut variables = Vec::new();
    for store in stores.iter().copied().filter(|it| it.kind().is_some()) {
        for durability in [Durability::AsShipped, Durability::Off] {
            if durability == Durability::Off && (args.dashboard || !waits_for_the_disk(store)) {
                continue;
            }
            // The same provider over another server.
            let companions = store == Store::REDIS && !args.peers;
            let profile = profile(args, store, durability);
            let started = servers::start(&[store], companions, &profile)?;
            for seen in started.seen() {
                match seen.version {
                    Ok(version) => println!("bench: {} {version}", seen.kind.name()),
                    Err(why) => println!("bench: {} is NOT measured: {why}", seen.kind.name()),
                }
            }
            for (kind, url) in started.urls() {
                let name = kind.variable().replace("_TEST_", "_BENCH_");
                variables.push((format!("{name}{}_URL", suffix(durability)), url));
            }
            running.push(started);
        }
    }
    let mut command = steps::cargo();
    command
        .args(["run", "--quiet", "--bin", "shedlock-bench"])
        .args(package(args))
        .arg("--");
    match peers {
        Some(built) => command.arg("peers").envs(built).args(names(&args.stores)),
        None if args.dashboard => command.arg("dashboard"),
        None => command.args(words(&args.stores)),
    };
    command
        .envs(variables)
        .current_dir(env::current_dir().context("the current folder is gone")?);
    if let Some(rounds) = args.rounds {
        command.args(["--rounds", &rounds.to_string()]);
    }
    if args.quick {
        command.arg("--quick");
    }
    if let Some(json) = &args.json {
        command.arg("--json").arg(json);
    }
    match steps::complete(host.run(), &mut command)? {
        Outcome::Passed => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::FAILURE),
    }
}

fn profile(args: &Args, store: Store, durability: Durability) -> Profile {
    let extra_args = match store {
        Store::POSTGRES => POSTGRES_SETTINGS
            .iter()
            // Users' servers run autovacuum.
            .filter(|setting| !(args.peers || args.dashboard) || **setting != "autovacuum=off")
            .copied()
            .chain(args.peers.then_some(peers::POSTGRES_SETTING))
            .flat_map(|setting| ["-c".to_owned(), setting.to_owned()])
            .collect(),
        Store::MARIADB if args.peers => vec![peers::MARIADB_SETTING.to_owned()],
        _ => Vec::new(),
    };
    Profile {
        durability,
        extra_args,
        no_install: args.no_install,
        extracts_may_miss: args.stores.is_empty(),
        ..Profile::default()
    }
}

/// Whether by default it answers only when a commit is on disk, which hides all other cost.
fn waits_for_the_disk(store: Store) -> bool {
    matches!(store, Store::POSTGRES | Store::MARIADB | Store::MYSQL)
}

/// The suffix of the variable that contains the server's URL for the program.
fn suffix(durability: Durability) -> &'static str {
    match durability {
        Durability::AsShipped => "",
        Durability::Off => "_NO_FSYNC",
    }
}

/// The options that name these stores.
fn names(stores: &[Store]) -> Vec<String> {
    let named = stores.iter().map(|store| store.name().to_owned());
    named
        .flat_map(|name| ["--store".to_owned(), name])
        .collect()
}

/// The same, plus the stores that are measured alongside them.
fn words(stores: &[Store]) -> Vec<String> {
    let mut words = names(stores);
    // The same provider over another server.
    if stores.contains(&Store::REDIS) {
        words.extend(["--store".to_owned(), "valkey".to_owned()]);
    }
    words
}

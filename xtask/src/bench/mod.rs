//! `cargo xtask bench`: what locks cost, measured on throw-away servers with and without fsync.
//!
//! The measuring is done by a program of its own (`benches/`), so that xtask needs no database
//! client and is built in no time.

use crate::servers::{Durability, Profile, Servers, Store};
use crate::steps::{self, Outcome};
use anyhow::{Context as _, bail};
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this store; can be repeated. All if none is named.
    #[arg(long = "store", value_name = "STORE", value_enum)]
    stores: Vec<Store>,
    /// How often each side of a comparison is measured.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// A first impression: a few short rounds.
    #[arg(long)]
    quick: bool,
    /// Also write the rows as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Do not install what is missing.
    #[arg(long)]
    no_install: bool,
}

/// What every PostgreSQL is started with: nobody else writes while bytes are counted, and a log
/// file from which statements are.
const POSTGRES_SETTINGS: [&str; 6] = [
    "autovacuum=off",
    "logging_collector=on",
    "log_directory=log",
    "log_filename=bench.log",
    "log_rotation_size=0",
    "log_rotation_age=0",
];

/// Builds the program, starts the servers and runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let package = ["--release", "--package", "shedlock-benches"];
    let built = steps::cargo().arg("build").args(package).status();
    if !built.context("cargo could not be started")?.success() {
        bail!("the benchmark could not be built");
    }
    let named = !args.stores.is_empty();
    let stores = if named {
        &args.stores[..]
    } else {
        Store::all()
    };
    let mut servers = Vec::new();
    let mut variables = Vec::new();
    for store in stores.iter().copied().filter(|it| it.kind().is_some()) {
        for durability in [Durability::AsShipped, Durability::Off] {
            if durability == Durability::Off && !waits_for_the_disk(store) {
                continue;
            }
            let started = Servers::start(&[store], &profile(args, store, durability))?;
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
            servers.push(started);
        }
    }
    // Also where no store has a server: the folder and guard of the run.
    let host = Servers::start(&[], &Profile::default())?;
    let mut command = steps::cargo();
    command
        .args(["run", "--quiet"])
        .args(package)
        .arg("--")
        .args(words(&args.stores))
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
    let extra_args = if store == Store::Postgres {
        POSTGRES_SETTINGS
            .iter()
            .flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()])
            .collect()
    } else {
        Vec::new()
    };
    Profile {
        durability,
        extra_args,
        companions: store == Store::Redis,
        no_install: args.no_install,
        extracts_may_miss: args.stores.is_empty(),
        ..Profile::default()
    }
}

/// Whether it answers when a commit is on disk unless told otherwise, which hides all other cost.
fn waits_for_the_disk(store: Store) -> bool {
    matches!(store, Store::Postgres | Store::Mariadb | Store::Mysql)
}

/// At the end of the variable in which the program looks for the server's URL.
fn suffix(durability: Durability) -> &'static str {
    match durability {
        Durability::AsShipped => "",
        Durability::Off => "_NO_FSYNC",
    }
}

/// The program's own words for the stores.
fn words(stores: &[Store]) -> Vec<String> {
    let mut words = Vec::new();
    for store in stores {
        words.extend(["--store".to_owned(), store.name().to_owned()]);
        // The same provider over another server.
        if *store == Store::Redis {
            words.extend(["--store".to_owned(), "valkey".to_owned()]);
        }
    }
    words
}

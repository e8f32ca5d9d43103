//! `cargo xtask torture`: processes that are killed and stopped, and a network that cuts, delays and drops, over a
//! store that crashes, for as long as requested.

use crate::earlier::Earlier;
use crate::faketime;
use crate::servers::Store;
use crate::test;
use anyhow::{Context as _, bail};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `cargo xtask torture`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The store to use.
    #[arg(long, value_enum)]
    store: Store,
    /// How long to run, in minutes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Repeat the random choices of an earlier run, which printed this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// How many processes of real ShedLock to run alongside ours.
    #[arg(long, value_name = "PROCESSES", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=16))]
    java: u64,
    /// Instead, let processes of the command `shedlock run` contend: on PostgreSQL, MariaDB, MySQL,
    /// SQLite or Redis.
    #[arg(long, conflicts_with_all = ["java", "old", "rest", "json", "wrong"])]
    command: bool,
    /// Instead, use pools of an application, whose connections come back inside open transactions: on the SQL stores.
    #[arg(long, conflicts_with_all = ["command", "java", "old", "wrong"])]
    pool: bool,
    /// Instead, use this variant of the store from its conformance kit, such as `diesel-bb8` on
    /// `postgres`: another client, another table, another pool.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["command", "pool"])]
    variant: Option<String>,
    /// Run three workers of an earlier version alongside ours, as in a rolling upgrade, built from
    /// this revision of the repository, such as a tag.
    #[arg(long, value_name = "REVISION", conflicts_with = "wrong")]
    old: Option<String>,
    /// The longest pause of a worker between two attempts, in milliseconds; the pause between two
    /// faults is up to twenty times as long. Increase it for long runs, because the checker reads
    /// the whole history at the end.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 50)]
    rest: u64,
    /// Write a summary of the run to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Instead, let the processes follow this wrong protocol, or each known one if this is `all`,
    /// and check that the checker detects it. One of them needs `--java 3`.
    #[arg(long, value_name = "PROTOCOL", conflicts_with_all = ["minutes", "rest", "json"])]
    wrong: Option<String>,
    /// Do not install missing servers and tools.
    #[arg(long)]
    no_install: bool,
}

/// The wrong protocol that belongs to ShedLock.
const OF_ONE_HOST: &str = "shedlocks-of-one-host";

/// The stores on which ShedLock excludes others whatever happens to its processes.
const SHARED: [Store; 4] = [Store::POSTGRES, Store::MARIADB, Store::MYSQL, Store::REDIS];

/// Runs the one case of `testing/torture` on the store's plainest kind.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (package, target) = match args.store.kind() {
        Some(kind) => kind.kit(),
        None if args.store == Store::SQLITE => ("shedlock-sql", "conformance_sqlite"),
        None => bail!("the memory of a process cannot be shared with other processes"),
    };
    if args.java > 0 && !SHARED.contains(&args.store) {
        let shared = SHARED.map(Store::name).join(", ");
        bail!(
            "cannot torture ShedLock alongside ours on {}: ShedLock has no provider for it, or \
             one whose unlock frees the lock of any holder; name one of {shared}",
            args.store.name()
        );
    }
    if args.wrong.as_deref() == Some(OF_ONE_HOST) {
        if args.java < 2 {
            bail!("`{OF_ONE_HOST}` needs several processes of ShedLock: add `--java 3`");
        }
        if args.store == Store::REDIS {
            bail!("`{OF_ONE_HOST}` is not a fault on Redis, where each lease has its own value");
        }
    }
    let case = match args.wrong {
        None => "law01_exclusion::killed_and_stopped_processes".to_owned(),
        Some(_) => "wrong_protocols::".to_owned(),
    };
    // There are several kinds of each store. Their names are prefixes of the cases' names.
    let variant = match (&args.variant, args.pool) {
        (Some(variant), _) => variant,
        (None, true) => "pool",
        (None, false) => args.store.name(),
    };
    let case = format!("{variant}::{case}");
    let (package, target, case) = match args.command {
        true => (
            "shedlock-cli",
            "torture",
            format!("commands_on_{}", args.store.name()),
        ),
        false => (package, target, case),
    };
    let mut cargo_args = vec!["-p", package, "--test", target, "--", &case];
    if args.wrong.is_some() {
        // One after the other, because the time to find each one is of interest.
        cargo_args.push("--test-threads=1");
    }
    let mut arguments = test::Args::of(
        vec![args.store],
        args.no_install,
        cargo_args.into_iter().map(OsString::from).collect(),
    );
    let seconds = (args.minutes * 60).to_string();
    arguments = arguments.with_variable("SHEDLOCK_TORTURE_SECONDS", seconds);
    let rest = args.rest.to_string();
    arguments = arguments.with_variable("SHEDLOCK_TORTURE_REST_MILLIS", rest);
    if args.pool {
        arguments = arguments
            .with_variable(test::FULL, "1".to_owned())
            .with_variable("SHEDLOCK_TORTURE_RESETS", "1".to_owned());
    }
    if args.java > 0 {
        arguments = arguments
            .with_java()
            .with_variable("SHEDLOCK_TORTURE_JAVA", args.java.to_string());
    }
    if let Some(old) = &args.old {
        let executable = Earlier::of(old)?.test_target(package, target)?;
        let executable = executable.to_string_lossy().into_owned();
        arguments = arguments.with_variable("SHEDLOCK_TORTURE_OLD", executable);
    }
    if let Some(file) = &args.json {
        // The tests run in their own folder.
        let file = std::path::absolute(file).context("no path for the summary")?;
        let file = file.to_string_lossy().into_owned();
        arguments = arguments.with_variable("SHEDLOCK_TORTURE_SUMMARY", file);
    }
    // If there is none, the run reports it.
    let clocks =
        faketime::library(args.no_install).unwrap_or_else(|_| faketime::UNAVAILABLE.into());
    let clocks = clocks.to_string_lossy().into_owned();
    arguments = arguments.with_variable(faketime::VARIABLE, clocks);
    if let Some(wrong) = &args.wrong {
        arguments = arguments.with_variable("SHEDLOCK_TORTURE_WRONG", wrong.clone());
    }
    if let Some(seed) = args.seed {
        arguments = arguments.with_variable("SHEDLOCK_CONFORMANCE_SEED", seed.to_string());
    }
    test::run(&arguments)
}

//! `cargo xtask spring`: an application with Spring Boot and ShedLock shares its jobs with schedulers of ours.

use crate::servers::Store;
use crate::test;
use anyhow::bail;
use std::ffi::OsString;
use std::process::ExitCode;

/// Arguments of `cargo xtask spring`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The store to share: postgres or redis.
    #[arg(long, value_enum)]
    store: Store,
    /// How long to run, in minutes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Do not install missing servers and tools.
    #[arg(long)]
    no_install: bool,
}

/// The stores for which the application has settings.
const STORES: [Store; 2] = [Store::POSTGRES, Store::REDIS];

/// The package and the target of the test.
const PACKAGE: &str = "shedlock-cli";
const TARGET: &str = "spring";

/// Runs the one case of `crates/cli/tests/spring` on this store.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !STORES.contains(&args.store) {
        bail!(
            "the application has no settings for {}; name postgres or redis",
            args.store.name()
        );
    }
    let case = format!("on_{}", args.store.name());
    let cargo_args = ["-p", PACKAGE, "--test", TARGET, "--", &case];
    let cargo_args = cargo_args.into_iter().map(OsString::from).collect();
    let seconds = (args.minutes * 60).to_string();
    test::run(
        &test::Args::of(vec![args.store], args.no_install, cargo_args)
            .with_variable("SHEDLOCK_SPRING_SECONDS", seconds),
    )
}

/// Whether tests of these stores, narrowed by these arguments of `cargo test`, include that case.
pub(crate) fn is_meant(stores: &[Store], cargo_args: &[OsString]) -> bool {
    let has = |word: &str| cargo_args.iter().any(|arg| arg == word);
    let is_asked = cargo_args.is_empty() || has(PACKAGE) && (has(TARGET) || !has("--test"));
    is_asked && stores.iter().any(|store| STORES.contains(store))
}

//! `cargo xtask interop`: real ShedLock next to our providers.

use crate::servers::Store;
use crate::test;
use anyhow::bail;
use std::ffi::OsString;
use std::process::ExitCode;

/// Arguments of `cargo xtask interop`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use only this store; can be repeated. All stores that both support if none is named.
    #[arg(long = "store", value_name = "STORE", value_enum)]
    stores: Vec<Store>,
    /// Do not install missing servers and tools.
    #[arg(long)]
    no_install: bool,
}

/// The package of the tests.
const PACKAGE: &str = "shedlock-interop";

/// The stores that both ShedLock's artifacts and our providers support: those of the fleets in
/// `interop`.
const STORES: [Store; 6] = [
    Store::POSTGRES,
    Store::MARIADB,
    Store::MYSQL,
    Store::REDIS,
    Store::ZOOKEEPER,
    Store::MONGODB,
];

/// Builds both sides and runs the interop tests.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(store) = args.stores.iter().find(|store| !STORES.contains(store)) {
        let known: Vec<_> = STORES.iter().map(|store| store.name()).collect();
        bail!(
            "cannot test interop on {}: ShedLock has no module for it, or the module is \
             unavailable; name one of {}",
            store.name(),
            known.join(", ")
        );
    }
    let stores = if args.stores.is_empty() {
        STORES.to_vec()
    } else {
        args.stores.clone()
    };
    let cargo_args = ["-p", PACKAGE].map(OsString::from).to_vec();
    test::run(&test::Args::of(stores, args.no_install, cargo_args))
}

/// Whether tests of these stores, narrowed by these arguments of `cargo test`, also concern
/// ShedLock.
pub(crate) fn is_meant(stores: &[Store], cargo_args: &[OsString]) -> bool {
    let is_asked = cargo_args.is_empty() || cargo_args.iter().any(|arg| arg == PACKAGE);
    is_asked && stores.iter().any(|store| STORES.contains(store))
}

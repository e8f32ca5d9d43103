//! `cargo xtask soak`: everything that a service does, for an hour, and what has grown by then.
//!
//! A separate program (`testing/soak`) does it; see there.

use crate::servers::{self, Store};
use crate::steps::{self, Outcome};
use anyhow::bail;
use shedlock_rig::engine::Profile;
use shedlock_rig::host;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use this store; can be repeated: `postgres`, `redis` or `sqlite`, one after the other.
    #[arg(long = "store", value_name = "STORE", value_enum, default_values_t = [Store::POSTGRES])]
    stores: Vec<Store>,
    /// How long to use each store, in minutes.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=1440))]
    minutes: u64,
    /// Run only this part; can be repeated: `scheduler`, `names`, `restarts`, `pages` or `journal`.
    #[arg(long = "part", value_name = "PART")]
    parts: Vec<String>,
    /// Leak 100 bytes in each run of a job, which must be found.
    #[arg(long)]
    plant_leak: bool,
    /// Write all samples to this file.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Do not install missing servers and tools.
    #[arg(long)]
    no_install: bool,
}

/// The stores that the program is built with: a database, a server of another kind, and a file.
const STORES: [Store; 3] = [Store::POSTGRES, Store::REDIS, Store::SQLITE];

/// Builds the program and the command, and runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(store) = args.stores.iter().find(|store| !STORES.contains(store)) {
        let known = STORES.map(Store::name).join(", ");
        bail!(
            "cannot soak {}: the program is built without it; name one of {known}",
            store.name()
        );
    }
    steps::build_in_release(&["shedlock-soak", "shedlock-cli"])?;
    // Each part starts a server of its own, which is found or installed here.
    let profile = Profile {
        no_install: args.no_install,
        ..Profile::default()
    };
    let servers = servers::start(&args.stores, false, &profile)?;
    let programs = steps::target_folder().join("release");
    let mut command = std::process::Command::new(programs.join("shedlock-soak"));
    command
        .args(["--minutes", &args.minutes.to_string()])
        .args(
            args.stores
                .iter()
                .flat_map(|store| ["--store", store.name()]),
        )
        .args(args.parts.iter().flat_map(|part| ["--part", part]))
        .args(args.plant_leak.then_some("--plant-leak"))
        .env("SHEDLOCK_SOAK_COMMAND", programs.join("shedlock"));
    if let Some(file) = &args.samples {
        command.arg("--samples").arg(file);
    }
    if let Some(program) = host::own_program() {
        command.env("SHEDLOCK_TEST_XTASK", program);
    }
    match steps::complete(servers.run(), &mut command)? {
        Outcome::Passed => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::FAILURE),
    }
}

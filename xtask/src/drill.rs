//! `cargo xtask drill year`: what happens to a platform in a year, to real databases, hosts with cron and monitoring.
//!
//! A separate program (`testing/drill`) does it; see there.

use crate::recipes;
use crate::servers::{self, Store};
use crate::steps::{self, Outcome};
use anyhow::ensure;
use shedlock_rig::engine::Profile;
use shedlock_rig::{debian, host};
use std::process::ExitCode;

/// What watches them, and its `apt-get` packages.
const MONITORING: [(&str, &str); 2] = [
    ("prometheus", "prometheus"),
    ("prometheus-alertmanager", "prometheus-alertmanager"),
];

/// Arguments of `cargo xtask drill`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    drill: Drill,
}

#[derive(clap::Subcommand)]
enum Drill {
    /// Switchover, failover, restore and more on two PostgreSQL servers, with three hosts, Prometheus and Alertmanager:
    /// 45 minutes. Needs root, since cron does.
    Year(YearArgs),
}

#[derive(clap::Args)]
struct YearArgs {
    /// Only this event; can be repeated: `quiet`, `switchover`, `failover`, `standby-away`, `privileges`,
    /// `alter-table`, `restore` or `rename`.
    #[arg(long = "phase", value_name = "PHASE")]
    phases: Vec<String>,
    /// Let the first host run its jobs without a lock, which must be found.
    #[arg(long)]
    plant_bare: bool,
    /// Do not install missing servers and tools.
    #[arg(long)]
    no_install: bool,
}

/// Builds the program and the command, and runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Drill::Year(args) = &args.drill;
    ensure!(
        host::is_root(),
        "cron runs its jobs as root only: run this as root"
    );
    install(args.no_install)?;
    steps::build_in_release(&["shedlock-drill", "shedlock-cli"])?;
    // The drill starts servers of its own, which are found or installed here.
    let profile = Profile {
        no_install: args.no_install,
        ..Profile::default()
    };
    let servers = servers::start(&[Store::POSTGRES], false, &profile)?;
    let programs = steps::target_folder().join("release");
    let mut command = std::process::Command::new(programs.join("shedlock-drill"));
    command
        .args(args.phases.iter().flat_map(|phase| ["--phase", phase]))
        .args(args.plant_bare.then_some("--plant-bare"))
        .env("SHEDLOCK_DRILL_COMMAND", programs.join("shedlock"));
    if let Some(program) = host::own_program() {
        command.env("SHEDLOCK_TEST_XTASK", program);
    }
    match steps::complete(servers.run(), &mut command)? {
        Outcome::Passed => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::FAILURE),
    }
}

/// Installs the programs that are missing, or says how to.
fn install(no_install: bool) -> anyhow::Result<()> {
    let missing = || recipes::missing(&[recipes::CRONS, MONITORING].concat());
    let packages = missing();
    if !packages.is_empty() && !no_install && debian::can_install() {
        debian::install(&packages)?;
    }
    let packages = missing();
    ensure!(
        packages.is_empty(),
        "programs are missing: on Debian `{}`",
        debian::by_hand(&packages)
    );
    Ok(())
}

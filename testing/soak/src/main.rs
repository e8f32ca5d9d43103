//! Load for an hour, and what has grown by then.
//!
//! `cargo xtask soak` builds this program and starts it. It starts itself again for each [part](parts), reads the samples
//! that the parts print, and prints what became of each quantity.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for the terminal: what it prints is its product"
)]
#![allow(clippy::disallowed_methods, reason = "it measures real time")]

mod driver;
mod part;
mod parts;
mod quantity;
mod verdict;

use std::alloc::System;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cap::Cap;
use clap::Parser;
use parts::Part;

#[global_allocator]
static ALLOCATED: Cap<System> = Cap::new(System, usize::MAX);

/// Repeat everything that a service does for a long time, and judge what grows.
#[derive(Parser)]
struct Cli {
    /// Use this store; can be repeated.
    #[arg(long = "store", value_name = "STORE", required = true)]
    stores: Vec<String>,
    /// How long each store is used, in minutes.
    #[arg(long, value_name = "MINUTES")]
    minutes: u64,
    /// Leak 100 bytes in each run of a job.
    #[arg(long)]
    plant_leak: bool,
    /// Only this part; can be repeated.
    #[arg(long = "part", value_name = "PART", value_enum)]
    parts: Vec<Part>,
    /// Write all samples to this file.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Be this part, instead of starting it.
    #[arg(long, hide = true, value_enum)]
    run: Option<Part>,
}

/// What a part does, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    lasts: Duration,
    /// The time between two samples.
    every: Duration,
    plants_leak: bool,
}

impl Load {
    fn of(cli: &Cli) -> Self {
        let lasts = Duration::from_secs(cli.minutes * 60);
        let every = (lasts / 150).clamp(Duration::from_secs(1), Duration::from_secs(10));
        Self {
            lasts,
            every,
            plants_leak: cli.plant_leak,
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let ran = match cli.run {
        Some(part) => parts::run(part, &cli.stores[0], Load::of(&cli)).map(|()| true),
        None => driver::run(&cli),
    };
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

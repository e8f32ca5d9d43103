//! Project tasks: `cargo xtask test`, `cargo xtask interop`, `cargo xtask spring`, `cargo xtask torture`, `cargo xtask fuzz`,
//! `cargo xtask bench`, `cargo xtask soak`, `cargo xtask drill`, `cargo xtask servers up`, `cargo xtask table`, `cargo xtask api`,
//! `cargo xtask messages`, `cargo xtask sqlx08`, `cargo xtask lowest`, `cargo xtask deny`.
//!
//! Everything that needs a real database uses [`servers`]. It finds or installs the servers, runs
//! throw-away instances of them, and leaves nothing behind.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for the terminal: what it prints is its product"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "waits for real servers, and no test of ours replaces its clock"
)]

mod adoption;
mod api;
mod bench;
mod browser;
mod clients;
mod counts;
mod deny;
mod drill;
mod earlier;
#[cfg(test)]
mod edges;
mod executables;
mod faketime;
mod fuzz;
mod interop;
mod java;
mod kit;
mod lowest;
mod messages;
mod oldest_rust;
mod planted;
mod programs;
mod prometheus;
mod protoc;
mod publish;
mod recipes;
mod servers;
#[cfg(test)]
mod shape;
mod size;
mod soak;
mod spring;
mod sqlx08;
mod steps;
mod table;
mod test;
mod torture;

use clap::{Parser, Subcommand};
use shedlock_rig::{debian, host, interrupt};
use std::process::ExitCode;

/// Tasks of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Set up the real databases, check the code and run all tests.
    Test(test::Args),
    /// Test that real ShedLock and ours exclude each other, on each store that both support.
    Interop(interop::Args),
    /// Run the laws on a server of yours, and write a report that you can send.
    Kit(kit::Args),
    /// Share the jobs of an application with Spring Boot and ShedLock, for as long as you like, and count their ticks.
    Spring(spring::Args),
    /// Kill and stop processes while the network fails and the store crashes, for as long as you
    /// like.
    Torture(torture::Args),
    /// Run the functions that read untrusted input on random changes of known cases, for as long as
    /// you like.
    Fuzz(fuzz::Args),
    /// Measure what locks cost on the real databases, next to what the drivers cost.
    Bench(bench::Args),
    /// Repeat everything that a service does for an hour, and fail if anything grows or becomes slower.
    Soak(soak::Args),
    /// Let happen what happens to a platform in a year, and judge every slot and every alert.
    Drill(drill::Args),
    /// Start throw-away database servers for use by hand and by tests.
    #[command(subcommand)]
    Servers(servers::Command),
    /// Write the tables of stores in README.md and docs/stores.md, from the profiles that the conformance kit writes.
    Table,
    /// Write `docs/messages.md`: all that the product tells its users, and what to do about it.
    Messages(messages::Args),
    /// Compare the public API of the published crates with its snapshot in `api.txt` of each.
    Api(api::Args),
    /// Print what would be published, in order, or why a set of crates is refused.
    Publish(publish::Args),
    /// Check that an application that adds shedlock keeps the features of its clients.
    Adoption(adoption::Args),
    /// Check each crate that declares an older Rust version than CI uses, with that version.
    OldestRust,
    /// Build the libraries with the lowest versions of their dependencies that the manifests accept.
    Lowest,
    /// Plant known defects in the product, one at a time, and report which test convicts each. Takes hours.
    Planted(planted::Args),
    /// Count code lines by concern, now and at an earlier revision.
    Size(size::Args),
    /// Compare the modules of `shedlock-sqlx08` with those of `shedlock-sqlx`, of which they are copies.
    Sqlx08(sqlx08::Args),
    /// Check licences, advisories and sources of the dependencies with cargo-deny.
    Deny,
}

fn main() -> ExitCode {
    host::own_program();
    let cli = Cli::parse();
    if let Err(error) = interrupt::install() {
        return fail(&error);
    }
    let done = match cli.task {
        Task::Test(args) => test::run(&args),
        Task::Torture(args) => torture::run(&args),
        Task::Kit(args) => kit::run(&args),
        Task::Interop(args) => interop::run(&args),
        Task::Spring(args) => spring::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Drill(args) => drill::run(&args),
        Task::Servers(command) => servers::run(&command),
        Task::Table => table::run(),
        Task::Messages(args) => messages::run(&args),
        Task::Api(args) => api::run(&args),
        Task::Publish(args) => publish::run(&args),
        Task::Adoption(args) => adoption::run(&args),
        Task::OldestRust => oldest_rust::run(),
        Task::Lowest => lowest::run(),
        Task::Planted(args) => planted::run(&args),
        Task::Size(args) => size::run(&args),
        Task::Sqlx08(args) => sqlx08::run(&args),
        Task::Deny => deny::run(),
    };
    match done {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("xtask: {error:#}");
    ExitCode::FAILURE
}

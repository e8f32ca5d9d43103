//! The command `shedlock` as its users see it: real processes, a real store.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod common;

mod attributes;
mod codes;
mod deadline;
mod disk;
mod exit_codes;
mod extend;
mod generated;
mod hold;
mod journal;
mod journal_store;
mod keep_alive;
mod list;
mod lost_state;
mod messages;
mod metrics;
mod migrate;
mod namespaces;
mod nested;
mod not_lost;
mod pause;
#[path = "../../../pings/tests/support/mod.rs"]
mod ping_server;
mod pings;
mod private;
mod proxy;
mod prune;
mod readers;
mod release;
mod rotated;
mod run;
mod run_messages;
mod scripts;
#[cfg(feature = "ui")]
mod server;
mod signals;
mod slots;
mod store;
mod terminal;
#[cfg(feature = "ui")]
mod ui;
mod unused_slots;

mod waiting;

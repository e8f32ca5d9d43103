//! The command on real databases: what depends on the database and on what is in front of it.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

#[path = "../command/common.rs"]
mod common;

mod away;
mod java;
mod migrate;
mod moving;
mod other_tables;
mod pooler;
mod said;

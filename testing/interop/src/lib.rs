//! Runs real ShedLock and this project against one store, to show which locks exclude each other
//! and what happens to leases that have ended.
//!
//! [`Java`] is a process of ShedLock that executes commands (`testing/interop/java`), and [`Spring`] an application with
//! Spring Boot (`testing/interop/spring`). [`Fleet`]
//! sets up a store that both sides share. The cases are in `tests/interop`. `docs/interop.md`
//! contains their results as a table, which a test compares with the code.

mod fleet;
mod fleets;
mod java;
mod place;
mod spring;
mod table;

pub use fleet::{Fleet, OursFirst, Second};
pub use fleets::Fleets;
pub use java::{Handle, Java, Provider, Run, Runs, Scheduled};
pub use place::Place;
pub use spring::{Ran, Runs as SpringRuns, Spring};
pub use table::{Cell, table};

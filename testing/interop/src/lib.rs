//! Real ShedLock and ours on one store: what excludes whom, and what outlives what.
//!
//! [`Java`] is a process of ShedLock's that does what it is told (`testing/interop/java`); [`Fleet`] sets up
//! a store that both share. What is shown with them is in `tests/interop`, and in `docs/interop.md`
//! as a table that a test holds to the code.

mod fleet;
mod fleets;
mod java;
mod place;
mod table;

pub use fleet::{Fleet, OursFirst, Second};
pub use fleets::Fleets;
pub use java::{Handle, Java, Provider, Run, Runs, Scheduled};
pub use table::{Cell, table};

//! What shows that the lock protocol is right, for every way in which it is tried out.
//!
//! Torture (`testing/torture`), the simulation (`testing/simulation`) and the self-test of the
//! conformance kit share
//!
//! - [`history`]: the events of a history, and the one judge of them;
//! - [`Recorded`]: a provider that records its calls as such events;
//! - [`SeededRng`]: random numbers that a seed reproduces.

pub mod history;
mod recorded;
mod rng;

pub use recorded::{Recorded, Recorder};
pub use rng::SeededRng;

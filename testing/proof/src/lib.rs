//! What shows that the lock protocol is right, for every way in which it is tried out.
//!
//! Torture (`testing/torture`), the simulation (`testing/simulation`) and the self-test of the
//! conformance kit share
//!
//! - [`history`]: the events of a history, and the one judge of them;
//! - [`Mistake`]: the one list of known wrong protocols, which [`Mistaken`] switches into a provider;
//! - [`Recorded`]: a provider that records its calls as such events;
//! - [`SeededRng`]: random numbers that a seed reproduces.

pub mod history;
mod mistake;
mod recorded;
mod rng;

pub use mistake::{At, Mistake, Mistaken, Records, Shared, Surroundings};
pub use recorded::{Recorded, Recorder};
pub use rng::SeededRng;

//! A model of the lock protocol, and the real code in a simulated world.
//!
//! The model contains what the runtime and the stores have in common, but none of their code:
//! clients with their own clocks that may be stopped or die, requests that arrive late, twice or
//! never, lost replies, and one record. It tries every order of events within small bounds.
//! `tests/model.rs` checks the laws of the contract in it. It also checks that each protocol that
//! is known to be wrong ([`Wrong`]) breaks the expected law: a model in which nothing can break
//! proves nothing.
//!
//! The simulation ([`simulate`]) runs the real code. A seed decides the order of everything: one
//! thread runs the nodes of a world whose time, network and store are derived from the seed, and a
//! judge of histories judges what they did, by the true time. `tests/simulation.rs` runs many seeds.

mod chronicle;
mod liveness;
mod model;
mod run;
mod store;
mod transition;
mod workload;
mod world;

pub use model::{Bounds, Ending, Event, JudgedBy, Law, Protocol, Protocols, Slots, State, Wrong};
pub use run::{Failure, Report, simulate};
pub use transition::{Counts, Transition};

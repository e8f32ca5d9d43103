//! The protocol of a lock as a model, and the real code in a simulated world.
//!
//! The model has what the runtime and the stores have in common and nothing of their code: clients
//! with clocks of their own that may be stopped or die, requests that arrive late, twice or never,
//! replies that are lost, and one record; every order of events within small bounds is tried.
//! `tests/model.rs` checks the laws of the contract in it, and that each protocol that is known to be
//! wrong ([`Wrong`]) breaks the law that it is known to break: a model in which nothing can break proves
//! nothing.
//!
//! The simulation ([`simulate`]) has all of their code; a seed decides the order of everything: one thread
//! runs the nodes of a world whose time, network and store are drawn from a seed, and a ledger that knows
//! the true time judges what they do. `tests/simulation.rs` runs many seeds.

mod law;
mod ledger;
mod model;
mod rng;
mod run;
mod store;
mod transition;
mod workload;
mod world;

pub use law::Law;
pub use model::{Bounds, Ending, Event, JudgedBy, Protocol, Protocols, Slots, State, Wrong};
pub use run::{Failure, Report, simulate};
pub use transition::{Counts, Transition};

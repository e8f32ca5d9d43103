//! The protocol of a lock as a model, in which every order of events within small bounds is tried.
//!
//! The model has what the runtime and the stores have in common and nothing of their code: clients
//! with clocks of their own that may be stopped or die, requests that arrive late, twice or never,
//! replies that are lost, and one record. `tests/model.rs` checks the laws of the contract in it, and
//! that each protocol that is known to be wrong ([`Wrong`]) breaks the law that it is known to break: a
//! model in which nothing can break proves nothing.

mod law;
mod model;

pub use law::Law;
pub use model::{Bounds, Event, JudgedBy, Protocol, Protocols, Slots, State, Wrong};

//! The engine for any store that can replace a record if its version still stands.
//!
//! What such stores have in common is written here, once: who may take a lock, what becomes of a lost race or a
//! lost answer, fencing tokens, slots. A store implements three calls and a codec ([`VersionedStore`]);
//! [`Versioned`] makes a [`Store`](crate::Store) of it.
//!
//! # Whose clock
//!
//! Few of these stores tell the time, so by default the **clients' clocks** judge, and may differ
//! from each other by [`DEFAULT_TOLERATED_SKEW`] (see
//! [`with_tolerated_skew`](Versioned::with_tolerated_skew)). The difference is taken off twice,
//! since either side may share the store with ShedLock, which allows for none:
//!
//! - the runtime ends a lease of ours that much before its end in the record, so a node that is
//!   ahead, ours or ShedLock's, takes no lock over from a holder that still runs;
//! - a lease of another owner counts as over that much after its end, so a node of ours that is
//!   ahead takes over none of ShedLock's that still runs.
//!
//! An unlocked record is judged by its end alone, by ours and by ShedLock's nodes. So an unlock writes an
//! end that much before now, and the lock is free at once for a node that is behind, too. What at-least
//! keeps is written as it is: a node that is ahead takes the lock earlier by as much as the clocks
//! differ.
//!
//! So a lock whose holder crashed comes free that much later, which the provider declares as its
//! granularity; at-most has to be longer than the tolerance. Where each answer of the store carries its
//! time, the store says so ([`store_time`](VersionedStore::store_time)), and that clock judges instead.
//!
//! # Requests that arrive late
//!
//! A write that was given up can still reach the store: in a socket's buffer, in a proxy, in a server
//! that was paused. Here **versions** keep it from doing harm, not times: every write names the version
//! that its own call read or that its lease carries, or that there is none, and the store refuses it once
//! that version is gone. So an attempt carries no not-after
//! ([`AttemptRequest::timeout`](shedlock_core::AttemptRequest::timeout) has no effect here), and no
//! clock takes part:
//!
//! - once a copy of an attempt has won, no other copy can: they name the same version, or an older one;
//! - a late extension cannot cut a later one short, since the later one replaced its version. An
//!   extension never shortens a lease either: the record keeps the later end, which the returned lease
//!   has;
//! - a **withdrawal** makes sure that the version which a copy names no longer stands. It ends a lease
//!   that the attempt has won. Otherwise it replaces a free record by the same one, whose end moves by a
//!   millisecond because some stores keep the version of a record that does not change. Where there is no
//!   record, it creates a released one, which is free for everyone, ShedLock included. A record that
//!   another owner holds is left alone: it replaced whatever a copy can name.
//!
//! What remains: until it is withdrawn, a copy can take the lock, for at-most from when it was sent. And
//! if someone deletes the record by hand after the withdrawal, a copy that is still on its way and was
//! sent when there was none finds none again.
//!
//! # What it costs
//!
//! | call | requests |
//! |---|---|
//! | attempt that loses | 1: a read |
//! | attempt that wins | 2: a read, a conditional write |
//! | extend, unlock | 1: a conditional write against the version that the lease carries; with a read before it where the store's time is needed or versions can repeat |
//! | withdrawal | 2: a read, a conditional write; 1 where another owner holds the lock |
//!
//! and two more for each race that is lost on the way. Races are bounded: an attempt that lost
//! four is skipped as contended, and nothing here waits for a lock.

mod attempt;
mod ending;
mod engine;
mod record;
mod settings;
mod store;
mod time;
mod withdrawal;

pub use engine::{DEFAULT_TOLERATED_SKEW, Versioned};
pub use record::Record;
pub use settings::VersionedSettings;
pub use store::{Found, Listed, Reading, VersionedStore, Written};
pub use time::whole_millis;

//! The engine for any store that can replace a record if its version has not changed.
//!
//! The engine implements what these stores have in common: who may take a lock, what happens after a lost race or a
//! lost reply, fencing tokens and slots. A store implements three calls and a codec ([`VersionedStore`]). [`Versioned`]
//! turns it into a [`Store`](crate::Store).
//!
//! # Clocks
//!
//! Few of these stores report their time. By default, leases are therefore judged by the **clients' clocks**, which may
//! differ from each other by [`DEFAULT_TOLERATED_SKEW`] (see [`with_tolerated_skew`](Versioned::with_tolerated_skew)).
//! The skew is subtracted twice, because either side may share the store with ShedLock, which allows for no skew:
//!
//! - The runtime ends a lease of ours before its recorded end, by the skew. A node whose clock is ahead, ours or
//!   ShedLock's, therefore never takes a lock over from a running holder.
//! - A lease of another owner counts as expired only after its recorded end plus the skew. A node of ours whose clock
//!   is ahead therefore never takes a lock over from a running ShedLock holder.
//!
//! Unlocked records are different: our nodes and ShedLock's judge them by their end alone. An unlock therefore writes
//! an end that lies in the past by the skew, so that the lock is free at once even for a node whose clock is behind.
//! The end that at-least requires is written unchanged: a node whose clock is ahead takes that lock earlier, by the
//! difference between the clocks.
//!
//! A lock whose holder crashed is therefore freed later, by the skew. The provider declares this as its granularity,
//! and at-most must be longer than the skew. If every reply of the store carries its time, the store declares that
//! ([`store_time`](VersionedStore::store_time)), and leases are judged by that clock instead.
//!
//! # Requests that arrive late
//!
//! A write that its caller gave up on can still reach the store later: from a socket's buffer, from a proxy, or in a
//! server that was paused. **Versions** make these writes harmless, without any use of time. Every write names the
//! version that its own call read or that its lease carries, or requires that there is no record. The store refuses the
//! write once that version has been replaced. An attempt therefore carries no not-after time
//! ([`AttemptRequest::timeout`](shedlock_core::AttemptRequest::timeout) has no effect here), and no clock is involved:
//!
//! - Once a copy of an attempt has won, no other copy can win: all copies name the same version or an older one.
//! - A late extension cannot cut a newer extension short, because the newer one replaced its version. An extension
//!   never shortens a lease either: the record keeps the later of the two ends, and the returned lease has that end.
//! - A **withdrawal** makes sure that any version a copy can name has been replaced. It ends a lease that the attempt
//!   has won. Otherwise it replaces a free record by an equivalent one. The end of that record moves by a millisecond,
//!   because some stores keep the version of a record that does not change. If there is no record, the withdrawal
//!   creates a released one, which is free for everyone, including ShedLock. A record that another owner holds is left
//!   alone: it has already replaced every version that a copy can name.
//!
//! Two gaps remain:
//!
//! - Until the attempt is withdrawn, a copy can take the lock, for at-most counted from when the copy was sent.
//! - A copy that was sent when there was no record can win after the withdrawal, if the record is deleted by hand
//!   before the copy arrives.
//!
//! # Cost
//!
//! | call | requests |
//! |---|---|
//! | attempt that loses | 1: a read |
//! | attempt that wins | 2: a read, a conditional write |
//! | extend, unlock | 1: a conditional write against the version that the lease carries; preceded by a read if the store's time is needed or versions can repeat |
//! | withdrawal | 2: a read, a conditional write; 1 if another owner holds the lock |
//!
//! Each race lost on the way adds two more. Races are bounded: an attempt that loses four of them is skipped as
//! contended. Nothing here waits for a lock.

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

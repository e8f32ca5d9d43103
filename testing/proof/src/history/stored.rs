//! What a store itself did.

use serde::{Deserialize, Serialize};

/// A step of the store, written by the store itself. Moments are on the clock of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stored {
    /// It granted the lock to this owner.
    Granted {
        /// The fencing token.
        token: Option<u64>,
        /// The slot, in microseconds since 1970.
        slot: Option<i64>,
        /// The moment from which at-least counts, according to the record.
        from: u64,
        /// The end of the lease.
        until: u64,
        /// Whether the network made a copy of the request, and the copy won. No client has this
        /// lease.
        is_copy: bool,
    },
    /// It set the end of this owner's lease.
    Extended {
        /// The end of the lease.
        until: u64,
    },
    /// It ended this owner's lease for the owner.
    Ended {
        /// Whether a withdrawal ended it. If the record does not show that, what the owner sent
        /// decides.
        is_withdrawn: Option<bool>,
        /// Whether the slot is done.
        is_done: bool,
        /// When the lock is free, which at-least may keep.
        free: u64,
    },
    /// The record's slots after this owner's lease has ended.
    Slots {
        /// The last slot, in microseconds since 1970.
        last: Option<i64>,
        /// How often an open slot was attempted.
        attempts: Option<u32>,
    },
    /// An operator freed the lock, whoever held it.
    Freed,
    /// The record was deleted or went back to an earlier one, without any call. The owner is the one
    /// in the earlier record.
    Reverted(Option<Earlier>),
    /// The record names this owner, or none, after a call.
    Holds {
        /// The end of the lease in the record.
        until: u64,
    },
}

/// An earlier record that was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// The fencing token.
    pub token: Option<u64>,
    /// The moment from which at-least counts.
    pub from: u64,
    /// The end of the lease.
    pub until: u64,
    /// Whether the owner had given the lock back.
    pub is_released: bool,
    /// The last slot, in microseconds since 1970.
    pub slot: Option<i64>,
    /// Whether it is done.
    pub is_done: bool,
    /// How often it was attempted.
    pub attempts: u32,
}

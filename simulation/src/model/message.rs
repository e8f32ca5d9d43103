//! Between a client and the store.

use crate::model::record::{Owner, Record};

/// What is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    /// To the store: look and take it.
    Attempt { owner: Owner, slot: Option<i8> },
    /// To the store: what is on record?
    Read { owner: Owner, slot: Option<i8> },
    /// To a client: this is.
    Found {
        owner: Owner,
        slot: Option<i8>,
        record: Option<Record>,
    },
    /// To the store: this instead of what had that version.
    Write {
        owner: Owner,
        version: u8,
        record: Record,
    },
    /// To a client: whether it has the lock.
    Answered { owner: Owner, is_granted: bool },
    /// To the store. The instant is the client's, where clients judge.
    Extend {
        owner: Owner,
        judged: Option<i8>,
        asked: i8,
    },
    /// To a client: it is extended as of the instant of the question.
    Extended { owner: Owner, asked: i8 },
    /// To the store.
    Unlock {
        owner: Owner,
        judged: Option<i8>,
        is_done: bool,
    },
}

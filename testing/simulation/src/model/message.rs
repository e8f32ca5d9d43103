//! The messages between a client and the store.

use crate::Ending;
use crate::model::record::{Owner, Record};

/// A call of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    /// The number of the copy matters if unlocks get replies: the client waits for the reply to the
    /// last one.
    Attempt {
        slot: Option<i8>,
        copy: u8,
    },
    /// Extends by this much, sent at that instant.
    Extend {
        by: i8,
        asked: i8,
    },
    Unlock {
        ending: Ending,
    },
    /// Withdraws immediately, or after the bound.
    Withdraw {
        is_last: bool,
    },
}

/// A message in flight. It stays in flight until it arrives, even if its sender has given up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    /// To a store that reads and writes in one step. An attempt is refused after `not_after`.
    Ask {
        owner: Owner,
        call: Call,
        not_after: Option<i8>,
    },
    /// To a store that replaces records by version: reads the record.
    Read { owner: Owner, call: Call },
    /// To a client: the record that was read.
    Found {
        owner: Owner,
        call: Call,
        record: Option<Record>,
    },
    /// To the store: write this next to the lock, then send the write.
    WriteBeside {
        owner: Owner,
        call: Call,
        version: u8,
        record: Record,
    },
    /// To the store: write this in place of the given version.
    Write {
        owner: Owner,
        call: Call,
        version: u8,
        record: Record,
    },
    /// To a client: another write came first.
    Raced { owner: Owner, call: Call },
    /// To a client: done, with the current record; or not done.
    Answered {
        owner: Owner,
        call: Call,
        done: Option<Record>,
    },
}

impl Call {
    /// Whether this is the unlock of a lease that gives back its slot or its attempt.
    pub(crate) fn gives_back(self) -> bool {
        matches!(
            self,
            Self::Unlock {
                ending: Ending::NotStarted | Ending::Cut
            }
        )
    }
}

impl Message {
    /// The client that receives it, if it is for a client.
    pub(crate) fn recipient(&self) -> Option<Owner> {
        match self {
            Self::Found { owner, .. }
            | Self::Raced { owner, .. }
            | Self::Answered { owner, .. } => Some(*owner),
            _ => None,
        }
    }
}

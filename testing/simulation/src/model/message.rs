//! Between a client and the store.

use crate::Ending;
use crate::model::record::{Owner, Record};

/// What a client wants of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    /// The copy counts where unlocks are answered: a client waits for the answer to the last one.
    Attempt {
        slot: Option<i8>,
        copy: u8,
    },
    /// For so long, asked at that instant.
    Extend {
        by: i8,
        asked: i8,
    },
    Unlock {
        ending: Ending,
    },
    /// At once, or past the bound.
    Withdraw {
        is_last: bool,
    },
}

/// What is on its way. It stays there until it arrives, also when its sender has given up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    /// To a store that looks and writes in one step. An attempt is refused after the instant.
    Ask {
        owner: Owner,
        call: Call,
        not_after: Option<i8>,
    },
    /// To a store that replaces what still stands: what is on record?
    Read { owner: Owner, call: Call },
    /// To a client: this is.
    Found {
        owner: Owner,
        call: Call,
        record: Option<Record>,
    },
    /// To the store: this beside the lock, and then the write.
    WriteBeside {
        owner: Owner,
        call: Call,
        version: u8,
        record: Record,
    },
    /// To the store: this instead of what had that version.
    Write {
        owner: Owner,
        call: Call,
        version: u8,
        record: Record,
    },
    /// To a client: another write came before.
    Raced { owner: Owner, call: Call },
    /// To a client: done, and the record as it is now; or not.
    Answered {
        owner: Owner,
        call: Call,
        done: Option<Record>,
    },
}

impl Call {
    /// Whether this is the unlock of a lease that gives its slot, or its attempt, back.
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
    /// The client that it is for, where it is for one.
    pub(crate) fn recipient(&self) -> Option<Owner> {
        match self {
            Self::Found { owner, .. }
            | Self::Raced { owner, .. }
            | Self::Answered { owner, .. } => Some(*owner),
            _ => None,
        }
    }
}

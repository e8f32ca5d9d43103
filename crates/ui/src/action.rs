//! The actions of operators, and their words.

use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Pause,
    Resume,
    Unlock,
    Extend,
    SlotReset,
    RunNow,
}

impl Action {
    pub(crate) const ALL: [Self; 6] = [
        Self::Pause,
        Self::Resume,
        Self::Unlock,
        Self::Extend,
        Self::SlotReset,
        Self::RunNow,
    ];

    /// The word of the journal's audit.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Unlock => "unlock",
            Self::Extend => "extend",
            Self::SlotReset => "slot-reset",
            Self::RunNow => "run-now",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Pause => "Pause",
            Self::Resume => "Resume",
            Self::Unlock => "Unlock",
            Self::Extend => "Extend",
            Self::SlotReset => "Reset slot",
            Self::RunNow => "Run now",
        }
    }

    /// What the page reports afterwards.
    pub(crate) fn done(self) -> &'static str {
        match self {
            Self::Pause => "Paused.",
            Self::Resume => "Resumed.",
            Self::Unlock => "Unlocked.",
            Self::Extend => "The lease was extended.",
            Self::SlotReset => "The last slot was reset.",
            Self::RunNow => {
                "The run was requested. It is among the latest runs once it has started."
            }
        }
    }

    pub(crate) fn parse(word: &str) -> Result<Self, Failure> {
        let known = Self::ALL.into_iter().find(|action| action.word() == word);
        known.ok_or_else(|| Failure::not_found("there is no such action"))
    }
}

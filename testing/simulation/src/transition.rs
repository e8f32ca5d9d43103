//! Counts what can happen between clients and a store.

use crate::{Ending, Event};

/// Defines the transitions and lists them.
macro_rules! transitions {
    ($($name:ident),* $(,)?) => {
        /// A transition of the protocol, or a fault. A run of many seeds must produce each of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        #[expect(missing_docs, reason = "the names say it, and they are what is printed")]
        pub enum Transition {
            $($name),*
        }

        impl Transition {
            /// All transitions.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

transitions! {
    // Attempts.
    Asked,
    AskedAgain,
    Won,
    WonAfterExpiry,
    FoundItself,
    SkippedAsHeld,
    SkippedByAtLeast,
    GivenUpUnknown,
    Withdrawn,
    GrantedToNobody,
    CameTooLate,
    RefusedAsLate,
    RefusedAsEnded,
    WithdrawnForGood,
    Barred,
    LostRace,
    // Leases.
    Extended,
    ExtendedByLess,
    ExtensionRefused,
    Unlocked,
    UnlockRefused,
    UnlockFailed,
    ForcedFree,
    LostAtDeadline,
    LostInStore,
    RanTooLong,
    // Slots.
    SlotTaken,
    SlotRefused,
    SlotDone,
    SlotFailed,
    SlotTakenOver,
    SlotGivenUp,
    SlotGivenBack,
    SlotPending,
    SlotBackingOff,
    SlotAhead,
    // Tasks.
    TaskFinished,
    TaskCancelled,
    TaskPanicked,
    TaskDropped,
    TaskWentOn,
    ShutDown,
    RunCut,
    // Messages.
    Refused,
    RequestLost,
    ReplyLost,
    Cut,
    Delayed,
    ArrivedTwice,
    // The world.
    Crashed,
    CrashedHolding,
    Stopped,
    StoppedPastDeadline,
    ClockJumped,
    Parted,
    StoreRestarted,
    TailLost,
    ReadStale,
    Deleted,
}

impl Transition {
    /// Returns the transitions that count an event of the model, depending on its outcome; time
    /// itself is not counted.
    pub fn of(event: &Event) -> &'static [Self] {
        match event {
            Event::Tick => &[],
            Event::Want(..) => &[Self::Asked],
            Event::AskAgain(_) => &[Self::AskedAgain],
            Event::Arrive(_) => &[
                Self::Won,
                Self::WonAfterExpiry,
                Self::FoundItself,
                Self::SkippedAsHeld,
                Self::SlotRefused,
                Self::LostRace,
                Self::Extended,
                Self::ExtensionRefused,
                Self::Unlocked,
                Self::UnlockRefused,
                Self::CameTooLate,
                Self::ArrivedTwice,
                Self::Delayed,
            ],
            Event::Lose(_) => &[Self::RequestLost, Self::ReplyLost],
            Event::GiveUp(_) => &[Self::GivenUpUnknown, Self::Withdrawn],
            Event::WithdrawForGood(_) => &[Self::WithdrawnForGood],
            Event::AskExtension(..) => &[Self::Extended, Self::ExtensionRefused],
            Event::Finish(_, Ending::Done) => &[Self::TaskFinished, Self::SlotDone],
            Event::Finish(_, Ending::Failed) => &[Self::SlotFailed, Self::SlotTakenOver],
            Event::Finish(_, Ending::Cut) => &[Self::RunCut],
            Event::Finish(_, Ending::NotStarted) => &[Self::SlotGivenBack],
            Event::End(_) => &[Self::LostAtDeadline, Self::TaskCancelled],
            Event::Stop(_) => &[Self::Stopped],
            Event::Wake(_) => &[Self::StoppedPastDeadline],
            Event::Die(_) => &[Self::Crashed, Self::CrashedHolding],
            Event::LoseTail => &[Self::TailLost],
        }
    }
}

/// How often each transition was seen.
#[derive(Clone, PartialEq, Eq)]
pub struct Counts(Vec<u64>);

impl Counts {
    pub(crate) fn add(&mut self, transition: Transition) {
        self.0[transition as usize] += 1;
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    /// Returns how often this transition was seen.
    pub fn of(&self, transition: Transition) -> u64 {
        self.0[transition as usize]
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self(vec![0; Transition::ALL.len()])
    }
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = Transition::ALL.iter().map(|one| (one, self.of(*one)));
        f.debug_map().entries(counted).finish()
    }
}

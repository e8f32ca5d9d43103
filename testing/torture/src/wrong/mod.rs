//! Deliberately wrong protocols, each of which the judge of histories must detect.
//!
//! They are known mistakes from the field and from the model. Each is inserted between a worker and
//! a correct provider, whatever the store, or into the clock of its executor.

mod clock;
mod late;
mod provider;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shedlock_conformance::{Provider, Stop, Verdict};
use shedlock_core::{Capabilities, Clock};

use crate::wall_clock;
use clock::WrongClock;
use provider::WrongProvider;
use shedlock_proof::SeededRng;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wrong {
    /// All processes share one host, and the host is the owner.
    OwnerIsHost,
    /// An unlock does not compare the owner.
    UnlockWithoutOwner,
    /// An unlock returns "unlocked" and changes nothing.
    UnlockForgotten,
    /// An extension checks that the lock is held, but not by whom.
    ExtendWithoutOwner,
    /// An extension reacquires an expired lock.
    ExtendRevives,
    /// A record that was read as free is overwritten, whatever happened in between.
    ReadThenWrite,
    /// A lease ends slightly before at-most.
    EndsEarly,
    /// A lease continues for a while after at-most.
    EndsLate,
    /// At-least counts from an instant before the acquisition.
    AtLeastTooEarly,
    /// An unlock ignores at-least.
    AtLeastForgotten,
    /// The task runs until the end of its lease as counted from the reply.
    DeadlineFromReply,
    /// A repeated request counts its deadline from the last repetition.
    DeadlineFromLastAsk,
    /// The task of a process that was stopped does one more step before it checks the clock.
    NoLookAfterPause,
    /// Each process counts its own tokens.
    TokensOfProcess,
    /// A token is the second in which the lock was acquired.
    TokensStand,
    /// A slot is remembered only while its lease runs.
    SlotOfLeaseOnly,
    /// A slot only has to differ from the last one; it does not have to be later.
    SlotsAnyOrder,
    /// A slot is given back a second time, even if another owner has it then.
    SlotGivenBackTwice,
    /// One client's clock is ahead by half a lease, and the clients' clocks judge.
    ClockAhead,
    /// The clients' clocks judge, and one of them is really ahead by more than is tolerated.
    ClocksApart,
    /// A copy of an unanswered attempt is granted long after its timeout.
    LateAttempt,
    /// A shorter extension, sent earlier, arrives late and moves the end of the lease back.
    LateExtension,
    /// An attempt that finds the lock given back by its own owner acquires it again.
    OwnerReturns,
    /// An attempt ignores pauses.
    PauseIgnored,
    /// An unlock that finds its lease replaced by a pause frees the pause.
    PauseFreedByUnlock,
    /// A pause that should wait takes the lock from its holder.
    PauseTakesTheLock,
    /// A pause ends after half its time.
    PauseEndsEarly,
    /// Slots that fall due during a pause can be run after it.
    PauseForgetsSlots,
    /// A forced unlock frees a pause.
    PauseForced,
    /// A resumption returns "resumed" and changes nothing.
    ResumeForgotten,
    /// Processes of real ShedLock share one host, which is their owner.
    ShedlocksOfOneHost,
}

impl Wrong {
    pub(crate) const ALL: [Self; 31] = [
        Self::OwnerIsHost,
        Self::UnlockWithoutOwner,
        Self::UnlockForgotten,
        Self::ExtendWithoutOwner,
        Self::ExtendRevives,
        Self::ReadThenWrite,
        Self::EndsEarly,
        Self::EndsLate,
        Self::AtLeastTooEarly,
        Self::AtLeastForgotten,
        Self::DeadlineFromReply,
        Self::DeadlineFromLastAsk,
        Self::NoLookAfterPause,
        Self::TokensOfProcess,
        Self::TokensStand,
        Self::SlotOfLeaseOnly,
        Self::SlotsAnyOrder,
        Self::SlotGivenBackTwice,
        Self::ClockAhead,
        Self::ClocksApart,
        Self::LateAttempt,
        Self::LateExtension,
        Self::OwnerReturns,
        Self::PauseIgnored,
        Self::PauseFreedByUnlock,
        Self::PauseTakesTheLock,
        Self::PauseEndsEarly,
        Self::PauseForgetsSlots,
        Self::PauseForced,
        Self::ResumeForgotten,
        Self::ShedlocksOfOneHost,
    ];

    /// Its name in the environment variable.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OwnerIsHost => "owner-is-host",
            Self::UnlockWithoutOwner => "unlock-without-owner",
            Self::UnlockForgotten => "unlock-forgotten",
            Self::ExtendWithoutOwner => "extend-without-owner",
            Self::ExtendRevives => "extend-revives",
            Self::ReadThenWrite => "read-then-write",
            Self::EndsEarly => "ends-early",
            Self::EndsLate => "ends-late",
            Self::AtLeastTooEarly => "at-least-too-early",
            Self::AtLeastForgotten => "at-least-forgotten",
            Self::DeadlineFromReply => "deadline-from-reply",
            Self::DeadlineFromLastAsk => "deadline-from-last-ask",
            Self::NoLookAfterPause => "no-look-after-pause",
            Self::TokensOfProcess => "tokens-of-process",
            Self::TokensStand => "tokens-stand",
            Self::SlotOfLeaseOnly => "slot-of-lease-only",
            Self::SlotsAnyOrder => "slots-any-order",
            Self::SlotGivenBackTwice => "slot-given-back-twice",
            Self::ClockAhead => "clock-ahead",
            Self::ClocksApart => "clocks-apart",
            Self::LateAttempt => "late-attempt",
            Self::LateExtension => "late-extension",
            Self::OwnerReturns => "owner-returns",
            Self::PauseIgnored => "pause-ignored",
            Self::PauseFreedByUnlock => "pause-freed-by-unlock",
            Self::PauseTakesTheLock => "pause-takes-the-lock",
            Self::PauseEndsEarly => "pause-ends-early",
            Self::PauseForgetsSlots => "pause-forgets-slots",
            Self::PauseForced => "pause-forced",
            Self::ResumeForgotten => "resume-forgotten",
            Self::ShedlocksOfOneHost => "shedlocks-of-one-host",
        }
    }

    /// The violations that the judge may report for it; see
    /// [`History::judge`](crate::history::History).
    pub(crate) fn violates(self) -> &'static [&'static str] {
        match self {
            Self::OwnerIsHost => &["overlap", "token twice", "lost ownership"],
            Self::UnlockWithoutOwner
            | Self::ReadThenWrite
            | Self::ClockAhead
            | Self::ClocksApart
            | Self::ShedlocksOfOneHost => &["overlap", "lost ownership"],
            Self::ExtendWithoutOwner => &["overlap", "revived", "lost ownership"],
            Self::ExtendRevives => &["revived"],
            Self::EndsEarly => &["overlap", "lost ownership"],
            Self::UnlockForgotten => &["owner returns", "unlocked too late"],
            Self::EndsLate => &["taken for too long", "unlocked too late"],
            Self::LateAttempt => &["owner returns", "taken for too long"],
            Self::LateExtension => &["shortened", "overlap", "overlap in the store"],
            Self::OwnerReturns => &["owner returns"],
            Self::AtLeastTooEarly | Self::AtLeastForgotten => &["at-least"],
            Self::DeadlineFromReply | Self::DeadlineFromLastAsk | Self::NoLookAfterPause => {
                &["outlived"]
            }
            Self::TokensOfProcess | Self::TokensStand => &["token twice", "token goes back"],
            Self::SlotOfLeaseOnly => &["slot twice", "slot goes back"],
            Self::SlotsAnyOrder => &["slot goes back", "slot twice"],
            Self::SlotGivenBackTwice => &["slot twice"],
            Self::PauseIgnored | Self::PauseFreedByUnlock | Self::PauseEndsEarly => {
                &["overlap with a pause", "pause lost"]
            }
            Self::PauseTakesTheLock => &["overlap with a pause", "lost ownership"],
            Self::PauseForgetsSlots => &["slot of a pause"],
            Self::PauseForced => &["pause forced"],
            Self::ResumeForgotten => &["owner returns", "taken for too long"],
        }
    }

    /// Whether it shows only if an operator pauses locks.
    pub(crate) fn needs_operator(self) -> bool {
        matches!(
            self,
            Self::PauseIgnored
                | Self::PauseFreedByUnlock
                | Self::PauseTakesTheLock
                | Self::PauseEndsEarly
                | Self::PauseForgetsSlots
                | Self::PauseForced
                | Self::ResumeForgotten
        )
    }

    /// Not applicable to a provider that does not declare the feature that the mistake is about.
    pub(crate) fn applies(self, capabilities: &Capabilities) -> Verdict {
        if self == Self::ClocksApart && wall_clock::tolerated(capabilities.clock).is_none() {
            return Err(Stop::not_applicable("no client's clock judges"));
        }
        let (is_declared, what) = match self {
            Self::PauseForgetsSlots if !capabilities.slots => (false, "slots"),
            _ if self.needs_operator() => (capabilities.pause, "pause"),
            Self::ExtendWithoutOwner | Self::ExtendRevives | Self::LateExtension => {
                (capabilities.extend, "extend")
            }
            Self::TokensOfProcess | Self::TokensStand => (capabilities.fencing, "fencing"),
            Self::SlotOfLeaseOnly | Self::SlotsAnyOrder => (capabilities.slots, "slots"),
            // Stores whose last slot can be set.
            Self::SlotGivenBackTwice => (capabilities.completion, "completion"),
            _ => (true, ""),
        };
        if is_declared {
            return Ok(());
        }
        Err(Stop::undeclared(what))
    }

    /// Returns the provider with this mistake, and the clock for the executor if the mistake is in
    /// the clock.
    pub(crate) fn switched_in(
        self,
        provider: Provider,
        seed: u64,
    ) -> (Provider, Option<Arc<dyn Clock>>) {
        let clock = WrongClock::new(self);
        let rng = SeededRng::new(seed);
        let wrong = WrongProvider::new(self, provider, Arc::clone(&clock), rng);
        let is_of_the_clock = matches!(
            self,
            Self::DeadlineFromReply | Self::DeadlineFromLastAsk | Self::NoLookAfterPause
        );
        (
            Arc::new(wrong),
            is_of_the_clock.then_some(clock as Arc<dyn Clock>),
        )
    }
}

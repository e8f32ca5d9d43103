//! Protocols that are wrong on purpose: what judges histories has to find each of them out.
//!
//! They are the mistakes that are known from the field, and those of the model. Each is switched in
//! between a worker and a right provider, whatever the store, or into the clock of its executor.

mod clock;
mod late;
mod provider;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shedlock_conformance::{Provider, Stop, Verdict};
use shedlock_core::{Capabilities, Clock};

use crate::rng::SeededRng;
use crate::wall_clock;
use clock::WrongClock;
use provider::WrongProvider;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wrong {
    /// All are of one host, and the host is the owner.
    OwnerIsHost,
    /// An unlock asks nobody.
    UnlockWithoutOwner,
    /// An unlock is answered with "unlocked", and changes nothing.
    UnlockForgotten,
    /// An extension asks whether the lock is held, not by whom.
    ExtendWithoutOwner,
    /// An extension takes a lock again that is over.
    ExtendRevives,
    /// What was read as free is written over, whatever has come between.
    ReadThenWrite,
    /// A lease ends a little before at-most.
    EndsEarly,
    /// A lease goes on for a while after at-most.
    EndsLate,
    /// At-least counts from an instant before the acquisition.
    AtLeastTooEarly,
    /// An unlock forgets at-least.
    AtLeastForgotten,
    /// The task runs on until its lease is over as the client would count it from the reply.
    DeadlineFromReply,
    /// A request that is asked again counts its deadline from the last time.
    DeadlineFromLastAsk,
    /// The task of a process that was stopped does one more thing before it looks at the clock.
    NoLookAfterPause,
    /// Each process counts its own tokens.
    TokensOfProcess,
    /// A token is the second in which the lock was taken.
    TokensStand,
    /// A slot is remembered only while its lease runs.
    SlotOfLeaseOnly,
    /// A slot is compared with the last one for being another, not for being later.
    SlotsAnyOrder,
    /// A slot is given back once more, whoever has it by then.
    SlotGivenBackTwice,
    /// One client's clock is ahead by half a lease, and the clients' clocks judge.
    ClockAhead,
    /// The clients' clocks judge, and one really is ahead by more than is tolerated.
    ClocksApart,
    /// A copy of an attempt that has no answer is granted long after its timeout.
    LateAttempt,
    /// A shorter extension, sent before, comes late and moves the end of the lease back.
    LateExtension,
    /// An attempt that finds the lock given back by its own owner takes it again.
    OwnerReturns,
    /// Processes of real ShedLock are of one host, which is their owner.
    ShedlocksOfOneHost,
}

impl Wrong {
    pub(crate) const ALL: [Self; 24] = [
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
        Self::ShedlocksOfOneHost,
    ];

    /// As it is asked for.
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
            Self::ShedlocksOfOneHost => "shedlocks-of-one-host",
        }
    }

    /// What the judge may say of it; see [`History::judge`](crate::history::History).
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
        }
    }

    /// Not applicable to a provider that does not declare what the mistake is about.
    pub(crate) fn applies(self, capabilities: &Capabilities) -> Verdict {
        if self == Self::ClocksApart && wall_clock::tolerated(capabilities.clock).is_none() {
            return Err(Stop::not_applicable("no client's clock judges"));
        }
        let (is_declared, what) = match self {
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

    /// The provider with this mistake, and the clock for the executor where the mistake is there.
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

//! The one list of known wrong protocols: mistakes from the field, from the model and from reviews.
//!
//! Each mistake is a type in one of the modules below. Its comment says what is wrong; its
//! [`About`] has its name, what the judge of histories may report for it, the cases of the kit that
//! must catch it, and what it needs; its functions are what it does instead of passing a call on.
//! To add a mistake, write such a type and name it in the list.
//!
//! [`Mistaken`] switches a mistake into any provider. A few mistakes are of something else, such as
//! the wire or the way in which processes are started ([`At`]). They are named here too, and the
//! harness that makes them asks which one it should make.

mod about;
mod clock;
mod duties;
mod elsewhere;
mod late;
mod mistaken;
mod names;
mod owners;
mod pauses;
mod records;
mod site;
mod slots;
mod times;
mod tokens;

use serde::{Deserialize, Serialize};
use shedlock_core::admin::{Change, Changed, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, Capabilities, Error, ExtendRequest, Extension, Lease, ListRequest,
    LockName, LockRecord, MigrationStep, Unlock, UnlockRequest,
};

use crate::history::Findings;
pub use about::At;
use about::{About, Known, Needs};
use duties::Opened;
pub use mistaken::{Mistaken, Surroundings};
use site::Site;
pub use site::{Records, Shared};

/// Defines the list: the modules, and the mistakes in them.
macro_rules! known {
    ($($module:ident { $($mistake:ident)+ })+) => {
        /// A known mistake. What is wrong is written at the type of the same name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "each is described at the type of its name")]
        pub enum Mistake {
            $($($mistake,)+)+
        }

        impl Mistake {
            /// All known mistakes.
            pub const ALL: &'static [Self] = &[$($(Self::$mistake,)+)+];

            fn about(self) -> &'static About {
                match self {
                    $($(Self::$mistake => &<$module::$mistake as Known>::ABOUT,)+)+
                }
            }

            /// The name under which a record is stored.
            fn stored(self, name: &LockName) -> Result<LockName, Error> {
                match self {
                    $($(Self::$mistake => $module::$mistake::stored(name),)+)+
                }
            }
        }

        impl Site {
            fn for_duties(&self, mistake: Option<Mistake>) -> Opened<'_> {
                match mistake {
                    $($(Some(Mistake::$mistake) => $module::$mistake::for_duties(self),)+)+
                    None => self.inner.for_duties(),
                }
            }
        }

        call!({ $($($module $mistake)+)+ } attempt(request: &AttemptRequest)(request) -> Attempt);
        call!({ $($($module $mistake)+)+ } withdraw(request: &AttemptRequest)(request) -> bool);
        call!({ $($($module $mistake)+)+ }
            extend(lease: &Lease, request: &ExtendRequest)(lease, request) -> Extension);
        call!({ $($($module $mistake)+)+ }
            unlock(lease: &Lease, request: &UnlockRequest)(lease, request) -> Unlock);
        call!({ $($($module $mistake)+)+ } list(request: &ListRequest)(request) -> Vec<LockRecord>);
        call!({ $($($module $mistake)+)+ } look(name: &LockName)(name) -> Option<Seen>);
        call!({ $($($module $mistake)+)+ }
            change(name: &LockName, seen: &Seen, change: &Change)(name, seen, change) -> Changed);
        call!({ $($($module $mistake)+)+ }
            remove(name: &LockName, seen: &Seen)(name, seen) -> Changed);
        call!({ $($($module $mistake)+)+ } plan_migration()() -> Vec<MigrationStep>);
    };
}

/// Defines how one kind of call is made by each of the mistakes.
macro_rules! call {
    (
        { $($module:ident $mistake:ident)+ }
        $call:ident($($parameter:ident: $type:ty),*) $arguments:tt -> $answer:ty
    ) => {
        impl Site {
            async fn $call(
                &self,
                mistake: Option<Mistake>,
                $($parameter: $type),*
            ) -> Result<$answer, Error> {
                match mistake {
                    $(Some(Mistake::$mistake) => call!(self $module::$mistake::$call $arguments),)+
                    None => self.inner.$call $arguments.await,
                }
            }
        }
    };
    ($site:ident $module:ident::$mistake:ident::$call:ident($($argument:ident),*)) => {
        $module::$mistake::$call($site, $($argument),*).await
    };
}

known! {
    owners {
        OwnerIsHost
        UnlockWithoutOwner
        UnlockForgotten
        UnlockOfExpired
        UnlockLeavesNoTrace
        SecondUnlockIsLost
        RepeatedUnlockIsSuccess
        ExtendWithoutOwner
        ExtendRevives
        ExtensionShortens
        ReadThenWrite
        AttemptNotIdempotent
        OwnerReturns
        LateAttempt
        WithdrawDoesNothing
        WithdrawOnce
        ClaimSentAgain
    }
    times {
        EndsEarly
        EndsLate
        AtLeastTooEarly
        AtLeastForgotten
        AtLeastFromUnlock
        DeadlineFromReply
        DeadlineFromLastAsk
        NoLookAfterPause
        WaitCountsJumps
        ClockAhead
    }
    tokens {
        TokensOfProcess
        TokensStand
        TokenOnExpiryOnly
        TokenForgottenWithRecord
    }
    slots {
        SlotOfLeaseOnly
        SlotsAnyOrder
        SlotInTwoSteps
        SlotAheadGranted
        SlotGivenBackTwice
        UnusedSlotKept
        OpenSlotIsPassed
        AttemptsForgottenAtTakeover
    }
    pauses {
        PauseIgnored
        PauseFreedByUnlock
        PauseTakesTheLock
        PauseEndsEarly
        PauseForgetsSlots
        PauseIsAHighWaterMark
        SkippedSlotIsThePrevious
        ForcedUnlockIsOnesOwn
        PauseForced
        PauseIsNotIdempotent
        ResumeForgotten
        ResumeFreesHeldLocks
    }
    names {
        NamesFoldCase
        NamesArePaths
        NamesAreCut
    }
    records {
        RemembersRecords
        ErrorIsSkip
        OnePage
        PruneRemovesHeldLocks
        PruneIgnoresSlots
        PruneIgnoresTime
        PruneInTwoSteps
        PruneKeepsTheRecord
        PlansWhatIsThere
    }
    duties {
        DutiesOnTheTasksRuntime
        DutyLooksElsewhere
    }
    elsewhere {
        TakesSlotOfLateAttempt
        UnlockReadBack
        AcceptsWeakContainer
        VersionsReused
        ReadsGoBack
        ClocksApart
        ShedlocksOfOneHost
        SlotGivenBackLate
        StraysForgotten
        WithdrawLeavesVersion
        KeysApart
    }
}

impl Mistake {
    /// Its name on the command line and in the environment.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// The mistake of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.name() == name)
    }

    /// Where it is made.
    pub fn at(self) -> At {
        self.about().at
    }

    /// The violations that the judge may report for it; see
    /// [`History::judge`](crate::history::History::judge).
    pub fn violates(self) -> &'static [&'static str] {
        self.about().violates
    }

    /// The violation that this mistake is known to cause, if the findings contain it.
    pub fn convicted(self, findings: &Findings) -> Option<&'static str> {
        let laws = self.violates().iter().copied();
        laws.into_iter().find(|law| findings.convict_of(law))
    }

    /// The cases of the kit, each of which must fail.
    pub fn caught_by(self) -> &'static [&'static str] {
        self.about().caught_by
    }

    /// Whether torture must find it.
    pub fn is_tortured(self) -> bool {
        self.about().is_tortured
    }

    /// Whether the simulation must find it.
    pub fn is_simulated(self) -> bool {
        self.about().is_simulated
    }

    /// Whether it shows only if an operator pauses locks.
    pub fn needs_operator(self) -> bool {
        self.about().needs.contains(&Needs::Pause)
    }

    /// Whether it shows only if connections are cut and requests arrive late.
    pub fn needs_network(self) -> bool {
        self.about().needs.contains(&Needs::Network)
    }

    /// Whether it shows only on a clock of the executor that is wrong in the same way.
    pub fn is_of_the_clock(self) -> bool {
        self.at() == At::Clock
    }

    /// The capability that it needs and that is not declared, if any.
    pub fn lacks(self, capabilities: &Capabilities) -> Option<&'static str> {
        let needs = self.about().needs.iter();
        needs.filter_map(|it| it.is_lacking(capabilities)).next()
    }
}

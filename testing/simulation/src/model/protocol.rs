//! What is varied.

/// A protocol: whose clock judges, and what is wrong with it, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Whose clock judges.
    pub judged_by: JudgedBy,
    /// What is wrong with it.
    pub wrong: Option<Wrong>,
}

/// Whose clock judges leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedBy {
    /// The store's: one statement looks and writes.
    Store,
    /// Each client's own: it reads, judges, and writes if what it read still stands.
    Clients {
        /// Taken off the holder's side, and added before the lease of another one counts as over.
        tolerated_skew: i8,
    },
}

/// A mistake that somebody makes, or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// All clients are of one host, and the host is the owner.
    OwnerIsHost,
    /// An unlock asks nobody.
    UnlockWithoutOwner,
    /// What was read is written over, whatever has come between.
    ReadThenWrite,
    /// An extension asks whether the lock is held, not by whom.
    ExtendWithoutOwner,
    /// At-least counts from an instant before the acquisition.
    AtLeastTooEarly,
    /// An unlock forgets at-least.
    AtLeastForgotten,
    /// The task runs on until its lease is over as the client would count it from the reply.
    DeadlineFromReply,
    /// A request that is asked again counts its deadline from the last time.
    DeadlineFromLastAsk,
    /// The task of a process that was stopped runs on when it wakes, deadline or not.
    NoLookAfterPause,
    /// The token of an acquisition is the one before it where the lock was unlocked.
    TokenOnExpiryOnly,
    /// A slot is remembered only while its lease runs.
    SlotOfLeaseOnly,
    /// An open slot may be left out for a later one.
    SlotsAnyOrder,
    /// A slot stays used up where the task never began.
    UnusedSlotKept,
    /// A slot is given back by a lease that is over, whoever has the slot by then.
    SlotGivenBackLate,
    /// An attempt is granted however late it arrives.
    LateAttempt,
    /// An attempt that finds its own released mark is granted.
    OwnerReturns,
    /// The lease ends as the extension says that arrived last.
    ExtensionShortens,
    /// What may have been won is withdrawn at once, and not again past the bound.
    WithdrawOnce,
    /// Whether copies of an attempt may still arrive is judged when its unlock is answered, and not when it
    /// is sent.
    StraysForgotten,
    /// A withdrawal leaves the version that a late write would replace.
    WithdrawLeavesVersion,
    /// A store that has lost its last writes numbers the next ones as it did those.
    VersionsReused,
    /// A client is shown an older state of a record than it has seen.
    ReadsGoBack,
    /// What is kept beside the lock is overwritten, whatever stands there.
    KeysApart,
}

impl Wrong {
    /// Whether a client makes it that has nothing of the runtime.
    pub(crate) fn is_of_client(self) -> bool {
        matches!(
            self,
            Self::DeadlineFromReply | Self::DeadlineFromLastAsk | Self::NoLookAfterPause
        )
    }
}

/// What slots the locks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// None.
    Unused,
    /// Used up when they are taken.
    WhenTaken,
    /// Open until a run of them succeeded; that many attempts.
    OnSuccess {
        /// After that many, a slot is given up.
        attempts: u8,
    },
}

/// How a lease ends that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ending {
    /// Its task ran, and its slot is done.
    Done,
    /// Its task ran, and its slot stays open where it must not be lost.
    Failed,
    /// A shutdown cut its task: the attempt does not count.
    Cut,
    /// Its task never began: the slot, or the attempt, is given back.
    NotStarted,
}

/// How far the model looks.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The last instant.
    pub time: i8,
    /// How wrong the wall clock of each client is; one client for each.
    pub skews: Vec<i8>,
    /// Clients that are ShedLock's, which knows of no tolerance; by number.
    pub shedlocks: Vec<usize>,
    /// How often each client may want the lock.
    pub acquisitions: u8,
    /// Length of the longest lease.
    pub at_most: i8,
    /// Length of the shortest.
    pub at_least: i8,
    /// How often holders may extend. More than once: by a whole lease, or by one instant.
    pub extensions: u8,
    /// Whether processes may be stopped and go on later.
    pub pauses: bool,
    /// Whether processes may die.
    pub deaths: bool,
    /// Whether messages may be lost, and requests be asked again.
    pub losses: bool,
    /// Whether unlocks are answered, and asked again, and what may have been won is withdrawn.
    pub answers: bool,
    /// How long an attempt may be on its way, where unlocks are answered.
    pub timeout: i8,
    /// Whether the store may lose its last write, once.
    pub tails: bool,
    /// Whether slots are kept in a second key, since ShedLock overwrites the first.
    pub two_keys: bool,
    /// What slots there are: instants divided by two.
    pub slots: Slots,
    /// Whether leases may end before their task begins, and runs be cut.
    pub unused: bool,
}

impl Bounds {
    /// Two clients with right clocks, leases of two instants, and everything that can go wrong.
    pub fn small() -> Self {
        Self {
            time: 5,
            skews: vec![0, 0],
            shedlocks: Vec::new(),
            acquisitions: 1,
            at_most: 2,
            at_least: 0,
            extensions: 0,
            pauses: true,
            deaths: false,
            losses: true,
            answers: false,
            timeout: 1,
            tails: false,
            two_keys: false,
            slots: Slots::Unused,
            unused: false,
        }
    }
}

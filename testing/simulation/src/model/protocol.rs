//! The parameters of the model.

/// A protocol: whose clock judges, and which mistake it contains, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Whose clock judges.
    pub judged_by: JudgedBy,
    /// The mistake in it.
    pub wrong: Option<Wrong>,
}

/// Whose clock judges leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedBy {
    /// The store's: one statement reads and writes.
    Store,
    /// Each client's own: it reads, judges, and writes if the record that it read is still in
    /// place.
    Clients {
        /// Subtracted from the holder's lease, and added before another owner's lease counts as
        /// expired.
        tolerated_skew: i8,
    },
}

/// A known or possible mistake. The one list of mistakes, `shedlock_proof::Mistake`, has each of them
/// under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// All clients share one host, and the host is the owner.
    OwnerIsHost,
    /// An unlock does not compare the owner.
    UnlockWithoutOwner,
    /// A record that was read is overwritten, whatever happened in between.
    ReadThenWrite,
    /// An extension checks that the lock is held, but not by whom.
    ExtendWithoutOwner,
    /// At-least counts from an instant before the acquisition.
    AtLeastTooEarly,
    /// An unlock ignores at-least.
    AtLeastForgotten,
    /// The task runs until the end of its lease as counted from the reply.
    DeadlineFromReply,
    /// A repeated request counts its deadline from the last repetition.
    DeadlineFromLastAsk,
    /// The task of a stopped process continues on waking, regardless of its deadline.
    NoLookAfterPause,
    /// The token of an acquisition repeats the previous one if the lock was unlocked.
    TokenOnExpiryOnly,
    /// A slot is remembered only while its lease runs.
    SlotOfLeaseOnly,
    /// An open slot may be passed over for a later one.
    OpenSlotIsPassed,
    /// A slot stays used up even if the task never began.
    UnusedSlotKept,
    /// An expired lease gives its slot back, even if another owner has the slot then.
    SlotGivenBackLate,
    /// An attempt is granted however late it arrives.
    LateAttempt,
    /// An attempt that finds its own released mark is granted.
    OwnerReturns,
    /// The lease ends as set by the extension that arrived last.
    ExtensionShortens,
    /// What may have been won is withdrawn immediately, but not again after the bound.
    WithdrawOnce,
    /// Whether copies of an attempt may still arrive is decided when the reply to the unlock
    /// arrives instead of when the unlock is sent.
    StraysForgotten,
    /// A withdrawal leaves the version that a late write would replace.
    WithdrawLeavesVersion,
    /// A store that has lost its last writes reuses their numbers for the next ones.
    VersionsReused,
    /// A client is shown an older state of a record than it has already seen.
    ReadsGoBack,
    /// The data that is kept next to the lock is overwritten, whatever it contains.
    KeysApart,
}

impl Wrong {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::OwnerIsHost,
        Self::UnlockWithoutOwner,
        Self::ReadThenWrite,
        Self::ExtendWithoutOwner,
        Self::AtLeastTooEarly,
        Self::AtLeastForgotten,
        Self::DeadlineFromReply,
        Self::DeadlineFromLastAsk,
        Self::NoLookAfterPause,
        Self::TokenOnExpiryOnly,
        Self::SlotOfLeaseOnly,
        Self::OpenSlotIsPassed,
        Self::UnusedSlotKept,
        Self::SlotGivenBackLate,
        Self::LateAttempt,
        Self::OwnerReturns,
        Self::ExtensionShortens,
        Self::WithdrawOnce,
        Self::StraysForgotten,
        Self::WithdrawLeavesVersion,
        Self::VersionsReused,
        Self::ReadsGoBack,
        Self::KeysApart,
    ];
}

/// The kind of slots that the locks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// No slots.
    Unused,
    /// Used up when they are taken.
    WhenTaken,
    /// Open until a run of them succeeds, with a limited number of attempts.
    OnSuccess {
        /// After this many attempts, a slot is given up.
        attempts: u8,
    },
}

/// How a lease ends that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ending {
    /// Its task ran, and its slot is done.
    Done,
    /// Its task ran, and its slot stays open if it must not be lost.
    Failed,
    /// A shutdown cut its task: the attempt does not count.
    Cut,
    /// Its task never began: the slot, or the attempt, is given back.
    NotStarted,
}

/// The bounds of the model.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The last instant.
    pub time: i8,
    /// The error of each client's wall clock; one client per entry.
    pub skews: Vec<i8>,
    /// The clients that are ShedLock's, which have no tolerance; by number.
    pub shedlocks: Vec<usize>,
    /// How often each client may want the lock.
    pub acquisitions: u8,
    /// The length of the longest lease.
    pub at_most: i8,
    /// The length of the shortest lease.
    pub at_least: i8,
    /// How often holders may extend. If more than once: by a whole lease, or by one instant.
    pub extensions: u8,
    /// Whether processes may be stopped and resumed.
    pub pauses: bool,
    /// Whether processes may die.
    pub deaths: bool,
    /// Whether messages may be lost, and requests repeated.
    pub losses: bool,
    /// Whether unlocks get replies and are repeated, and whether what may have been won is
    /// withdrawn.
    pub answers: bool,
    /// How long an attempt may be in flight, if unlocks get replies.
    pub timeout: i8,
    /// Whether the store may lose its last write, once.
    pub tails: bool,
    /// Whether slots are kept in a second key, because ShedLock overwrites the first.
    pub two_keys: bool,
    /// The slots: instants divided by two.
    pub slots: Slots,
    /// Whether leases may end before their task begins, and runs may be cut.
    pub unused: bool,
}

impl Bounds {
    /// Two clients with correct clocks, leases of two instants, and everything that can go wrong.
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

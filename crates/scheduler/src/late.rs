//! What happens to ticks that start late.

use std::time::Duration;

use shedlock_core::Slot;

/// What happens to a tick that cannot start on time: because the machine was suspended, because an
/// older run still holds the lock, because the store was unavailable, or because all replicas were
/// down.
///
/// The last slot in the store shows what was missed while all replicas were down. A job that has
/// never run anywhere has missed nothing.
///
/// Whatever the policy, the newest slot that is due replaces the older ones: a job never runs more
/// than once to make up for several ticks.
///
/// The exception is a job that must not be lost
/// ([`Completion::OnSuccess`](shedlock_core::Completion)). Each of its slots runs, in order,
/// however many were missed, and a limit here gives up the slots that are later than it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LatePolicy {
    /// It runs however late, until the next tick is due: once for everything that was missed.
    #[default]
    Once,
    /// It runs if it starts no later than this after its slot (plus the job's jitter).
    Within(Duration),
    /// It does not run late: more than [`LatePolicy::ON_TIME`] after its slot it is given up.
    Skip,
}

impl LatePolicy {
    /// The lateness that still counts as on time.
    pub const ON_TIME: Duration = Duration::from_secs(10);

    fn limit(self) -> Option<Duration> {
        match self {
            Self::Once => None,
            Self::Within(limit) => Some(limit),
            Self::Skip => Some(Self::ON_TIME),
        }
    }

    /// Returns the lateness that is expected at most. A job without a limit is expected to start
    /// within a minute.
    pub(crate) fn expected(self) -> Duration {
        self.limit().unwrap_or(Slot::DEFAULT_TOLERANCE)
    }

    /// Returns true if a run of this slot may still start at `now`.
    pub(crate) fn allows(self, slot: Slot, now: std::time::SystemTime, jitter: Duration) -> bool {
        let late = now.duration_since(slot.instant()).unwrap_or_default();
        self.limit()
            .is_none_or(|limit| late <= limit.saturating_add(jitter))
    }

    /// Returns the earliest instant whose slot may start at `now`, or `None` if any may.
    pub(crate) fn oldest(
        self,
        now: std::time::SystemTime,
        jitter: Duration,
    ) -> Option<std::time::SystemTime> {
        now.checked_sub(self.limit()?.saturating_add(jitter))
    }
}

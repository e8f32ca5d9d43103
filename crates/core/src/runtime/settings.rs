//! The settings of an executor.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::contract::{Listener, LockDefaults, LostPolicy};
use crate::runtime::Executor;

impl Executor {
    /// Sets durations and an owner prefix for locks that set none. They win over the provider's.
    pub fn defaults(mut self, defaults: LockDefaults) -> Self {
        self.change().defaults = defaults;
        self
    }

    /// Replaces the clock that bounds leases from the inside. The default is
    /// [`SystemClock`](crate::SystemClock). With any clock, leases also count the time that only
    /// its calendar shows ([`LeaseClock`](crate::LeaseClock)).
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.change().set_clock(clock);
        self
    }

    /// Looks at the wall clock only this often while a lease runs, instead of once a second. For
    /// simulations of many hours.
    #[doc(hidden)]
    pub fn wall_clock_check(mut self, period: Duration) -> Self {
        self.change().lease_clock.set_longest_wait(period);
        self
    }

    /// Adds a listener that is notified of every event. Listeners are called in the order in which
    /// they were added.
    pub fn listener(mut self, listener: Arc<dyn Listener>) -> Self {
        self.change().add_listener(listener);
        self
    }

    /// Sets what happens to a task whose lease is lost. By default it is stopped.
    pub fn lost_policy(mut self, policy: LostPolicy) -> Self {
        self.change().lost_policy = policy;
        self
    }

    /// Sets the minimum time by which a lease ends for us before it ends in the store.
    ///
    /// The default is a hundredth of `lock_at_most_for`, capped at 1 s or a thousandth of
    /// `lock_at_most_for`, whichever is longer. The margin covers clocks that run at different
    /// speeds, and leaves time to stop the task. A margin as long as `lock_at_most_for` leaves no
    /// time to run, so such a lock is refused.
    pub fn deadline_margin(mut self, margin: Duration) -> Self {
        self.change().deadline_margin = Some(margin);
        self
    }

    /// Sets which share of its time limit a run may take before it counts as slow; 0.75 by default.
    /// The end of a slow run logs a warning and emits [`Event::SlowRun`](crate::Event::SlowRun). With
    /// 1 no run counts as slow.
    ///
    /// The limit is `lock_at_most_for` or, if that is less or the lease is kept alive,
    /// [`max_run_time`](crate::LockConfig::max_run_time). A run that is kept alive without it is never slow,
    /// nor is one whose lease was extended.
    pub fn slow_run(mut self, share: f64) -> Self {
        self.change().slow_run = share;
        self
    }

    /// Sets how long a single call to the store may take; 10 s by default. If replies are lost, an
    /// attempt is sent up to four times, so a run whose store never replies fails after four of
    /// these timeouts.
    ///
    /// The store refuses an attempt that arrives later ([`AttemptRequest::timeout`](crate::AttemptRequest::timeout)), so this also
    /// bounds how long [`settled`](Self::settled) takes once the store replies.
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.change().store_timeout = timeout;
        self
    }
}

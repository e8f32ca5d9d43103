//! The settings and state that all locks of one executor share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use super::withdrawal::Withdrawals;
use super::{Duties, Errand, Handed, Names};
use crate::clock::{Clock, Deadline, LeaseClock, Reading, SystemClock};
use crate::contract::{
    AttemptRequest, Error, ErrorKind, Event, Listener, LockDefaults, LockName, LockProvider,
    LostPolicy, Recorder,
};
use crate::runtime::narrator;

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) provider: Arc<dyn LockProvider>,
    /// For calls, pauses and waits.
    pub(crate) clock: Arc<dyn Clock>,
    /// For the ends of leases, over the same clock.
    pub(crate) lease_clock: LeaseClock,
    listeners: Vec<Arc<dyn Listener>>,
    /// A listener tells events, so they are not logged.
    pub(super) is_silent: bool,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    pub(crate) defaults: LockDefaults,
    pub(crate) lost_policy: LostPolicy,
    pub(crate) deadline_margin: Option<Duration>,
    pub(crate) slow_run: f64,
    pub(crate) store_timeout: Duration,
    pub(crate) withdrawals: Arc<Withdrawals>,
    names: Arc<Names>,
    /// `None` if the clock is not the system's: then the task's runtime does everything.
    pub(crate) duties: Option<Duties>,
}

impl Context {
    pub(crate) fn new(provider: Arc<dyn LockProvider>) -> Self {
        Self {
            provider,
            clock: Arc::new(SystemClock),
            lease_clock: LeaseClock::system(),
            listeners: Vec::new(),
            is_silent: false,
            recorder: None,
            defaults: LockDefaults::new(),
            lost_policy: LostPolicy::default(),
            deadline_margin: None,
            slow_run: 0.75,
            store_timeout: AttemptRequest::DEFAULT_TIMEOUT,
            withdrawals: Arc::new(Withdrawals::new()),
            names: Arc::default(),
            duties: Some(Duties::default()),
        }
    }

    pub(crate) fn set_clock(&mut self, clock: Arc<dyn Clock>) {
        let is_system = clock.is_system();
        self.lease_clock = if is_system {
            LeaseClock::system()
        } else {
            LeaseClock::new(clock.clone())
        };
        self.duties = is_system.then(Duties::default);
        self.clock = clock;
    }

    /// Hands an errand to the duties, in case that the current runtime leaves it undone. `None` if they cannot do it.
    pub(super) fn hand_over(&self, errand: impl FnOnce(&Self) -> Errand) -> Option<Handed> {
        let duties = self.duties.as_ref()?;
        duties.hand_over(errand(self), &self.provider)
    }

    /// Returns when a lease that was requested at `sent` ends for us.
    ///
    /// The store starts to count when it receives the request, which is after `sent`: the lease
    /// ends there after it has ended here. The margin covers clocks that run at different speeds,
    /// and leaves time to stop the task. If the clients' clocks judge, the tolerated skew between
    /// them is subtracted too, because a client that is ahead takes the lock that much earlier. So
    /// is the skew between servers that judge one after another.
    pub(crate) fn deadline(&self, sent: Reading, lock_at_most_for: Duration) -> Deadline {
        sent.deadline(self.usable(lock_at_most_for))
    }

    /// Returns how much of a lease of this length we can use.
    pub(crate) fn usable(&self, lock_at_most_for: Duration) -> Duration {
        let (clients, servers) = self.skews();
        let skew = clients.saturating_add(servers);
        let early = self.margin(lock_at_most_for).saturating_add(skew);
        lock_at_most_for.saturating_sub(early)
    }

    /// Refuses a lease that would have ended for us as soon as it is granted.
    pub(crate) fn check_usable(&self, lock_at_most_for: Duration) -> Result<(), Error> {
        if !self.usable(lock_at_most_for).is_zero() {
            return Ok(());
        }
        let (clients, servers) = self.skews();
        let skew = clients.saturating_add(servers);
        let at_most = shedlock_support::text::duration(lock_at_most_for);
        let (what, advice) = if skew.is_zero() {
            let what = format!(
                "lock_at_most_for ({at_most}) must be longer than the deadline margin ({}), or the \
                 lease ends before its task can start",
                shedlock_support::text::duration(self.margin(lock_at_most_for)),
            );
            (what, "raise it, or lower the margin")
        } else {
            let what = format!(
                "lock_at_most_for ({at_most}) must be longer than the tolerated clock skew ({}; {} \
                 between clients, {} between servers)",
                shedlock_support::text::duration(skew),
                shedlock_support::text::duration(clients),
                shedlock_support::text::duration(servers),
            );
            (
                what,
                "raise it, tolerate less skew, or use a provider that relies on one server's clock",
            )
        };
        Err(Error::new(ErrorKind::InvalidInput, what)
            .advise(advice)
            .with_store(self.provider.store()))
    }

    /// Returns the clock skew tolerated between clients that judge leases, and between servers.
    fn skews(&self) -> (Duration, Duration) {
        let capabilities = self.provider.capabilities();
        (
            capabilities.clock.tolerated_skew(),
            capabilities.server_skew,
        )
    }

    pub(super) fn margin(&self, lock_at_most_for: Duration) -> Duration {
        self.deadline_margin
            .unwrap_or_else(|| margin(lock_at_most_for))
    }

    /// Notes a lock that is a job of its own, where jobs are counted or recorded.
    pub(crate) fn note_job(&self, name: &str) {
        if self.has_listeners() || self.recorder.is_some() {
            self.names.note(name);
        }
    }

    pub(crate) fn add_listener(&mut self, listener: Arc<dyn Listener>) {
        self.is_silent |= listener.tells();
        self.listeners.push(listener);
    }

    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Whether anyone notices what is not worth a warning.
    pub(super) fn is_heard(&self) -> bool {
        self.has_listeners() || LevelFilter::current() >= LevelFilter::DEBUG
    }

    /// Reports an event that is not worth a warning.
    pub(crate) fn emit<'a>(&self, event: impl FnOnce() -> Event<'a>) {
        if self.is_heard() {
            self.report(&event());
        }
    }

    /// Logs an event unless a listener tells it, and notifies the listeners, in the order in which
    /// they were added. A panic in one has no other effect.
    pub(crate) fn report(&self, event: &Event<'_>) {
        if !self.is_silent {
            narrator::tell(event);
        }
        for listener in &self.listeners {
            let told = catch_unwind(AssertUnwindSafe(|| listener.on_event(event)));
            if told.is_err() {
                tracing::error!("a lock listener panicked; the lock is unaffected");
            }
        }
    }

    pub(crate) fn store_failed(&self, name: &LockName, job: &str, error: &Error) {
        self.emit(|| Event::StoreError { name, job, error });
    }
}

/// A hundredth of the lease, capped at a second, but always at least a thousandth, however long
/// that is: a clock that NTP slews may run 500 ppm too fast on one side and too slow on the other.
fn margin(lock_at_most_for: Duration) -> Duration {
    let second = Duration::from_secs(1);
    (lock_at_most_for / 100)
        .min(second)
        .max(lock_at_most_for / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_covers_clocks_that_are_slewed_for_as_long_as_the_lease_lasts() {
        let cases = [
            (10, 100),
            (60, 600),
            (600, 1_000),
            (3_600, 3_600),
            (86_400, 86_400),
        ];
        for (seconds, millis) in cases {
            let found = margin(Duration::from_secs(seconds));
            assert_eq!(found, Duration::from_millis(millis), "{seconds} s");
        }
    }
}

//! Events of the lock that occur while other code waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use shedlock::{Error, Event, Listener, LostReason, Skip, SkipReason};
use tokio::sync::Notify;

use super::slot;
use crate::terminal::Terminal;

/// Receives events of the lock: before it is acquired, whether it is waited for; afterwards,
/// changes of its lease.
#[derive(Debug)]
pub(super) struct Events {
    terminal: Terminal,
    /// What happens if the lease cannot be extended.
    without_lease: &'static str,
    is_waiting: AtomicBool,
    waited: Mutex<Waited>,
    is_lost: AtomicBool,
    extended: Notify,
    /// Why the last call to the store failed, if it was not taken from here.
    store_error: Mutex<Option<String>>,
    store_failed: Notify,
    /// Whether the lock is held, and not being released yet.
    is_held: AtomicBool,
    /// Why the lease was not extended when that was last due.
    not_extended: Mutex<Option<NotExtended>>,
}

/// A wait for the lock, so far.
#[derive(Debug, Default)]
struct Waited {
    /// The reason that was printed last.
    printed: Option<SkipReason>,
    /// The owner that has the lock.
    owner: Option<String>,
    /// How many times another owner took over.
    others: u32,
}

/// Why a lease was not extended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotExtended {
    pub(super) why: String,
    /// Whether the extension is not retried.
    pub(super) is_final: bool,
    /// Whether the user has read why.
    pub(super) is_printed: bool,
}

impl Events {
    pub(super) fn new(terminal: Terminal, without_lease: &'static str) -> Self {
        Self {
            terminal,
            without_lease,
            is_waiting: AtomicBool::new(false),
            waited: Mutex::default(),
            is_lost: AtomicBool::new(false),
            extended: Notify::new(),
            store_error: Mutex::new(None),
            store_failed: Notify::new(),
            is_held: AtomicBool::new(false),
            not_extended: Mutex::new(None),
        }
    }

    /// Whether the lock is waited for and no request is in flight.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    /// Completes when the lease was extended since the last call. Cancellation safe.
    pub(super) async fn extended(&self) {
        self.extended.notified().await;
    }

    /// Forgets failures of the store so far. Further ones are about the release.
    pub(super) fn forget_store_error(&self) {
        self.is_held.store(false, Ordering::Relaxed);
        self.take_store_error();
    }

    /// Completes when a call to the store has failed since the last call, with the reason. Cancellation safe.
    pub(super) async fn store_error(&self) -> String {
        loop {
            if let Some(error) = self.take_store_error() {
                return error;
            }
            self.store_failed.notified().await;
        }
    }

    fn take_store_error(&self) -> Option<String> {
        let mut error = self
            .store_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        error.take()
    }

    /// Why the lease was not extended when that was last due. `None` if it was.
    pub(super) fn not_extended(&self) -> Option<NotExtended> {
        let failure = self.not_extended.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn extension_failed(&self, name: &str, error: &Error) {
        let is_final = !error.is_retryable();
        let failure = NotExtended {
            why: format!("{:#}", error.cause(name)),
            is_final,
            is_printed: is_final || !self.terminal.is_quiet(),
        };
        let mut last = self
            .not_extended
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() == Some(&failure) {
            return;
        }
        let why = &failure.why;
        if failure.is_final {
            self.terminal.error(&format!(
                "{name}: cannot extend the lease: {why}; {}",
                self.without_lease
            ));
        } else {
            self.terminal.warning(&format!(
                "{name}: cannot extend the lease yet, retrying: {why}"
            ));
        }
        *last = Some(failure);
    }

    /// Does not report a pause after a failed attempt that was reported with the failure.
    pub(super) fn expect_pause(&self) {
        self.waited().printed = Some(SkipReason::BackingOff);
    }

    /// Whether the reason has changed since it was last printed. Another owner is only counted: of many that wait for one
    /// lock, each would print a line for each. An attempt that lost a race prints nothing.
    fn is_news(&self, skip: &Skip) -> bool {
        let mut waited = self.waited();
        if skip.reason == SkipReason::Held && waited.owner != skip.owner {
            let had_another = waited.owner.is_some();
            waited.others += u32::from(had_another);
            waited.owner.clone_from(&skip.owner);
        }
        let is_race = skip.reason == SkipReason::Contended && waited.printed.is_some();
        if is_race || waited.printed == Some(skip.reason) {
            return false;
        }
        waited.printed = Some(skip.reason);
        true
    }

    fn waited(&self) -> MutexGuard<'_, Waited> {
        self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store reports that the lease is no longer ours.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

impl Listener for Events {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::Waiting { request, skip, .. } => {
                self.is_waiting.store(true, Ordering::Relaxed);
                if self.is_news(skip) {
                    let (name, why) = (request.name().as_str(), slot::why(skip, None));
                    self.terminal.notice(&format!("{name}: waiting: {why}"));
                }
            }
            Event::Attempt { .. } => self.is_waiting.store(false, Ordering::Relaxed),
            Event::Lost {
                reason: LostReason::NotHeldInStore,
                ..
            } => self.is_lost.store(true, Ordering::Relaxed),
            Event::Acquired { lease, .. } => {
                self.is_held.store(true, Ordering::Relaxed);
                let others = std::mem::take(&mut *self.waited()).others;
                if others > 0 {
                    let name = lease.name();
                    let times = if others == 1 { "time" } else { "times" };
                    self.terminal.notice(&format!(
                        "{name}: acquired, after it changed hands {others} {times}"
                    ));
                }
            }
            Event::StoreError { name, error, .. } => {
                if self.is_held.load(Ordering::Relaxed) {
                    self.extension_failed(name.as_str(), error);
                }
                let mut last = self
                    .store_error
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *last = Some(format!("{:#}", error.cause(name.as_str())));
                self.store_failed.notify_one();
            }
            Event::Extended { .. } => {
                let mut failure = self
                    .not_extended
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *failure = None;
                self.extended.notify_one();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_news_only_when_the_reason_changes_and_owners_are_counted() {
        let events = Events::new(Terminal::new(true), "");
        let held = Skip::new(SkipReason::Held).with_owner("h/1/ff");
        assert!(events.is_news(&held));
        assert!(!events.is_news(&held));
        let extended = held.clone().with_until(std::time::UNIX_EPOCH);
        assert!(!events.is_news(&extended));
        assert!(!events.is_news(&Skip::new(SkipReason::Contended)));
        assert!(!events.is_news(&held));
        assert!(!events.is_news(&held.clone().with_owner("h/2/ff")));
        assert_eq!(events.waited().others, 1);
        assert!(events.is_news(&Skip::new(SkipReason::BackingOff)));
    }

    #[test]
    fn a_pause_that_was_reported_is_no_news_unless_another_owner_had_the_lock() {
        let events = Events::new(Terminal::new(true), "");
        let pause = Skip::new(SkipReason::BackingOff).with_owner("h/1/ff");
        events.expect_pause();
        assert!(!events.is_news(&pause));
        assert!(events.is_news(&Skip::new(SkipReason::Held)));
        assert!(events.is_news(&pause));
    }
}

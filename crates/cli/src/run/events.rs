//! Events of the lock that occur while other code waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use shedlock::{Error, Event, Listener, LostReason, Skip, SkipReason};
use tokio::sync::Notify;

use super::slot;
use crate::terminal::Terminal;

/// Tells the events of the lock that are not the end of something, and keeps what the end is reported with.
#[derive(Debug)]
pub(super) struct Events {
    terminal: Terminal,
    /// What happens if the lease cannot be extended.
    without_lease: &'static str,
    /// A failed attempt was reported, so that the pause after it is no news.
    is_backing_off: bool,
    is_waiting: AtomicBool,
    is_lost: AtomicBool,
    extended: Notify,
    /// Why the last call to the store failed, if it was not taken from here.
    store_error: Mutex<Option<StoreError>>,
    store_failed: Notify,
    /// Why the lease was not extended when that was last due.
    not_extended: Mutex<Option<String>>,
}

/// Why a call to the store has failed.
#[derive(Debug)]
pub(super) struct StoreError {
    /// With what to do about it.
    pub(super) cause: String,
    /// For a reader who has read that.
    pub(super) brief: String,
}

impl Events {
    pub(super) fn new(
        terminal: Terminal,
        without_lease: &'static str,
        is_backing_off: bool,
    ) -> Self {
        Self {
            terminal,
            without_lease,
            is_backing_off,
            is_waiting: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            extended: Notify::new(),
            store_error: Mutex::new(None),
            store_failed: Notify::new(),
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
        lock(&self.store_error).take();
    }

    /// Completes when a call to the store has failed since the last call, with the reason. Cancellation safe.
    pub(super) async fn store_error(&self) -> StoreError {
        loop {
            if let Some(error) = lock(&self.store_error).take() {
                return error;
            }
            self.store_failed.notified().await;
        }
    }

    /// Why the lease was not extended when that was last due. `None` if it was.
    pub(super) fn not_extended(&self) -> Option<String> {
        lock(&self.not_extended).clone()
    }

    /// Why a call failed, for a line after the one that said what to do. With `--quiet` there was none.
    pub(super) fn brief(&self, name: &str, error: &Error) -> String {
        match self.terminal.is_quiet() {
            true => format!("{:#}", error.cause(name)),
            false => format!("{:#}", error.reason()),
        }
    }

    /// Whether it is the pause after a failed attempt, which was reported with that.
    fn is_known(&self, skip: &Skip) -> bool {
        self.is_backing_off && skip.reason == SkipReason::BackingOff
    }

    /// Whether the store reports that the lease is no longer ours.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener for Events {
    fn on_event(&self, event: &Event<'_>) {
        let name = event.lock_name().as_str();
        match event {
            Event::Attempt { .. } => self.is_waiting.store(false, Ordering::Relaxed),
            Event::Waiting { skip, is_news, .. } => {
                self.is_waiting.store(true, Ordering::Relaxed);
                if *is_news && !self.is_known(skip) {
                    let why = slot::why(skip, None);
                    self.terminal.notice(&format!("{name}: waiting: {why}"));
                }
            }
            Event::Lost {
                reason: LostReason::NotHeldInStore,
                ..
            } => self.is_lost.store(true, Ordering::Relaxed),
            Event::StoreError { error, .. } => {
                *lock(&self.store_error) = Some(StoreError {
                    cause: format!("{:#}", error.cause(name)),
                    brief: self.brief(name, error),
                });
                self.store_failed.notify_one();
            }
            Event::ExtendFailed {
                error, is_final, ..
            } => {
                let why = format!("{:#}", error.cause(name));
                match is_final {
                    true => self.terminal.error(&format!(
                        "{name}: cannot extend the lease: {why}; {}",
                        self.without_lease
                    )),
                    false => self.terminal.warning(&format!(
                        "{name}: cannot extend the lease yet, retrying: {why}"
                    )),
                }
                *lock(&self.not_extended) = Some(self.brief(name, error));
            }
            Event::Extended { .. } => {
                *lock(&self.not_extended) = None;
                self.extended.notify_one();
                shedlock_core::tell(event);
            }
            // Told with the end of the turn, or of no concern to who runs a command.
            Event::Skipped { .. }
            | Event::Lost { .. }
            | Event::UnlockDelayed { .. }
            | Event::UnlockFailed { .. }
            | Event::SlotAttemptFailed { .. }
            | Event::SlowRun { .. } => {}
            _ => shedlock_core::tell(event),
        }
    }

    fn tells(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_said_at_the_end_only_if_it_was_not_said_before() {
        let error = Error::new(shedlock::ErrorKind::Configuration, "no table").advise("create it");
        let brief = |is_quiet| Events::new(Terminal::new(is_quiet), "", false).brief("a", &error);
        assert_eq!(brief(false), "no table");
        assert_eq!(brief(true), "no table; create it");
    }

    #[test]
    fn the_pause_after_a_failed_attempt_is_no_news() {
        let events = |is_backing_off| Events::new(Terminal::new(true), "", is_backing_off);
        let pause = Skip::new(SkipReason::BackingOff);
        assert!(events(true).is_known(&pause));
        assert!(!events(true).is_known(&Skip::new(SkipReason::Held)));
        assert!(!events(false).is_known(&pause));
    }
}

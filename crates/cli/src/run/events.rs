//! Events of the lock that occur while other code waits.

use std::sync::atomic::{AtomicBool, Ordering};

use shedlock::{Event, Listener, LostReason};
use tokio::sync::Notify;

use crate::terminal::Terminal;

/// Receives events of the lock: before it is acquired, whether it is waited for; afterwards,
/// changes of its lease.
#[derive(Debug)]
pub(super) struct Events {
    terminal: Terminal,
    is_waiting: AtomicBool,
    has_waited: AtomicBool,
    is_lost: AtomicBool,
    lease_changed: Notify,
}

impl Events {
    pub(super) fn new(terminal: Terminal) -> Self {
        Self {
            terminal,
            is_waiting: AtomicBool::new(false),
            has_waited: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            lease_changed: Notify::new(),
        }
    }

    /// Whether the lock is waited for and no request is in flight.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    /// Completes when the lease was extended or lost since the last call. Cancellation safe.
    pub(super) async fn lease_changed(&self) {
        self.lease_changed.notified().await;
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
                if !self.has_waited.swap(true, Ordering::Relaxed) {
                    let name = request.name().as_str();
                    self.terminal.notice(&format!("{name}: waiting: {skip}"));
                }
            }
            Event::Attempt { .. } => self.is_waiting.store(false, Ordering::Relaxed),
            Event::Lost {
                reason: LostReason::NotHeldInStore,
                ..
            } => {
                self.is_lost.store(true, Ordering::Relaxed);
                self.lease_changed.notify_one();
            }
            Event::Extended { .. } => self.lease_changed.notify_one(),
            _ => {}
        }
    }
}

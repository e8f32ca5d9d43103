//! The thread of the duties.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use shedlock_support::spawn;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use super::errand::{Errand, Handed};
use super::second::Seconds;
use super::table::{Entry, Table};
use crate::clock::{Clock as _, LeaseClock, SystemClock};
use crate::contract::LockProvider;

/// How long connections may take to say goodbye when the thread ends.
const GOODBYE: Duration = Duration::from_millis(100);

/// The thread, as its users see it. It ends when the last of them is gone.
#[derive(Debug)]
pub(super) struct Thread {
    process: u32,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    wake: Notify,
    seconds: Seconds,
    clock: LeaseClock,
    /// The thread could not get a runtime, and has ended.
    has_failed: AtomicBool,
}

impl Thread {
    /// Returns the thread of this process. Starts it if there is none; `None` if that fails.
    pub(super) fn current() -> Option<Arc<Self>> {
        static CURRENT: Mutex<Weak<Thread>> = Mutex::new(Weak::new());
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        let known = current.upgrade().filter(|it| it.is_usable());
        known.or_else(|| {
            let started = Self::start_in(std::process::id()).inspect_err(|error| {
                tracing::warn!(%error,
                    "cannot start the thread that extends leases while their tasks block theirs");
            });
            let thread = Arc::new(started.ok()?);
            *current = Arc::downgrade(&thread);
            Some(thread)
        })
    }

    pub(super) fn start_in(process: u32) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            table: Mutex::default(),
            wake: Notify::new(),
            seconds: Seconds::default(),
            clock: LeaseClock::system(),
            has_failed: AtomicBool::new(false),
        });
        let driven = shared.clone();
        let thread = std::thread::Builder::new().name("shedlock-duties".to_owned());
        thread.spawn(
            move || match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(driven.drive()),
                Err(error) => {
                    driven.has_failed.store(true, Ordering::SeqCst);
                    tracing::warn!(%error,
                        "cannot extend leases while their tasks block their threads");
                }
            },
        )?;
        Ok(Self { process, shared })
    }

    /// A process that was forked has none of its parent's threads.
    pub(super) fn is_usable(&self) -> bool {
        self.process == std::process::id() && !self.shared.has_failed.load(Ordering::SeqCst)
    }

    /// Returns the key of the entry.
    pub(super) fn register(&self, entry: Entry) -> usize {
        let (key, wakes) = self.shared.table().insert(entry);
        if wakes {
            self.shared.wake.notify_one();
        }
        key
    }

    /// Waits until the thread no longer uses the entry.
    pub(super) fn unregister(&self, key: usize) {
        let removed = self.shared.table().remove(key);
        drop(removed);
    }

    /// Takes over an errand, if the provider has something for it.
    pub(super) fn hand_over(
        self: &Arc<Self>,
        errand: Errand,
        provider: &Arc<dyn LockProvider>,
    ) -> Option<Handed> {
        let second = self.shared.seconds.of(provider)?;
        let now = self.shared.clock.read();
        let (key, wakes) = self.shared.table().hand_over(errand, second, now);
        if wakes {
            self.shared.wake.notify_one();
        }
        let thread = self.clone();
        Some(Handed { thread, key })
    }

    /// The errand is done.
    pub(super) fn forget(&self, key: u64) {
        let done = self.shared.table().forget(key);
        drop(done);
    }

    /// The errand is due now, unless it is done.
    pub(super) fn hurry(&self, key: u64) {
        if self.shared.table().hurry(key) {
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.table().stop();
        self.shared.wake.notify_one();
    }
}

impl Shared {
    async fn drive(self: Arc<Self>) {
        let runtime = Handle::current();
        loop {
            let woken = self.wake.notified();
            let due = {
                let mut table = self.table();
                if table.is_over() {
                    break;
                }
                table.look(self.clock.read(), &self.seconds)
            };
            for (key, sending) in due.errands {
                let shared = self.clone();
                spawn(&runtime, async move {
                    let answer = sending.answer().await;
                    let over = shared.table().sent(key, shared.clock.read(), answer);
                    drop(over);
                    shared.wake.notify_one();
                });
            }
            for (ticket, extension) in due.extensions {
                let shared = self.clone();
                spawn(&runtime, async move {
                    let sent = shared.clock.read();
                    let answer = extension.send().await;
                    let now = shared.clock.read();
                    shared.table().extended(ticket, sent, now, answer);
                    shared.wake.notify_one();
                });
            }
            match due.sleep {
                None => woken.await,
                Some(left) => tokio::select! {
                    () = woken => {}
                    () = SystemClock.sleep_until(SystemClock.now() + left) => {}
                },
            }
        }
        // Closing runs in the background, on this runtime.
        if self.seconds.close() {
            SystemClock.sleep_until(SystemClock.now() + GOODBYE).await;
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Duties;
    use super::*;

    #[test]
    fn a_thread_that_got_no_runtime_is_replaced() {
        let failed = Arc::new(Thread::start_in(std::process::id()).unwrap());
        failed.shared.has_failed.store(true, Ordering::SeqCst);
        let duties = Duties(Arc::new(Mutex::new(Some(failed.clone()))));
        let next = duties.thread().unwrap();
        assert!(next.is_usable() && !Arc::ptr_eq(&next, &failed));
    }
}

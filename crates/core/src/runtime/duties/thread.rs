//! The thread of the duties.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::Duration;

use shedlock_support::spawn;
use tokio::runtime::{Builder, Handle, Runtime};
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
}

impl Thread {
    /// Returns the thread of this process. Starts it if there is none; `None` if that fails.
    pub(super) fn current() -> Option<Arc<Self>> {
        static CURRENT: Mutex<Weak<Thread>> = Mutex::new(Weak::new());
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        let known = current.upgrade().filter(|it| it.is_of_this_process());
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
        });
        let driven = shared.clone();
        let thread = std::thread::Builder::new().name("shedlock-duties".to_owned());
        // The thread ends if it gets no runtime. One without a thread could not be dropped here, inside another one.
        let (runtime, built) = mpsc::channel::<Runtime>();
        thread.spawn(move || {
            if let Ok(runtime) = built.recv() {
                runtime.block_on(driven.drive());
            }
        })?;
        let sent = runtime.send(Builder::new_current_thread().enable_all().build()?);
        debug_assert!(sent.is_ok(), "the thread waits for it");
        Ok(Self { process, shared })
    }

    /// A process that was forked has none of its parent's threads.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
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

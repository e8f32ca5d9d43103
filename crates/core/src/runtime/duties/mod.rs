//! Duties that no task can starve.
//!
//! A task that blocks its thread also blocks what its runtime would do for its lease: the
//! keep-alive, and the timer that ends the task. So one thread of this library, with a runtime of
//! its own, looks at every lease of the process. A lease that is kept alive and was not extended in
//! time is extended from there, over a connection that the provider opens for it
//! ([`LockProvider::for_duties`](crate::LockProvider::for_duties)). A lease that ends before its
//! task has stopped is logged. A lock that was dropped is unlocked from there, and an attempt whose
//! reply was lost is withdrawn, if the runtime has not done it in time or has shut down.
//!
//! The thread starts with the first lease and ends with the last executor and lease. It runs no
//! code of the user: no task, listener or callback. A run wakes it only if a duty is due before the
//! thread looks again by itself, which it does once a second while there are leases.

mod errand;
mod extension;
mod second;
mod table;
mod thread;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;

use super::Held;
use crate::contract::LockProvider;
pub(super) use errand::{Call, Errand, Handed};
use table::Entry;
use thread::Thread;

/// The thread that looks after the leases of one executor and of its clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Duties(Arc<Mutex<Option<Arc<Thread>>>>);

impl Duties {
    /// Registers a lease until the returned guard is dropped. With the runtime of its keep-alive,
    /// the thread also extends the lease. Without a thread there is no guard.
    pub(super) fn register(&self, held: &Arc<Held>, keep_alive: Option<&Handle>) -> Option<Duty> {
        let thread = self.thread()?;
        let key = thread.register(Entry::new(held, keep_alive));
        Some(Duty {
            key,
            thread,
            held: held.clone(),
        })
    }

    /// Hands an errand to the thread, in case that the runtime leaves it undone. `None` if the thread cannot do it.
    pub(super) fn hand_over(
        &self,
        errand: Errand,
        provider: &Arc<dyn LockProvider>,
    ) -> Option<Handed> {
        self.thread()?.hand_over(errand, provider)
    }

    fn thread(&self) -> Option<Arc<Thread>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(thread) if thread.is_of_this_process() => Some(thread.clone()),
            _ => {
                *known = Thread::current();
                known.clone()
            }
        }
    }
}

/// A lease that the thread looks after. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Duty {
    key: usize,
    thread: Arc<Thread>,
    /// Dropped after the registration has ended, so that the thread never drops the last reference
    /// to what belongs to the user.
    #[expect(
        dead_code,
        reason = "kept for the order in which references are dropped"
    )]
    held: Arc<Held>,
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.thread.unregister(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_forked_starts_a_thread_of_its_own() {
        let parents = Arc::new(Thread::start_in(std::process::id() + 1).unwrap());
        let duties = Duties(Arc::new(Mutex::new(Some(parents.clone()))));
        let own = duties.thread().unwrap();
        assert!(own.is_of_this_process() && !Arc::ptr_eq(&own, &parents));
        assert!(Arc::ptr_eq(&duties.thread().unwrap(), &own));
        assert!(Arc::ptr_eq(&Duties::default().thread().unwrap(), &own));
    }
}

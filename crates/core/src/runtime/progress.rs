//! An unlock that the duties and a runtime may both send.

use std::sync::atomic::{AtomicU8, Ordering};

/// How far the duties are with it.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU8);

impl Progress {
    const SENT: u8 = 1;
    const UNLOCKED: u8 = 2;

    pub(crate) fn send(&self) {
        self.0.fetch_max(Self::SENT, Ordering::SeqCst);
    }

    pub(crate) fn unlock(&self) {
        self.0.fetch_max(Self::UNLOCKED, Ordering::SeqCst);
    }

    /// It may have taken effect.
    pub(crate) fn is_sent(&self) -> bool {
        self.0.load(Ordering::SeqCst) >= Self::SENT
    }

    /// It has ended the lease.
    pub(crate) fn is_unlocked(&self) -> bool {
        self.0.load(Ordering::SeqCst) >= Self::UNLOCKED
    }
}

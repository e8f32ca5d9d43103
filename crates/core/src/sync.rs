//! What the state of a held lock is shared by; `tests/interleavings.rs` replaces it.

pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use tokio::task::AbortHandle;

//! The synchronization types that the state of a held lock uses. `tests/interleavings.rs` replaces
//! them.

pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use tokio::task::AbortHandle;

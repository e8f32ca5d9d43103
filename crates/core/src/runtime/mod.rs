//! The runtime that holds a lock while a task runs: attempts, the local deadline, release.

mod acquire;
pub mod blocking;
mod bounded;
mod conclude;
mod context;
mod copies;
mod current;
mod dropped;
mod duties;
mod executor;
mod guard;
mod held;
mod held_lock;
mod keep_alive;
mod lease_state;
mod looked_after;
#[cfg(feature = "metrics")]
mod metrics_listener;
mod names;
mod narrator;
mod outcome;
mod pause;
mod progress;
mod release;
mod running;
mod scope;
mod settings;
mod spawned;
mod sync;
mod thread;
mod unlock;
mod wait;
mod watcher;
mod withdrawal;

pub(crate) use acquire::acquire;
pub(crate) use context::Context;
pub use copies::Copies;
pub use current::{CurrentLock, assert_locked, current_lock, extend_current};
pub(crate) use dropped::ReleaseOnDrop;
use duties::{Call, Duties, Duty, Errand, Handed};
pub use executor::Executor;
pub(crate) use guard::{Ended, guard, watch_deadline};
pub(crate) use held::Held;
pub use held_lock::HeldLock;
use keep_alive::KeepAlive;
use lease_state::LeaseState;
pub(crate) use lease_state::SlotWord;
pub(crate) use looked_after::{LookedAfter, Upheld, look_after};
#[cfg(feature = "metrics")]
pub use metrics_listener::MetricsListener;
use names::Names;
pub use narrator::tell;
pub use outcome::Outcome;
pub(crate) use pause::pause;
use progress::{Known, Progress};
pub use release::Release;
pub use scope::{
    current_provider, set_global_executor, set_global_provider, with_executor,
    with_executor_blocking, with_provider, with_provider_blocking,
};
pub(crate) use spawned::while_held;
pub(crate) use unlock::Patience;
use watcher::Watcher;
pub use withdrawal::Unanswered;

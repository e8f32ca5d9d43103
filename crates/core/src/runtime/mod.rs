//! The runtime that holds a lock while a task runs: attempts, the local deadline, release.

mod acquire;
mod bounded;
mod context;
mod copies;
mod dropped;
mod duties;
mod guard;
mod held;
mod keep_alive;
mod lease_state;
mod looked_after;
mod lost;
mod names;
mod pause;
mod release;
mod spawned;
mod wait;
mod watcher;
mod withdrawal;

pub(crate) use context::Context;
pub use copies::Copies;
pub(crate) use dropped::ReleaseOnDrop;
use duties::{Call, Duties, Duty, Errand, Handed};
pub(crate) use guard::{Ended, guard, watch_deadline};
pub(crate) use held::{Held, Patience, SlotWord};
use keep_alive::KeepAlive;
use lease_state::LeaseState;
pub(crate) use looked_after::{LookedAfter, look_after};
pub use lost::{LostPolicy, LostReason};
use names::Names;
pub(crate) use pause::pause;
pub use release::Release;
pub(crate) use spawned::while_held;
pub(crate) use wait::acquire;
use watcher::Watcher;
pub use withdrawal::Unanswered;

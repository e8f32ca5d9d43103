//! The clock that `run` and its watchdog share.

use rustix::time::{ClockId, clock_gettime};
use shedlock::Moment;
use std::time::Duration;

/// Continues while the machine sleeps, never goes back, and is the same for every process: a moment
/// read in one process means the same in another.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SHARED: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SHARED: ClockId = ClockId::Monotonic;

/// Now.
pub(crate) fn now() -> Moment {
    let now = clock_gettime(SHARED);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Moment::from_origin(Duration::new(seconds, nanos))
}

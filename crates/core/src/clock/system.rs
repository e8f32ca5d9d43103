//! The real clock.

#![expect(clippy::disallowed_methods, reason = "this is where time comes from")]

use std::time::{Duration, SystemTime};

use super::{Clock, Moment};
use crate::BoxFuture;

/// The machine's clocks: `CLOCK_BOOTTIME` where there is one (Linux, Android), so that a lease goes
/// on running out while the machine sleeps; elsewhere the monotonic clock of the standard library.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Timers may stand still while the machine is suspended. No single wait is longer than this, so a
/// deadline that passed during a suspend is seen this soon after it.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment::from_origin(since_boot())
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let clock = *self;
        Box::pin(async move {
            loop {
                let left = moment.saturating_since(clock.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_WAIT)).await;
            }
        })
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed()
}

//! The real clock.

#![expect(clippy::disallowed_methods, reason = "this is where time comes from")]

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use super::{Clock, Moment};
use crate::BoxFuture;

/// The machine's clocks, for leases that keep expiring while the machine sleeps: `CLOCK_BOOTTIME`
/// on Linux, Android and OpenBSD, and `CLOCK_MONOTONIC` on Apple's systems, where it counts sleep.
/// Elsewhere it is [`Instant`](std::time::Instant), which counts sleep on Windows.
///
/// On Linux and Android the second part of its [moments](Moment), which is not slewed, is
/// `CLOCK_MONOTONIC_RAW` plus the time suspended. Elsewhere the one clock is both parts.
///
/// None of them keeps running while a hypervisor pauses the machine or restores it from a snapshot.
/// An executor counts a forward jump of the wall clock by more than 100 ms as elapsed time. A lease
/// that ended in the meantime is then lost within a second of the correction. Before that, and if
/// the wall clock is never corrected, only [fencing](crate::CurrentLock::fencing_token) protects.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// Returns the clock as shared code takes it.
    pub fn shared() -> &'static Arc<dyn Clock> {
        static SHARED: LazyLock<Arc<dyn Clock>> = LazyLock::new(|| Arc::new(SystemClock));
        &SHARED
    }
}

/// The longest single wait. Timers may stand still while the machine is suspended, so a deadline
/// that passed during a suspend is noticed within this time.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        read()
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::now()
    }

    fn is_system(&self) -> bool {
        true
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
fn read() -> Moment {
    use rustix::time::ClockId;
    // In this order: a thread that is stopped in between reads a `steady` between its true values
    // at the first and at the last read, and never too short a time suspended.
    let raw = since(ClockId::MonotonicRaw);
    let awake = since(ClockId::Monotonic);
    let slewed = since(ClockId::Boottime);
    let suspended = slewed.saturating_sub(awake);
    Moment::of_two_clocks(slewed, raw.saturating_add(suspended))
}

#[cfg(target_os = "openbsd")]
fn read() -> Moment {
    Moment::from_origin(since(rustix::time::ClockId::Boottime))
}

/// The clock that the standard library uses there (`CLOCK_UPTIME_RAW`) stands still during sleep.
#[cfg(target_vendor = "apple")]
fn read() -> Moment {
    Moment::from_origin(since(rustix::time::ClockId::Monotonic))
}

#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "openbsd",
    target_vendor = "apple"
))]
fn since(clock: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "openbsd",
    target_vendor = "apple"
)))]
fn read() -> Moment {
    use std::sync::OnceLock;
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    Moment::from_origin(ORIGIN.get_or_init(Instant::now).elapsed())
}

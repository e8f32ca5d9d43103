//! A file descriptor to poll that is ready after a while.

use std::io;
use std::time::Duration;

use rustix::event::Timespec;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use boottime::Timer;

/// The longest wait, so that a jump of the wall clock is noticed within this time. Where timers stand still while the
/// machine sleeps, so is the end of the sleep.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A kernel timer that counts sleep. It fires at the instant at which a suspended machine wakes
/// up past its time.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod boottime {
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    };

    use super::{Duration, LONGEST_WAIT, Timespec, io};

    #[derive(Debug)]
    pub(crate) struct Timer(OwnedFd);

    impl Timer {
        pub(crate) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            Ok(Self(timerfd_create(TimerfdClockId::Boottime, flags)?))
        }

        /// Fires after this time, or after the longest wait. Returns how long a poll may last at most.
        pub(crate) fn set(&self, left: Duration) -> io::Result<Option<Timespec>> {
            // A timer that is set to zero never fires.
            let left = left.clamp(Duration::from_nanos(1), LONGEST_WAIT);
            let at = Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(1),
                tv_nsec: left.subsec_nanos().into(),
            };
            let never = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let setting = Itimerspec {
                it_interval: never,
                it_value: at,
            };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting)?;
            Ok(None)
        }
    }

    impl AsFd for Timer {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

/// If there is no such timer: short polls.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
pub(crate) struct Timer(
    std::os::unix::net::UnixStream,
    std::os::unix::net::UnixStream,
);

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        // Never readable. It only exists so that both forms can be polled.
        let (silent, other) = std::os::unix::net::UnixStream::pair()?;
        Ok(Self(silent, other))
    }

    pub(crate) fn set(&self, left: Duration) -> io::Result<Option<Timespec>> {
        let left = left.min(LONGEST_WAIT);
        Ok(Some(Timespec {
            tv_sec: left.as_secs() as _,
            tv_nsec: left.subsec_nanos().into(),
        }))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl std::os::fd::AsFd for Timer {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

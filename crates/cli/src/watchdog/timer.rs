//! A file descriptor to poll that is ready at a moment.

use std::io;

use rustix::event::Timespec;
use shedlock::Moment;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use boottime::Timer;

/// The longest wait if timers may stand still while the machine sleeps.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// A kernel timer on the shared clock. It fires at the instant at which a suspended machine wakes
/// up past the moment.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod boottime {
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    };

    use super::{Moment, Timespec, io};

    #[derive(Debug)]
    pub(crate) struct Timer(OwnedFd);

    impl Timer {
        pub(crate) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            Ok(Self(timerfd_create(TimerfdClockId::Boottime, flags)?))
        }

        /// Fires at this moment and not before. Returns how long a poll may last at most.
        pub(crate) fn set(&self, moment: Moment) -> io::Result<Option<Timespec>> {
            // A timer that is set to zero never fires.
            let since = moment
                .since_origin()
                .max(std::time::Duration::from_nanos(1));
            let at = Timespec {
                tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: since.subsec_nanos().into(),
            };
            let never = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let setting = Itimerspec {
                it_interval: never,
                it_value: at,
            };
            timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &setting)?;
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

    pub(crate) fn set(&self, moment: Moment) -> io::Result<Option<Timespec>> {
        let left = moment
            .saturating_since(crate::clock::now())
            .min(LONGEST_WAIT);
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

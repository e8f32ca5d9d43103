//! Wrong wall clocks, set by libfaketime in the processes.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use shedlock_conformance::wait::now;
use shedlock_core::{Capabilities, Clock as _, ClockSource, Moment, SystemClock};

use crate::Arena;
use shedlock_proof::history::nanos;

/// The environment variable with the library's path or `unavailable`; `cargo xtask` sets it.
const LIBRARY: &str = "SHEDLOCK_TORTURE_FAKETIME";

/// How wrong clocks may be if the size of the error does not matter, in milliseconds.
const HOURS: i64 = 12 * 3_600_000;

/// A difference that is noticed, and that slewing a clock does not cause in a short run.
pub(crate) const NOTICED: Duration = Duration::from_millis(2);

/// The wall clock of one worker and its replacements. Its other clocks are unchanged, including the
/// one by which histories are judged.
#[derive(Debug)]
pub(crate) struct WallClock {
    library: PathBuf,
    file: PathBuf,
    /// By how many milliseconds it is ahead.
    ahead: i64,
}

impl WallClock {
    /// Returns the library that makes clocks wrong.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn library() -> Result<PathBuf, String> {
        match std::env::var(LIBRARY) {
            Ok(path) if path != "unavailable" => Ok(path.into()),
            Ok(_) => Err("libfaketime is not installed".to_owned()),
            Err(_) => Err(format!("{LIBRARY} does not name libfaketime")),
        }
    }

    /// Returns how many milliseconds clients' clocks may be ahead or behind over this store without
    /// any harm.
    ///
    /// # Errors
    /// Why this cannot be tested.
    pub(crate) fn reach(context: &Arena) -> Result<i64, String> {
        if context.namespace().store_addr().is_none() {
            return Err("the store and its clients do not have separate addresses".to_owned());
        }
        let Capabilities {
            clock, slot_clock, ..
        } = context.capabilities();
        Ok([clock, slot_clock]
            .into_iter()
            .filter_map(|clock| tolerated(*clock))
            // Two of them can differ by twice this value.
            .map(|skew| i64::try_from(skew.as_millis() / 2).unwrap_or(HOURS))
            .fold(HOURS, i64::min))
    }

    /// A clock that is correct at first and is set through this file.
    pub(crate) fn new(library: PathBuf, file: PathBuf) -> std::io::Result<Self> {
        let mut clock = Self {
            library,
            file,
            ahead: 0,
        };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets the clock ahead by this many milliseconds.
    pub(crate) fn set(&mut self, ahead: i64) -> std::io::Result<()> {
        let (sign, millis) = (if ahead < 0 { '-' } else { '+' }, ahead.unsigned_abs());
        let text = format!("{sign}{}.{:03}\n", millis / 1_000, millis % 1_000);
        // Atomically: a partial file would be read as a different time.
        let new = self.file.with_extension("new");
        std::fs::write(&new, text)?;
        std::fs::rename(&new, &self.file)?;
        self.ahead = ahead;
        Ok(())
    }

    /// By how much it should be ahead.
    pub(crate) fn ahead(&self) -> i64 {
        self.ahead
    }

    /// The environment variables that a process needs at its start.
    pub(crate) fn variables(&self) -> [(&'static str, &Path); 4] {
        [
            ("LD_PRELOAD", &self.library),
            ("FAKETIME_TIMESTAMP_FILE", &self.file),
            // The file is read again each time, so that the clock can be set while the process
            // runs.
            ("FAKETIME_NO_CACHE", Path::new("1")),
            ("FAKETIME_DONT_FAKE_MONOTONIC", Path::new("1")),
        ]
    }
}

/// The tolerated clock skew between clients, if their clocks judge.
pub(crate) fn tolerated(clock: ClockSource) -> Option<Duration> {
    match clock {
        ClockSource::Clients { tolerated_skew } => Some(tolerated_skew),
        _ => None,
    }
}

/// Reads this process's wall clock, in nanoseconds since 1970, and the moment of the reading on the
/// clock by which histories are judged.
pub(crate) fn read() -> (Moment, u64) {
    let mut read = (now(), Duration::MAX, 0);
    // Retried if there was a delay between the two readings.
    for _ in 0..5 {
        let before = now();
        let wall = SystemClock.system_time().duration_since(UNIX_EPOCH);
        let took = now().saturating_since(before);
        if took < read.1 {
            let wall = wall.unwrap_or_default().as_nanos();
            read = (before, took, u64::try_from(wall).unwrap_or(u64::MAX));
        }
        if took < Duration::from_micros(200) {
            break;
        }
    }
    (read.0, read.2)
}

/// By how many milliseconds a clock that showed `shows` at the moment `at` was ahead of the local
/// one.
pub(crate) fn ahead_of_ours(at: u64, shows: u64) -> i64 {
    let (moment, ours) = read();
    let since = i128::from(nanos(moment.since_origin())) - i128::from(at);
    let ahead = i128::from(shows) + since - i128::from(ours);
    i64::try_from((ahead + 500_000).div_euclid(1_000_000)).unwrap_or(i64::MAX)
}

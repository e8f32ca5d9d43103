//! The scheduled instant that a run belongs to.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::contract::{Error, ErrorKind};

/// A slot: the nominal fire time that a run belongs to, however late the run really starts.
///
/// Every replica computes the same slot for a tick. The store grants it to one of them, and never
/// grants an older one afterwards (law 9). A slot is stored in whole microseconds since 1970 (UTC);
/// finer parts are truncated.
///
/// ```
/// use shedlock::Slot;
/// use std::time::{Duration, UNIX_EPOCH};
/// let slot = Slot::at(UNIX_EPOCH + Duration::from_secs(1_800_000_000))?;
/// assert_eq!(slot.to_string(), "2027-01-15T08:00:00Z");
/// # Ok::<(), shedlock::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(i64);

impl Slot {
    /// The default tolerance of an attempt: a slot further ahead of the store's clock than this is
    /// refused.
    pub const DEFAULT_TOLERANCE: Duration = Duration::from_secs(60);

    /// Returns the slot of this instant.
    ///
    /// # Errors
    /// `InvalidInput` for instants before 1970 or after the year 9999.
    pub fn at(instant: SystemTime) -> Result<Self, Error> {
        let micros = instant
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|since| i64::try_from(since.as_micros()).ok());
        micros.map_or_else(|| Err(out_of_range()), Self::from_micros)
    }

    /// Returns the slot at this many microseconds since 1970 (UTC), the unit that stores use.
    ///
    /// # Errors
    /// `InvalidInput` for negative values and for instants after the year 9999.
    pub fn from_micros(micros: i64) -> Result<Self, Error> {
        const YEAR_10000: i64 = 253_402_300_800_000_000;
        if (0..YEAR_10000).contains(&micros) {
            Ok(Self(micros))
        } else {
            Err(out_of_range())
        }
    }

    /// Returns the microseconds since 1970 (UTC).
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the last instant before this slot, as a slot. A lock whose last slot is that instant
    /// can be taken for `self`, and for no earlier slot of a schedule. The first possible slot has
    /// none before it and returns itself.
    #[must_use]
    pub fn just_before(self) -> Self {
        Self((self.0 - 1).max(0))
    }

    /// Returns the instant.
    pub fn instant(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.0.unsigned_abs())
    }
}

fn out_of_range() -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "a slot must be between the years 1970 and 9999",
    )
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shedlock_support::text::instant(self.instant()))
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({self})")
    }
}

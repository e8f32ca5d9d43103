//! A time zone as a sequence of stretches with one offset each.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use shedlock_core::{Error, ErrorKind};
use shedlock_grammar::zone;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zone(TimeZone);

/// A stretch of time, in seconds since 1970, in which the local clock runs without a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// The first second of it; `i64::MIN` if there was no change before.
    pub(super) start: i64,
    /// The first second after it; `i64::MAX` if no change follows.
    pub(super) end: i64,
    /// The seconds by which local time is ahead of UTC.
    pub(super) offset: i64,
    /// The upper limit of the local times reached before this stretch began: times below it have
    /// been reached, this one and later ones have not. `i64::MIN` in the first stretch.
    pub(super) reached: i64,
}

/// Local clocks were never set back by more than a day (when islands changed sides of the date
/// line), so an earlier change cannot have reached further.
const FURTHEST_BACK: i64 = 2 * 86_400;

impl Zone {
    pub(super) fn get(name: &str) -> Result<Self, Error> {
        shedlock_support::zone::get(name).map(Self).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, zone::unknown(name)).advise(zone::REMEDY)
        })
    }

    #[cfg(test)]
    pub(super) fn of(zone: TimeZone) -> Self {
        Self(zone)
    }

    pub(super) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns the stretch that contains this second; `None` outside the calendar.
    pub(super) fn stretch(&self, second: i64) -> Option<Stretch> {
        let now = Timestamp::from_second(second).ok()?;
        let start = self.last_change(second)?;
        let end = self.changes_after(now).next().unwrap_or(i64::MAX);
        Some(Stretch {
            start,
            end,
            offset: self.offset(now),
            reached: self.reached(start),
        })
    }

    /// Returns the last change at or before this second; `i64::MIN` if there was none.
    fn last_change(&self, second: i64) -> Option<i64> {
        let after = Timestamp::from_second(second.checked_add(1)?).ok()?;
        let Some(before) = self.0.preceding(after).next() else {
            return Some(i64::MIN);
        };
        // The library may apply today's rule and return a change that is earlier than the last one
        // of its table (Ciudad Juarez in December 2022). So the search continues forward from
        // there.
        let known = before.timestamp();
        let later = self
            .changes_after(known)
            .take_while(|change| *change <= second);
        Some(later.last().unwrap_or(known.as_second()))
    }

    fn reached(&self, start: i64) -> i64 {
        // Nothing precedes the beginning of time or what directly follows it.
        let Ok(from) = Timestamp::from_second(start.saturating_sub(FURTHEST_BACK)) else {
            return i64::MIN;
        };
        self.changes_after(from)
            .take_while(|change| *change <= start)
            .filter_map(|change| {
                let before = Timestamp::from_second(change - 1).ok()?;
                Some(change + self.offset(before))
            })
            .max()
            .unwrap_or(i64::MIN)
    }

    fn changes_after(&self, instant: Timestamp) -> impl Iterator<Item = i64> {
        self.0
            .following(instant)
            .map(|change| change.timestamp().as_second())
    }

    fn offset(&self, at: Timestamp) -> i64 {
        i64::from(self.0.to_offset(at).seconds())
    }
}

//! Schedules: when a job is due. A pure computation that gives the same result on every replica.

mod cron;
mod grid;
mod local_times;
mod parsed;
mod registered;
mod zone;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{Clock, Error, ErrorKind, HUNDRED_YEARS, LockDuration, Slot, SystemClock};
use shedlock_grammar::period;
use shedlock_support::text;

use cron::Cron;
use grid::Grid;
pub use registered::{next_slot, schedule_in_words};

/// A schedule: when a job is due.
///
/// Cron and [`every`](Self::every) define instants that all replicas agree on: their slots.
/// [`fixed_delay`](Self::fixed_delay) counts from the end of the last run on this node and has no
/// slots.
///
/// ```
/// use shedlock::scheduler::Schedule;
/// use std::time::{Duration, UNIX_EPOCH};
/// let midnight = UNIX_EPOCH + Duration::from_secs(1_800_057_600);
/// let schedule = Schedule::cron("*/10 * * * *")?;
/// let late = midnight + Duration::from_millis(2_550);
/// let slot = schedule.slot_at(late, Duration::ZERO).expect("cron has slots");
/// assert_eq!(slot.to_string(), "2027-01-16T00:00:00Z");
/// let next = schedule.next_after(late).expect("cron has slots");
/// assert_eq!(next.to_string(), "2027-01-16T00:10:00Z");
/// # Ok::<(), shedlock::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Schedule(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Cron(Cron),
    Grid(Grid),
    FixedDelay(Duration),
}

impl Schedule {
    /// Parses a cron expression in UTC. See [`cron_in`](Self::cron_in) for the syntax.
    ///
    /// # Errors
    /// As [`cron_in`](Self::cron_in).
    pub fn cron(expression: &str) -> Result<Self, Error> {
        Self::cron_in(expression, "UTC")
    }

    /// Parses a cron expression in a time zone of the IANA database.
    ///
    /// Five fields (minute, hour, day of month, month, day of week) or six, with seconds first. It
    /// supports lists, ranges, steps, names (`MON`, `jan`), `L` (last day of the month; `5L`: last
    /// Friday), `W` (nearest working day: `15W`, `LW`), `#` (`MON#2`: second Monday), `?`, and
    /// `@hourly` to `@yearly`.
    ///
    /// # Steps
    ///
    /// `*/20` and `5-50/15` count from the first value of the range, and again in each minute, hour,
    /// day, month or year: `*/45` in the minute fires at 0 and 45. `5/15` is `5-59/15`. For a period
    /// that does not fit into its field, such as 90 minutes, use [`every`](Self::every): a step that
    /// long is refused. `*/2` in the day of week is refused, too: crond counts from Sunday, and Spring
    /// from Monday. List the days.
    ///
    /// # Two day fields
    ///
    /// As in Vixie cron: if one of them begins with `*` (or `?`), a day has to match both, so
    /// `0 0 */2 * MON` fires on odd days that are Mondays. Otherwise a day that matches either of
    /// them fires: `0 0 1 * MON` on the first of the month and on Mondays. `+` before the day of
    /// week (`0 0 1-7 * +MON`) requires both.
    ///
    /// Spring always requires both, and Quartz does not accept such an expression. A
    /// [`Scheduler`](crate::Scheduler) logs a warning if the interpretations differ.
    ///
    /// # Changes of the clock
    ///
    /// As in Vixie cron, the behaviour depends on whether the field of seconds, minutes or hours
    /// begins with `*`:
    ///
    /// - If none does, it is a job at *times of day*: it fires when the local clock first reaches
    ///   each of them. Times in an hour that is skipped fire at the end of the gap (a daily 02:30
    ///   fires at 03:00 that day). Times in an hour that is repeated fire the first time only. No
    ///   daily run is lost or doubled.
    /// - If one does, the job *runs through*: it fires whenever the local clock shows a matching
    ///   time. Every ten minutes stays every ten minutes.
    ///
    /// # Zones
    ///
    /// The schedule uses the time zone database of the system, so that a change of law arrives with
    /// the system's updates. If the system has none, or none of this name, it uses the one that was
    /// compiled in. The database is read when the schedule is created. Replicas with different
    /// databases disagree about slots around dates for which their rules differ.
    ///
    /// # Errors
    /// `InvalidInput`: unreadable expression, an expression that never fires (30 February), unknown
    /// zone.
    ///
    /// ```
    /// use shedlock::scheduler::Schedule;
    /// use std::time::{Duration, UNIX_EPOCH};
    /// let schedule = Schedule::cron_in("30 2 * * *", "Europe/Berlin")?;
    /// // On 28 March 2027, 02:00 to 03:00 is skipped there: the job runs at the end of the gap.
    /// let noon_before = UNIX_EPOCH + Duration::from_secs(1_806_145_200);
    /// let slot = schedule.next_after(noon_before).expect("cron has slots");
    /// assert_eq!(slot.to_string(), "2027-03-28T01:00:00Z");
    /// assert!(Schedule::cron("0 0 30 2 *").is_err());
    /// # Ok::<(), shedlock::Error>(())
    /// ```
    pub fn cron_in(expression: &str, zone: &str) -> Result<Self, Error> {
        Cron::parse(expression, zone).map(|cron| Self(Kind::Cron(cron)))
    }

    /// Creates a schedule with a fixed period, on a grid that all replicas share. Its points are
    /// whole periods away from 1970-01-01 00:00 UTC, or from [`anchored_at`](Self::anchored_at).
    ///
    /// # Errors
    /// `InvalidInput`: unreadable, shorter than 1 ms, not in whole microseconds, longer than 100
    /// years.
    pub fn every(period: impl Into<LockDuration>) -> Result<Self, Error> {
        Grid::new(period.into().get()?).map(|grid| Self(Kind::Grid(grid)))
    }

    /// Anchors the grid of [`every`](Self::every) at this instant, which must be the same on every
    /// replica. Other schedules have no grid and stay unchanged.
    #[must_use]
    pub fn anchored_at(mut self, anchor: SystemTime) -> Self {
        if let Kind::Grid(grid) = &mut self.0 {
            grid.anchor_at(micros_of(anchor));
        }
        self
    }

    /// Creates a schedule that fires this long after the end of the last run (or skip) on this
    /// node. It has no slots: replicas run one after another, never at once, and each counts its
    /// delay separately.
    ///
    /// # Errors
    /// `InvalidInput`: unreadable, shorter than 1 ms, or longer than 100 years.
    pub fn fixed_delay(delay: impl Into<LockDuration>) -> Result<Self, Error> {
        let delay = delay.into().get()?;
        period::check_fixed_delay(delay)
            .map_err(|message| Error::new(ErrorKind::InvalidInput, message))?;
        Ok(Self(Kind::FixedDelay(delay)))
    }

    /// The tolerance of [`slot_now`](Self::slot_now) if the slots are far enough apart. It exceeds
    /// the skew of clocks that NTP keeps, and is small enough that a run that you start by hand
    /// rarely counts as the next slot's.
    pub const SLOT_TOLERANCE: Duration = Duration::from_secs(5);

    /// Returns the slot of a run that starts now. For runs that another scheduler starts. It is
    /// [`slot_at`](Self::slot_at) by the system's clock, with a tolerance of
    /// [`SLOT_TOLERANCE`](Self::SLOT_TOLERANCE) or, if that is less, a tenth of the time between
    /// the two slots around now.
    ///
    /// The other scheduler still fires on every replica, by the same expression and time zone. The
    /// slot lets only one of these runs execute per tick. Call this first thing in the run. If the
    /// scheduler reports the instant that a run was planned for, that instant is the slot
    /// ([`Slot::at`]), and you need no schedule here.
    ///
    /// # Errors
    /// `InvalidInput` for [`fixed_delay`](Self::fixed_delay), which has no slots, and if the clock
    /// shows a time before the first slot (in 1970).
    ///
    /// ```
    /// use shedlock::{Executor, LockConfig, MemoryProvider, SkipReason};
    /// use shedlock::scheduler::Schedule;
    /// use std::sync::Arc;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let executor = Executor::new(Arc::new(MemoryProvider::new()));
    /// // What the other scheduler calls, on each replica:
    /// let slot = Schedule::cron_in("0 0 2 * * *", "Asia/Seoul")?.slot_now()?;
    /// let config = LockConfig::new("report").lock_at_most_for("10m").slot(slot);
    /// let outcome = executor.execute(&config, async { /* … */ }).await?;
    /// # assert!(outcome.is_executed());
    /// # let again = executor.execute(&config, async {}).await?;
    /// # assert_eq!(again.skip().map(|skip| skip.reason), Some(SkipReason::SlotTaken));
    /// assert!(Schedule::fixed_delay("1m")?.slot_now().is_err());
    /// # Ok::<(), shedlock::Error>(()) }).unwrap();
    /// ```
    pub fn slot_now(&self) -> Result<Slot, Error> {
        let now = SystemClock.system_time();
        let slot = self.slot_at(now, self.usual_tolerance(now));
        let wrong = |what| Error::new(ErrorKind::InvalidInput, what);
        slot.ok_or_else(|| match &self.0 {
            Kind::FixedDelay(_) => {
                wrong("a fixed delay counts from the last run on this node, and has no slots")
            }
            Kind::Cron(_) | Kind::Grid(_) => {
                wrong("the system clock is before the first slot").advise("set the clock")
            }
        })
    }

    fn usual_tolerance(&self, now: SystemTime) -> Duration {
        let now = micros_of(now);
        match (self.newest_at(now), self.first_after(now)) {
            (Some(newest), Some(next)) => {
                let apart = Duration::from_micros(next.abs_diff(newest));
                Self::SLOT_TOLERANCE.min(apart / 10)
            }
            _ => Self::SLOT_TOLERANCE,
        }
    }

    /// Returns the slot of a run at `now`: the newest one at or before `now`, or the next one if it
    /// is no more than `tolerance` ahead.
    ///
    /// The tolerance is for a node whose clock runs a little behind the timer that woke it. Without
    /// it, such a node would take the previous slot. The tolerance never reaches further than half
    /// the time to the next slot, so a tolerance that is too large for the schedule does no harm.
    ///
    /// Returns `None` before the first slot (in 1970) and for [`fixed_delay`](Self::fixed_delay).
    ///
    /// ```
    /// use shedlock::scheduler::Schedule;
    /// use std::time::{Duration, UNIX_EPOCH};
    /// let schedule = Schedule::every("10m")?;
    /// let slow_clock = UNIX_EPOCH + Duration::from_millis(1_800_057_599_800);
    /// let slot = |tolerance| schedule.slot_at(slow_clock, tolerance).expect("a grid has slots");
    /// assert_eq!(slot(Duration::from_secs(1)).to_string(), "2027-01-16T00:00:00Z");
    /// assert_eq!(slot(Duration::ZERO).to_string(), "2027-01-15T23:50:00Z");
    /// # Ok::<(), shedlock::Error>(())
    /// ```
    pub fn slot_at(&self, now: SystemTime, tolerance: Duration) -> Option<Slot> {
        let now = micros_of(now);
        let newest = self.newest_at(now);
        let next = self.first_after(now);
        let is_next = next.is_some_and(|next| {
            let ahead = next.saturating_sub(now);
            let behind = newest.map_or(i64::MAX, |newest| now.saturating_sub(newest));
            ahead <= behind && Duration::from_micros(ahead.unsigned_abs()) <= tolerance
        });
        slot(if is_next { next } else { newest })
    }

    /// Returns the first slot after this instant. Returns `None` after the last one (in the year
    /// 9999) and for [`fixed_delay`](Self::fixed_delay).
    pub fn next_after(&self, instant: SystemTime) -> Option<Slot> {
        slot(self.first_after(micros_of(instant).max(-1)))
    }

    /// Returns the slot before this one.
    pub(crate) fn before(&self, of: Slot) -> Option<Slot> {
        slot(self.newest_at(of.as_micros() - 1))
    }

    /// Returns a placeholder for a schedule that could not be parsed.
    pub(crate) fn never() -> Self {
        Self(Kind::FixedDelay(HUNDRED_YEARS))
    }

    /// Returns the delay, if this is a fixed delay.
    pub(crate) fn delay(&self) -> Option<Duration> {
        match &self.0 {
            Kind::FixedDelay(delay) => Some(*delay),
            Kind::Cron(_) | Kind::Grid(_) => None,
        }
    }

    /// Returns the shortest time between two slots, ignoring changes of the clock. This is the
    /// period, or for a cron expression the shortest time between two times of one day, or of two
    /// consecutive days if it fires daily.
    ///
    /// Returns `None` for a cron expression that fires once on some days, and for
    /// [`fixed_delay`](Self::fixed_delay).
    ///
    /// ```
    /// use shedlock::scheduler::Schedule;
    /// use std::time::Duration;
    /// let schedule = Schedule::cron("0,50 9-17 * * MON-FRI")?;
    /// assert_eq!(schedule.shortest_gap(), Some(Duration::from_secs(600)));
    /// # Ok::<(), shedlock::Error>(())
    /// ```
    pub fn shortest_gap(&self) -> Option<Duration> {
        match &self.0 {
            Kind::Grid(grid) => Some(grid.period()),
            Kind::Cron(cron) => cron.shortest_gap(),
            Kind::FixedDelay(_) => None,
        }
    }

    /// Returns true if a day may match either of two day fields. Spring requires both.
    pub(crate) fn takes_either_day(&self) -> bool {
        matches!(&self.0, Kind::Cron(cron) if cron.takes_either_day())
    }

    fn newest_at(&self, now: i64) -> Option<i64> {
        match &self.0 {
            Kind::Cron(cron) => cron.newest_at(now),
            Kind::Grid(grid) => grid.newest_at(now),
            Kind::FixedDelay(_) => None,
        }
    }

    fn first_after(&self, now: i64) -> Option<i64> {
        match &self.0 {
            Kind::Cron(cron) => cron.first_after(now),
            Kind::Grid(grid) => grid.first_after(now),
            Kind::FixedDelay(_) => None,
        }
    }
}

/// The schedule argument of a [`Job`](crate::Job): a schedule, or the result of creating one, so
/// that you can write jobs without a `?`. The scheduler refuses an invalid one when it starts.
pub trait IntoSchedule {
    /// Returns the schedule.
    ///
    /// # Errors
    /// Why the schedule is invalid.
    fn into_schedule(self) -> Result<Schedule, Error>;
}

impl IntoSchedule for Schedule {
    fn into_schedule(self) -> Result<Schedule, Error> {
        Ok(self)
    }
}

impl IntoSchedule for Result<Schedule, Error> {
    fn into_schedule(self) -> Result<Schedule, Error> {
        self
    }
}

/// The beginning of the text of a grid.
const EVERY: &str = "every ";

/// Formats it as it was written: `cron "0 2 * * *" in Asia/Seoul`, `every 10m`,
/// `10m after the last run`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Cron(cron) => write!(f, "{cron}"),
            Kind::Grid(grid) => write!(f, "{EVERY}{}", text::duration(grid.period())),
            Kind::FixedDelay(delay) => write!(f, "{} after the last run", text::duration(*delay)),
        }
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({self})")
    }
}

fn slot(micros: Option<i64>) -> Option<Slot> {
    Slot::from_micros(micros?).ok()
}

/// Returns whole microseconds since 1970, rounded down. Instants outside the calendar are clamped
/// to its ends.
fn micros_of(instant: SystemTime) -> i64 {
    match instant.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => {
            let nanos = before.duration().as_nanos();
            i64::try_from(nanos.div_ceil(1_000)).map_or(i64::MIN, |micros| -micros)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_shown_in_the_units_of_its_settings() {
        for (schedule, text) in [
            (Schedule::every("10m"), "every 10m"),
            (Schedule::every("90m"), "every 1h 30m"),
            (
                Schedule::fixed_delay("1500ms"),
                "1s 500ms after the last run",
            ),
            (Schedule::cron("0 2 * * *"), "cron \"0 2 * * *\" in UTC"),
        ] {
            assert_eq!(schedule.unwrap().to_string(), text);
        }
    }

    #[test]
    fn the_usual_tolerance_leaves_late_runs_their_slot() {
        let at = |millis: u64| UNIX_EPOCH + Duration::from_millis(1_800_000_000_000 + millis);
        let usual = |period: &str, millis: u64| {
            let schedule = Schedule::every(period).unwrap();
            let slot = schedule.slot_at(at(millis), schedule.usual_tolerance(at(millis)));
            slot.unwrap().instant().duration_since(at(0)).unwrap()
        };
        let secs = Duration::from_secs;
        // A timer that polls twice a second may be this late.
        assert_eq!(usual("1s", 600), secs(0));
        assert_eq!(usual("1s", 950), secs(1));
        assert_eq!(usual("10m", 594_900), secs(0));
        assert_eq!(usual("10m", 595_100), secs(600));
    }
}

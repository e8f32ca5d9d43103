//! Refuses at compile time what the scheduler would refuse when it starts.
//!
//! The rules are repeated here because a build must not wait for the runtime to expand an
//! attribute. A test keeps the two consistent.

use std::time::Duration;

use croner::time::days_in_month;
use croner::{Cron, Weekday};
use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

use super::refusal::read;

/// Checks that a cron expression can be parsed and fires on some day.
pub(crate) fn cron(expression: &str) -> Result<(), String> {
    let parsed = read(expression)?;
    if !ever_fits(&parsed) {
        return Err(format!(
            "the cron expression {expression:?} never fires: no date matches"
        ));
    }
    Ok(())
}

/// Returns the shortest time between two slots of an expression, if its fields determine it.
pub(super) fn shortest_gap(expression: &str) -> Option<Duration> {
    let pattern = read(expression).ok()?.pattern;
    let (seconds, minutes, hours) = (
        pattern.seconds.values(),
        pattern.minutes.values(),
        pattern.hours.values(),
    );
    let in_minute = span(&seconds);
    let in_hour = in_minute + 60 * span(&minutes);
    let in_day = in_hour + 3_600 * span(&hours);
    let is_daily = pattern.is_dom_wildcard()
        && pattern.is_dow_wildcard()
        && pattern.months.values().len() == 12;
    let gaps = [
        nearest(&seconds),
        nearest(&minutes).map(|apart| 60 * apart - in_minute),
        nearest(&hours).map(|apart| 3_600 * apart - in_hour),
        is_daily.then(|| 86_400 - in_day),
    ];
    gaps.into_iter().flatten().min().map(Duration::from_secs)
}

fn span(values: &[u16]) -> u64 {
    let ends = values.first().zip(values.last());
    ends.map_or(0, |(first, last)| u64::from(last - first))
}

fn nearest(values: &[u16]) -> Option<u64> {
    let gaps = values.windows(2).map(|pair| u64::from(pair[1] - pair[0]));
    gaps.min()
}

/// The calendar repeats after 28 years, until the year 2100.
fn ever_fits(parsed: &Cron) -> bool {
    let mut weekday = Weekday::Saturday;
    for year in 2000..2028 {
        for month in 1..=12 {
            let has_month = parsed.pattern.month_match(month).unwrap_or(false);
            for day in 1..=days_in_month(year, month) {
                let has_day = || parsed.pattern.day_match(year, month, day, weekday);
                if has_month && has_day().unwrap_or(false) {
                    return true;
                }
                weekday = weekday.shift(1);
            }
        }
    }
    false
}

/// Checks a zone against the database that was compiled in. A build must not depend on what is
/// installed on the machine.
pub(crate) fn zone(name: &str) -> Result<(), String> {
    TimeZoneDatabase::bundled()
        .get(name)
        .map(drop)
        .map_err(|_| {
            format!(
                "unknown time zone {name:?}; use a name from the IANA database, like \
                 \"Europe/Berlin\" or \"UTC\""
            )
        })
}

/// The shortest and the longest period or delay.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

pub(super) fn every(period: Duration) -> Result<(), String> {
    let why = if period < SHORTEST {
        "the shortest period is 1ms"
    } else if period > LONGEST {
        "the longest period is 100 years"
    } else if period.subsec_nanos() % 1_000 != 0 {
        "periods must be whole microseconds"
    } else {
        return Ok(());
    };
    Err(format!("cannot run every {}: {why}", written(period)))
}

/// Formats a duration as people write it: `0s`, `1h 30m`, `1us`.
fn written(duration: Duration) -> String {
    const UNITS: [(&str, u128); 7] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let mut rest = duration.as_nanos();
    let mut parts = Vec::new();
    for (unit, nanos) in UNITS {
        if rest >= nanos {
            parts.push(format!("{}{unit}", rest / nanos));
            rest %= nanos;
        }
    }
    if parts.is_empty() {
        "0s".to_owned()
    } else {
        parts.join(" ")
    }
}

pub(super) fn fixed_delay(delay: Duration) -> Result<(), String> {
    if delay.is_zero() {
        return Err("the delay is zero: the job would run without a pause".to_owned());
    }
    if delay < SHORTEST {
        return Err("the delay is shorter than 1ms: the job would use a whole core".to_owned());
    }
    if delay > LONGEST {
        let long = "the delay is longer than 100 years: the job would never run again";
        return Err(long.to_owned());
    }
    Ok(())
}

/// Parses an instant since 1970 as seconds and nanoseconds.
pub(super) fn anchor(text: &str) -> Result<(u64, u32), String> {
    let unreadable = || {
        format!(
            "cannot read {text:?} as an instant: write an instant since 1970 with its offset, like \
             \"2027-01-16T09:00:00Z\" or \"2027-01-16T09:00:00+09:00\""
        )
    };
    let instant: Timestamp = text.trim().parse().map_err(|_| unreadable())?;
    let since = Duration::try_from(instant.as_duration()).map_err(|_| unreadable())?;
    Ok((since.as_secs(), since.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use shedlock::scheduler::Schedule;
    use std::time::Duration;

    fn same(what: &str, here: Result<(), String>, there: Result<Schedule, shedlock::Error>) {
        match (here, there) {
            (Ok(()), Ok(_)) => {}
            (Err(here), Err(there)) => assert_eq!(here, there.to_string(), "{what:?}"),
            (here, there) => panic!("{what:?}: {here:?} here, {there:?} there"),
        }
    }

    #[test]
    fn the_macro_refuses_what_the_scheduler_refuses() {
        for text in [
            "* * * * *",
            "0 */10 * * * *",
            "0 2 * * MON-FRI",
            "0 0 L * *",
            "0 0 LW * *",
            "0 0 15W * *",
            "0 0 * * MON#2",
            "0 0 * * 5L",
            "0 0 1-7 * +MON",
            "@daily",
            "@yearly",
            "0 0 29 2 *",
            "0 0 29 2 +MON",
            "0 0 30 2 *",
            "0 0 31 4,6,9,11 *",
            "0 0 31W 2 *",
            "0 0 30 2 MON",
            "0 0 ? * *",
            "",
            " ",
            "* * * *",
            "60 * * * *",
            "0 24 * * *",
            "* * * * * * 2030",
            "@reboot",
            "a b c d e",
            "5-1 * * * *",
            "*/0 * * * *",
            "*/x * * * *",
            "*/99999 * * * *",
            "*/90 * * * *",
            "0 */24 * * *",
            "0 0 1 */18 *",
            "/5 * * * *",
            "5/10 * * * *",
            "60/10 * * * *",
            "5L/2 * * * *",
            "0 0 * * */2",
            "0 0 * * SUN/3",
            "0 0 * * 7-7",
            "0 0 * * */2#x",
            "@midnight",
            "-",
            "0,30-10/5 * * * *",
            "5- * * * *",
            "* 0-24 * * *",
            "0 0 32W * *",
            "0 0 L-5 * *",
            "0 0 1 FOO *",
            "0 0 1 DEC-JAN *",
            "0 0 * * FRI-MON",
            "0 0 * * MON#6",
            "0 0 * * MON#x",
            "0 0 * * 8#2",
            "0 0 5#6 * *",
            "@DAILY x * * *",
            "\u{ff11} * * * *",
            "0 0 * * 8",
            "0 0 * * L",
            "0 0 0 * * 1,L",
            "0 0 */2 * MON",
            "0 0 30 2 */2",
            "0 0 31 4 */3",
            "0 0 30 2 1,3",
            "*/7 1-3 5,22 * * *",
            "0 0,23 * * *",
            "0 0,23 1 * *",
        ] {
            same(text, super::cron(text), Schedule::cron(text));
            let gap = Schedule::cron(text)
                .ok()
                .and_then(|cron| cron.shortest_gap());
            assert_eq!(
                super::shortest_gap(text).filter(|_| gap.is_some()),
                gap,
                "{text}"
            );
        }
        for zone in [
            "UTC",
            "Asia/Seoul",
            "europe/berlin",
            "US/Pacific",
            "Mars/Olympus",
            "",
            "+09:00",
        ] {
            same(
                zone,
                super::zone(zone),
                Schedule::cron_in("0 0 * * *", zone),
            );
        }
        for nanos in [0, 1, 999_999, 1_000_000, 1_000_001, 1_000_001_000, u64::MAX] {
            let period = Duration::from_nanos(nanos);
            same("every", super::every(period), Schedule::every(period));
            same(
                "delay",
                super::fixed_delay(period),
                Schedule::fixed_delay(period),
            );
        }
        let century = Duration::from_secs(100 * 366 * 86_400);
        for period in [century, century + Duration::from_secs(1), Duration::MAX] {
            same("every", super::every(period), Schedule::every(period));
            let delay = Schedule::fixed_delay(period);
            same("delay", super::fixed_delay(period), delay);
        }
    }

    #[test]
    fn an_anchor_is_an_instant_since_1970() {
        assert_eq!(
            super::anchor("1970-01-02T00:00:00.5Z"),
            Ok((86_400, 500_000_000))
        );
        assert_eq!(super::anchor("1970-01-02T09:00:00+09:00"), Ok((86_400, 0)));
        for text in [
            "",
            "1970-01-02",
            "1970-01-02T00:00:00",
            "1969-12-31T00:00:00Z",
            "midnight",
        ] {
            assert!(
                super::anchor(text).unwrap_err().contains("with its offset"),
                "{text}"
            );
        }
    }
}

//! What jiff reads is the oracle for durations, instants, dates and names of zones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use fastrand::Rng;
use jiff::tz::TimeZoneDatabase;
use jiff::{Span, SpanRelativeTo, Timestamp};
use shedlock_grammar::duration::{self, LONGEST, Refusal};
use shedlock_grammar::{civil, instant, zone};

const SEED: u64 = 20_261_130;
const TEXTS: usize = 200_000;

/// Of what durations consist, and of what they are made wrong.
const PIECES: [&str; 64] = [
    "y",
    "yr",
    "year",
    "years",
    "mo",
    "months",
    "w",
    "wk",
    "weeks",
    "d",
    "d",
    "day",
    "days",
    "h",
    "h",
    "hr",
    "hours",
    "m",
    "m",
    "min",
    "minutes",
    "s",
    "s",
    "sec",
    "seconds",
    "ms",
    "millis",
    "us",
    "µs",
    "µsecs",
    "micros",
    "ns",
    "nanos",
    " ",
    " ",
    "  ",
    "\t",
    ",",
    ", ",
    ".",
    ".5",
    ",25",
    ":",
    ":00",
    "-",
    "+",
    "ago",
    " ago",
    "P",
    "PT",
    "P1D",
    "T",
    "pt",
    "H",
    "M",
    "S",
    "D",
    "0.000000001",
    "1.1234567890",
    "\u{a0}",
    "x",
    "١",
    "175307616",
    "7304484",
];

fn text(random: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..random.usize(1..=4) {
        if random.u8(..4) > 0 {
            let digits = random.u32(1..=12);
            text += &random.u64(..10_u64.pow(digits)).to_string();
        }
        text += PIECES[random.usize(..PIECES.len())];
    }
    text
}

/// What was read before there was a grammar of our own.
fn by_jiff(text: &str) -> Result<Duration, Refusal> {
    let span: Span = text.trim().parse().map_err(|_| Refusal::Unreadable)?;
    if span.get_years() != 0 || span.get_months() != 0 || span.get_weeks() != 0 {
        return Err(Refusal::Calendar);
    }
    let signed = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| Refusal::Unreadable)?;
    if signed.is_negative() {
        return Err(Refusal::Negative);
    }
    match signed.unsigned_abs() {
        longer if longer > LONGEST => Err(Refusal::TooLong),
        duration => Ok(duration),
    }
}

/// Where the two differ by intention.
fn is_exception(text: &str, ours: Result<Duration, Refusal>) -> bool {
    let has_long_number = text
        .split(|char: char| !char.is_ascii_digit())
        .any(|digits| digits.len() > 18);
    match ours {
        // A span has limits for each unit. Ours has one for the sum, and says so.
        Err(Refusal::TooLong | Refusal::Negative | Refusal::Calendar | Refusal::Order) => true,
        // A span holds no more than 292 years of nanoseconds, and 20 digits.
        Ok(_) => has_long_number,
        Err(Refusal::Unreadable) => false,
    }
}

#[test]
fn durations_are_read_as_jiff_reads_them() {
    let mut random = Rng::with_seed(SEED);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..TEXTS {
        let text = text(&mut random);
        let (ours, theirs) = (duration::parse(&text), by_jiff(&text));
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                assert_eq!(ours, theirs, "{text:?}");
                read += 1;
            }
            (Err(_), Ok(_)) => panic!("{text:?}: {ours:?}, and by jiff {theirs:?}"),
            (_, Err(Refusal::Unreadable)) => {
                let is_same = ours == Err(Refusal::Unreadable);
                assert!(is_same || is_exception(&text, ours), "{text:?}: {ours:?}");
                refused += 1;
            }
            (ours, Err(theirs)) => {
                assert_eq!(ours, Err(theirs), "{text:?}");
                refused += 1;
            }
        }
    }
    assert!(
        read > TEXTS / 20 && refused > TEXTS / 20,
        "{read} {refused}"
    );
}

#[test]
fn what_is_written_is_read_by_both() {
    let mut random = Rng::with_seed(SEED);
    for _ in 0..20_000 {
        let shift = random.u32(..36);
        let seconds = random.u64(..LONGEST.as_secs() >> shift);
        let duration = Duration::new(seconds, random.u32(..1_000_000_000) >> random.u32(..30));
        let text = duration::written(duration);
        assert_eq!(duration::parse(&text), Ok(duration), "{text}");
        assert_eq!(by_jiff(&text), Ok(duration), "{text}");
    }
}

#[test]
fn instants_are_read_as_jiff_reads_them() {
    const SEPARATORS: [&str; 5] = ["T", "T", "t", " ", "-"];
    const OFFSETS: [&str; 12] = [
        "Z", "z", "+09:00", "-0330", "+05", "+25:59", "+26:00", "+09:60", "+9:00", "", "+", "Z+01",
    ];
    const FRACTIONS: [&str; 7] = ["", "", ".5", ",25", ".123456789", ".1234567891", "."];
    let mut random = Rng::with_seed(SEED);
    let mut read = 0;
    for _ in 0..TEXTS {
        let (year, month, day) = (random.u16(1_960..=9_999), random.u8(..14), random.u8(..33));
        let (hour, minute, second) = (random.u8(..25), random.u8(..61), random.u8(..62));
        let mut text = format!("{year:04}-{month:02}-{day:02}");
        text += SEPARATORS[random.usize(..SEPARATORS.len())];
        text += &match random.u8(..8) {
            0 => format!("{hour:02}:{minute:02}"),
            1 => format!("{hour}:{minute:02}:{second:02}"),
            _ => format!("{hour:02}:{minute:02}:{second:02}"),
        };
        text += FRACTIONS[random.usize(..FRACTIONS.len())];
        text += OFFSETS[random.usize(..OFFSETS.len())];
        let theirs = text.parse::<Timestamp>().ok();
        let theirs = theirs.and_then(|at| Duration::try_from(at.as_duration()).ok());
        assert_eq!(instant::parse(&text).ok(), theirs, "{text:?}");
        read += u32::from(theirs.is_some());
    }
    assert!(read > 10_000, "{read}");
}

#[test]
fn the_forms_of_instants_that_only_jiff_reads_are_refused() {
    for text in [
        "20270116T090000Z",
        "+002027-01-16T09:00:00Z",
        "2027-01-16T09Z",
        "2027-01-16T09:00:00Z[UTC]",
        "2027-01-16T09:00:00+09:00:00",
    ] {
        assert!(text.parse::<Timestamp>().is_ok(), "{text}");
        assert!(instant::parse(text).is_err(), "{text}");
    }
}

#[test]
fn days_are_those_of_jiff() {
    for (year, month) in (1..=4_000).flat_map(|year| (1..=12).map(move |month| (year, month))) {
        let date = jiff::civil::date(year, month as i8, 1);
        let days: Vec<_> = civil::Day::of_month(i64::from(year), month).collect();
        let last = days[days.len() - 1];
        assert_eq!(days[0].of, date.days_in_month() as u8);
        assert_eq!(days.len(), usize::from(days[0].of));
        assert_eq!(
            days[0].weekday,
            date.weekday().to_sunday_zero_offset() as u8
        );
        let end = date.last_of_month();
        assert_eq!(last.weekday, end.weekday().to_sunday_zero_offset() as u8);
        let since = jiff::civil::date(1970, 1, 1)
            .until(date)
            .unwrap()
            .get_days();
        assert_eq!(
            civil::days_since_1970(i64::from(year), month, 1),
            i64::from(since)
        );
    }
}

#[test]
fn the_names_of_zones_are_those_of_the_database() {
    let database = TimeZoneDatabase::bundled();
    let mut theirs: Vec<String> = database.available().map(|name| name.to_string()).collect();
    theirs.sort();
    let mut ours: Vec<&str> = include_str!("../src/zones.txt").lines().collect();
    ours.sort_unstable();
    assert_eq!(ours, theirs, "write the new list into src/zones.txt");
    for name in ["UTC", "europe/berlin", "Mars/Olympus", "", "+09:00", "UTC "] {
        assert_eq!(zone::is_known(name), database.get(name).is_ok(), "{name:?}");
    }
    // A placeholder of jiff, which no schedule can mean.
    assert!(database.get("Etc/Unknown").is_ok() && !zone::is_known("Etc/Unknown"));
}

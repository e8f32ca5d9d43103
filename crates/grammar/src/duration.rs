//! Durations as users write them: `10m`, `1h 30m`, `500ms`, and `PT10M` of ISO 8601.

use std::time::Duration;

/// The longest duration that is read. A longer one could be written in other units, but the text that [`written`]
/// returns for it could not be read again.
pub const LONGEST: Duration = Duration::from_secs(7_304_484 * 86_400);

/// Why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has years, months or weeks, whose length depends on the calendar, or which are rarely meant.
    Calendar,
    /// It is below zero.
    Negative,
    /// It is longer than [`LONGEST`].
    TooLong,
    /// Each number has its unit, but a unit is repeated, or is after a smaller one.
    Order,
    /// It is no duration, such as the number `10`.
    Unreadable,
}

impl Refusal {
    /// What is wrong with this text.
    pub fn what(self, text: &str) -> String {
        let why = match self {
            Self::Calendar => ": years, months and weeks are not accepted",
            Self::Negative => ": it is negative",
            Self::TooLong => ": it is longer than 19,998 years",
            Self::Order | Self::Unreadable => "",
        };
        format!("cannot read {text:?} as a duration{why}")
    }

    /// What to do.
    pub fn remedy(self) -> String {
        let how = match self {
            Self::Order => "write each unit once, the largest first,",
            Self::Unreadable => "write it with its unit,",
            Self::Calendar | Self::Negative | Self::TooLong => "write it",
        };
        format!("{how} like \"10m\", \"1h 30m\", \"500ms\" or \"PT10M\"")
    }

    /// Both.
    pub fn in_words(self, text: &str) -> String {
        format!("{}; {}", self.what(text), self.remedy())
    }
}

/// Parses a duration. A day is 24 hours.
///
/// # Errors
/// Why it is refused.
pub fn parse(text: &str) -> Result<Duration, Refusal> {
    let text = text.trim();
    let sum = read(text).ok_or_else(|| refusal(text))?;
    if sum.has_calendar_units {
        return Err(Refusal::Calendar);
    }
    if sum.is_negative && sum.nanos > 0 {
        return Err(Refusal::Negative);
    }
    let seconds = u64::try_from(sum.nanos / SECOND).unwrap_or(u64::MAX);
    let duration = Duration::new(seconds, (sum.nanos % SECOND) as u32);
    match duration > LONGEST {
        true => Err(Refusal::TooLong),
        false => Ok(duration),
    }
}

/// Formats a duration as `1h 30m` or `500ms`, the form that every setting reads.
pub fn written(duration: Duration) -> String {
    const SHOWN: [(&str, u128); 7] = [
        ("d", DAY),
        ("h", HOUR),
        ("m", MINUTE),
        ("s", SECOND),
        ("ms", MILLI),
        ("us", MICRO),
        ("ns", NANO),
    ];
    let mut rest = duration.as_nanos();
    let mut parts = Vec::new();
    for (label, unit) in SHOWN {
        if rest >= unit {
            parts.push(format!("{}{label}", rest / unit));
            rest %= unit;
        }
    }
    match parts.is_empty() {
        true => "0s".to_owned(),
        false => parts.join(" "),
    }
}

// Units are their nanoseconds. Those longer than a day are only compared.
const NANO: u128 = 1;
const MICRO: u128 = 1_000;
const MILLI: u128 = 1_000 * MICRO;
const SECOND: u128 = 1_000 * MILLI;
const MINUTE: u128 = 60 * SECOND;
const HOUR: u128 = 60 * MINUTE;
const DAY: u128 = 24 * HOUR;
const WEEK: u128 = 7 * DAY;
const MONTH: u128 = 30 * DAY;
const YEAR: u128 = 365 * DAY;

const LABELS: [(&[&str], u128); 10] = [
    (&["y", "yr", "yrs", "year", "years"], YEAR),
    (&["mo", "mos", "month", "months"], MONTH),
    (&["w", "wk", "wks", "week", "weeks"], WEEK),
    (&["d", "day", "days"], DAY),
    (&["h", "hr", "hrs", "hour", "hours"], HOUR),
    (&["m", "min", "mins", "minute", "minutes"], MINUTE),
    (&["s", "sec", "secs", "second", "seconds"], SECOND),
    (
        &[
            "ms",
            "msec",
            "msecs",
            "milli",
            "millis",
            "millisecond",
            "milliseconds",
        ],
        MILLI,
    ),
    (
        &[
            "us",
            "usec",
            "usecs",
            "µs",
            "µsec",
            "µsecs",
            "micro",
            "micros",
            "microsecond",
            "microseconds",
        ],
        MICRO,
    ),
    (
        &[
            "ns",
            "nsec",
            "nsecs",
            "nano",
            "nanos",
            "nanosecond",
            "nanoseconds",
        ],
        NANO,
    ),
];

/// Those of ISO 8601 before and after its `T`.
const DATE_LETTERS: [(char, u128); 4] = [('Y', YEAR), ('M', MONTH), ('W', WEEK), ('D', DAY)];
const TIME_LETTERS: [(char, u128); 3] = [('H', HOUR), ('M', MINUTE), ('S', SECOND)];

fn refusal(text: &str) -> Refusal {
    match has_units(text) {
        true => Refusal::Order,
        false => Refusal::Unreadable,
    }
}

/// Whether each number has its unit. So only their order is wrong, or a unit is repeated.
fn has_units(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let after_number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let after_unit = after_number.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let part = &rest[..rest.len() - after_unit.len()];
        if read(part).is_none() {
            return false;
        }
        rest = after_unit.trim_start();
    }
    !text.is_empty()
}

/// What a text adds up to.
struct Sum {
    nanos: u128,
    has_calendar_units: bool,
    is_negative: bool,
    /// The last unit, which is the smallest.
    unit: u128,
}

impl Sum {
    fn add(&mut self, number: u128, unit: u128) -> Option<()> {
        if unit >= self.unit {
            return None;
        }
        self.unit = unit;
        if unit > DAY {
            self.has_calendar_units |= number > 0;
        } else {
            self.nanos = self.nanos.saturating_add(number.saturating_mul(unit));
        }
        Some(())
    }

    /// Adds billionths of the last unit.
    fn add_fraction(&mut self, billionths: u128) -> Option<()> {
        if self.unit > HOUR || self.unit == NANO {
            return None;
        }
        let nanos = billionths * self.unit / SECOND;
        self.nanos = self.nanos.saturating_add(nanos);
        Some(())
    }
}

fn read(text: &str) -> Option<Sum> {
    let mut rest = Rest(text);
    let is_below = rest.eat("-");
    let has_sign = is_below || rest.eat("+");
    let mut sum = Sum {
        nanos: 0,
        has_calendar_units: false,
        is_negative: is_below,
        unit: u128::MAX,
    };
    if rest.0.starts_with(['P', 'p']) {
        rest.iso(&mut sum)?;
    } else {
        rest.friendly(&mut sum)?;
        if rest.skip_spaces() && rest.eat("ago") {
            sum.is_negative = true;
            if has_sign {
                return None;
            }
        }
    }
    rest.0.is_empty().then_some(sum)
}

/// What of a text has not been read yet.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    /// `1h 30m`, `1 hour, 30 minutes`, `1.5h`, `1d 00:00:30`.
    fn friendly(&mut self, sum: &mut Sum) -> Option<()> {
        let mut number = self.number()?;
        loop {
            if self.eat(":") {
                return self.clock(number, sum);
            }
            let fraction = self.fraction()?;
            self.skip_spaces();
            sum.add(number, self.label()?)?;
            let has_comma = self.eat(",");
            if let Some(billionths) = fraction {
                sum.add_fraction(billionths)?;
                return (!has_comma).then_some(());
            }
            let before = self.0;
            let has_space = self.skip_spaces();
            number = match self.number() {
                Some(next) if has_space || !has_comma => next,
                None if !has_comma => {
                    self.0 = before;
                    return Some(());
                }
                _ => return None,
            };
        }
    }

    /// Minutes and seconds after these hours: `00:30.5`.
    fn clock(&mut self, hours: u128, sum: &mut Sum) -> Option<()> {
        sum.add(hours, HOUR)?;
        sum.add(self.number()?, MINUTE)?;
        self.eat(":").then_some(())?;
        sum.add(self.number()?, SECOND)?;
        match self.fraction()? {
            Some(billionths) => sum.add_fraction(billionths),
            None => Some(()),
        }
    }

    /// `PT10M`, `P1DT12H`.
    fn iso(&mut self, sum: &mut Sum) -> Option<()> {
        self.0 = &self.0[1..];
        while let Some(number) = self.number() {
            sum.add(number, self.letter(&DATE_LETTERS)?)?;
        }
        if self.eat("T") || self.eat("t") {
            while let Some(number) = self.number() {
                let fraction = self.fraction()?;
                sum.add(number, self.letter(&TIME_LETTERS)?)?;
                if let Some(billionths) = fraction {
                    sum.add_fraction(billionths)?;
                    break;
                }
            }
            return (sum.unit <= HOUR).then_some(());
        }
        (sum.unit <= YEAR).then_some(())
    }

    fn eat(&mut self, text: &str) -> bool {
        let after = self.0.strip_prefix(text);
        self.0 = after.unwrap_or(self.0);
        after.is_some()
    }

    /// Whether there were any.
    fn skip_spaces(&mut self) -> bool {
        let before = self.0.len();
        self.0 = self.0.trim_ascii_start();
        self.0.len() < before
    }

    /// A whole number. What is too long for one is too long for a duration.
    fn number(&mut self) -> Option<u128> {
        let after = self.0.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &self.0[..self.0.len() - after.len()];
        self.0 = after;
        (!digits.is_empty()).then(|| digits.parse().unwrap_or(u128::MAX))
    }

    /// Billionths after a point, if there is one: up to nine digits.
    fn fraction(&mut self) -> Option<Option<u128>> {
        if !(self.eat(".") || self.eat(",")) {
            return Some(None);
        }
        let before = self.0;
        let number = self.number()?;
        let missing = 9_usize.checked_sub(before.len() - self.0.len())?;
        Some(Some((0..missing).fold(number, |number, _| 10 * number)))
    }

    fn label(&mut self) -> Option<u128> {
        let labels = LABELS
            .iter()
            .flat_map(|(labels, unit)| labels.iter().map(move |label| (label, unit)));
        let (label, unit) = labels
            .filter(|(label, _)| self.0.starts_with(**label))
            .max_by_key(|(label, _)| label.len())?;
        self.0 = &self.0[label.len()..];
        Some(*unit)
    }

    fn letter(&mut self, letters: &[(char, u128)]) -> Option<u128> {
        let next = self.0.chars().next()?.to_ascii_uppercase();
        let (letter, unit) = letters.iter().find(|(letter, _)| *letter == next)?;
        self.0 = &self.0[letter.len_utf8()..];
        Some(*unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        for (text, millis) in [
            ("10m", 600_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("1 hour, 30 minutes", 5_400_000),
            ("1d 01:00:00.5", 90_000_500),
            ("500ms", 500),
            ("1d", 86_400_000),
            ("1.5s", 1_500),
            ("0.5h", 1_800_000),
            ("PT10M", 600_000),
            ("pt5s", 5_000),
            ("+P1DT1H", 90_000_000),
            ("PT0.25S", 250),
            ("P0Y1D", 86_400_000),
            ("0s", 0),
            ("-0s", 0),
            (" 5s ", 5_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("7304484d"), Ok(LONGEST));
        assert_eq!(parse("1us 1ns"), Ok(Duration::from_nanos(1_001)));
    }

    #[test]
    fn everything_else_is_refused() {
        for (refusal, texts) in [
            (Refusal::Calendar, vec!["1w", "P1M", "1y", "1mo", "-P1W"]),
            (Refusal::Negative, vec!["-10s", "-PT5S", "1h ago", "-1.5s"]),
            (
                Refusal::TooLong,
                vec![
                    "7304484d 1s",
                    "9223372036854775808s",
                    "PT99999999999999999999999H",
                ],
            ),
            (Refusal::Order, vec!["30m1h", "1h1h", "1s 2d", "1h 1h"]),
            (
                Refusal::Unreadable,
                vec![
                    "",
                    " ",
                    "10",
                    "0",
                    "-10",
                    "PT-5S",
                    "10 foo",
                    "P",
                    "PT",
                    "P1DT",
                    "PT1H30",
                    "30m1",
                    "m",
                    "1h soon",
                    "10m,",
                    "1h,30m",
                    "m10",
                    "-1h ago",
                    "1.5d",
                    "1.5ns",
                    "1.s",
                    "1.1234567890s",
                    "1.5m 30s",
                    "1h 00:00:01",
                    "00:01",
                    "١٠m",
                    "10M",
                ],
            ),
        ] {
            for text in texts {
                assert_eq!(parse(text), Err(refusal), "{text:?}");
            }
        }
    }

    #[test]
    fn a_refusal_says_what_to_write() {
        for (text, says) in [
            (
                "10",
                "cannot read \"10\" as a duration; write it with its unit, like",
            ),
            (
                "1y",
                "as a duration: years, months and weeks are not accepted; write it like",
            ),
            ("-1s", "as a duration: it is negative; write it like"),
            (
                "7304485d",
                "as a duration: it is longer than 19,998 years; write it like",
            ),
            (
                "1h1h",
                "as a duration; write each unit once, the largest first, like",
            ),
        ] {
            let said = parse(text).unwrap_err().in_words(text);
            assert!(said.contains(says), "{said}");
            assert!(said.ends_with("like \"10m\", \"1h 30m\", \"500ms\" or \"PT10M\""));
        }
    }

    #[test]
    fn a_duration_is_written_in_its_units() {
        assert_eq!(written(Duration::ZERO), "0s");
        assert_eq!(
            written(Duration::new(90_061, 1_002_003)),
            "1d 1h 1m 1s 1ms 2us 3ns"
        );
    }
}

//! The fields of a cron expression.

/// What may be written in a field.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) first: u8,
    pub(super) last: u8,
    /// Names of its values.
    names: &'static [&'static str],
}

pub(super) const KINDS: [Kind; 6] = [
    Kind::new("second", 0, 59, &[]),
    Kind::new("minute", 0, 59, &[]),
    Kind::new("hour", 0, 23, &[]),
    Kind::new("day of month", 1, 31, &[]),
    Kind::new("month", 1, 12, &MONTHS),
    // Sunday is 0, and 7 at the end of a range.
    Kind::new("day of week", 0, 7, &WEEKDAYS),
];

pub(super) const DAY: usize = 3;
pub(super) const MONTH: usize = 4;
pub(super) const WEEKDAY: usize = 5;

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
pub(super) const WEEKDAYS: [&str; 8] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];

impl Kind {
    const fn new(name: &'static str, first: u8, last: u8, names: &'static [&'static str]) -> Self {
        Self {
            name,
            first,
            last,
            names,
        }
    }

    /// Its numbers, such as `0-59`.
    pub(super) fn numbers(&self) -> String {
        format!("{}-{}", self.first, self.last)
    }

    fn number(&self, text: &str) -> Option<u8> {
        let number = is_number(text).then(|| text.parse().ok())?;
        number.filter(|number| (self.first..=self.last).contains(number))
    }

    fn value(&self, text: &str) -> Option<u8> {
        let named = self.names.iter().zip(self.first..);
        let named = named.filter(|(name, _)| **name == text);
        self.number(text)
            .or_else(|| named.map(|(_, value)| value).next())
    }

    /// The end of a range, where Sunday is the last day of the week.
    fn end(&self, text: &str) -> Option<u8> {
        match text {
            "SUN" if !self.names.is_empty() && self.last == 7 => Some(7),
            _ => self.value(text),
        }
    }

    /// The values of `*`, `5`, `1-5`, `*/15`, `1-31/2` and `5/15`, as bits.
    fn values(&self, text: &str) -> Option<u64> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (self.value(first)?, self.end(last)?),
            None if range == "*" && step.is_some() => (self.first, self.last),
            None => {
                let value = self.value(range)?;
                (value, if step.is_some() { self.last } else { value })
            }
        };
        let step = match step {
            Some(step) => is_number(step).then(|| step.parse().ok())??,
            None => 1_usize,
        };
        if first > last || step == 0 {
            return None;
        }
        let values = (first..=last).step_by(step);
        Some(values.fold(0, |bits, value| bits | 1 << value))
    }
}

/// A part of the list in a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// These values, as bits.
    Values(u64),
    /// These days of the week, as bits.
    Weekdays(u64, Which),
    /// The working day nearest to this day of the month: `15W`.
    NearDay(u8),
    /// `L`.
    LastDay,
    /// `LW`.
    LastWorkingDay,
}

/// Which of the days of the month that have a weekday.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    Every,
    /// `MON#2`.
    Nth(u8),
    /// `5L`.
    Last,
}

/// Reads a field.
pub(super) fn parts(nth: usize, field: &str) -> Option<Vec<Part>> {
    let field = field.to_ascii_uppercase();
    let field = match nth {
        DAY => field.replace('?', "*"),
        WEEKDAY => field.strip_prefix('+').unwrap_or(&field).replace('?', "*"),
        _ => field,
    };
    // Only alone, or with a step, is it a part.
    let field = if field == "*" { "*/1" } else { &field };
    let parts = field.split(',').filter(|part| !part.is_empty());
    let parts: Vec<Part> = parts.map(|text| part(nth, text)).collect::<Option<_>>()?;
    (!parts.is_empty()).then_some(parts)
}

/// Reads a field that has only values, as bits.
pub(super) fn bits(nth: usize, field: &str) -> Option<u64> {
    let parts = parts(nth, field)?;
    Some(parts.iter().fold(0, |bits, part| match part {
        Part::Values(values) => bits | values,
        _ => bits,
    }))
}

fn part(nth: usize, text: &str) -> Option<Part> {
    let kind = &KINDS[nth];
    if nth == DAY {
        match text {
            "L" => return Some(Part::LastDay),
            "LW" => return Some(Part::LastWorkingDay),
            _ => {}
        }
        if let Some(day) = text.strip_suffix('W') {
            return kind.number(day).map(Part::NearDay);
        }
    }
    if nth == WEEKDAY {
        if let Some((range, week)) = text.split_once('#') {
            let which = match week {
                "L" => Which::Last,
                week => Which::Nth(week_of_month(week)?),
            };
            return kind.values(range).map(|bits| Part::Weekdays(bits, which));
        }
        if let Some(day) = text.strip_suffix('L') {
            let day = kind.value(day)?;
            return Some(Part::Weekdays(1 << day, Which::Last));
        }
        let bits = kind.values(text)?;
        return Some(Part::Weekdays(bits, Which::Every));
    }
    kind.values(text).map(Part::Values)
}

fn week_of_month(text: &str) -> Option<u8> {
    let week = is_number(text).then(|| text.parse().ok())?;
    week.filter(|week| (1..=5).contains(week))
}

pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

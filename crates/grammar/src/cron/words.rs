//! Cron expressions in words, like `at 02:30, on Monday to Friday`.

use super::{Pattern, Weekday, fields};

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// More times of day are written as hours and minutes.
const MOST_TIMES: usize = 4;

/// The values of a field, as they are written.
enum Values {
    /// All.
    All,
    /// Every so many, from the first: `*/15`. A unit of time has only steps that are even across its end.
    Step(String),
    /// These.
    These(Vec<u8>),
}

impl Values {
    fn of(field: &str, bits: u64) -> Self {
        let step = field.strip_prefix("*/").filter(|it| !it.contains(','));
        match step.map(|step| step.trim_start_matches('0')) {
            Some("1") => Self::All,
            Some(step) => Self::Step(step.to_owned()),
            None if field == "*" => Self::All,
            None => Self::these(bits),
        }
    }

    /// Those of a unit of time, of which the next larger one has this many.
    fn of_unit(field: &str, bits: u64, count: u8) -> Self {
        let values = Self::of(field, bits);
        let is_even = |step: &String| step.parse().is_ok_and(|step: u8| count % step == 0);
        match values {
            Self::Step(step) if !is_even(&step) => Self::these(bits),
            values => values,
        }
    }

    fn these(bits: u64) -> Self {
        Self::These((0..64).filter(|bit| bits & (1 << bit) != 0).collect())
    }

    fn only(&self) -> Option<u8> {
        match self {
            Self::These(values) if values.len() == 1 => Some(values[0]),
            _ => None,
        }
    }
}

/// Returns an expression in words. Returns `None` if it cannot be read.
pub fn in_words(expression: &str) -> Option<String> {
    let pattern = Pattern::parse(expression).ok()?;
    let fields = fields(expression);
    let &[.., minute, hour, day, _, _] = fields.as_slice() else {
        return None;
    };
    let second = if fields.len() == 6 { fields[0] } else { "0" };
    let time = time(
        &Values::of_unit(second, pattern.seconds, 60),
        &Values::of_unit(minute, pattern.minutes, 60),
        &Values::of_unit(hour, pattern.hours, 24),
    );
    let day_of_month = pattern.day_in_words(&Values::of(day, u64::from(pattern.days)));
    let weekdays = pattern.weekdays_in_words();
    let day = match (pattern.any_day, pattern.any_weekday) {
        (true, true) => String::new(),
        (true, false) => format!(", on {}", listed(&weekdays)),
        (false, true) => format!(", on {day_of_month}"),
        (false, false) if !pattern.both_days => {
            format!(", on {day_of_month} or {}", listed(&weekdays))
        }
        (false, false) => {
            let one = if weekdays.len() > 1 { "one of: " } else { "" };
            let weekdays = listed(&weekdays);
            format!(", on {day_of_month} (if it is also {one}{weekdays})")
        }
    };
    let months: Vec<u8> = (1..=12).filter(|month| pattern.has_month(*month)).collect();
    let month = match months.len() {
        12 => String::new(),
        _ => format!(
            ", in {}",
            listed(&named(&months, |month| MONTHS[month - 1]))
        ),
    };
    Some(time + &day + &month)
}

fn time(second: &Values, minute: &Values, hour: &Values) -> String {
    let is_on_the_minute = second.only() == Some(0);
    if let (Values::These(hours), Some(minute)) = (hour, minute.only()) {
        let times = hours.iter().map(|hour| format!("{hour:02}:{minute:02}"));
        let times: Vec<String> = times.collect();
        match second {
            _ if times.len() > MOST_TIMES => {}
            _ if is_on_the_minute => return format!("at {}", listed(&times)),
            Values::These(seconds) if times.len() == 1 && seconds.len() == 1 => {
                return format!("at {}:{:02}", times[0], seconds[0]);
            }
            Values::Step(step) => return format!("every {step} seconds at {}", listed(&times)),
            _ => {}
        }
    }
    let mut parts = Vec::new();
    match second {
        Values::All => parts.push("every second".to_owned()),
        Values::Step(step) => parts.push(format!("every {step} seconds")),
        Values::These(_) if is_on_the_minute => {}
        Values::These(seconds) => parts.push(format!("at second {}", numbers(seconds))),
    }
    match minute {
        Values::All if is_on_the_minute => parts.push("every minute".to_owned()),
        Values::All => {}
        Values::Step(step) => parts.push(format!("every {step} minutes")),
        Values::These(minutes) => parts.push(format!("at minute {}", numbers(minutes))),
    }
    let hours = match hour {
        Values::All if matches!(minute, Values::These(_)) => " past every hour".to_owned(),
        Values::All => String::new(),
        Values::Step(step) => format!(" past every {} hour", ordinal(step)),
        Values::These(hours) => format!(" past hour {}", numbers(hours)),
    };
    parts.join(", ") + &hours
}

impl Pattern {
    fn day_in_words(&self, days: &Values) -> String {
        let mut parts = Vec::new();
        match days {
            Values::All => parts.push("every day".to_owned()),
            Values::Step(step) => {
                parts.push(format!("every {} day of the month", ordinal(step)));
            }
            Values::These(days) if days.is_empty() => {}
            Values::These(days) => parts.push(format!("day {}", numbers(days))),
        }
        if self.last_day {
            parts.push("the last day of the month".to_owned());
        }
        if self.last_working_day {
            parts.push("the last working day of the month".to_owned());
        }
        let near: Vec<u8> = (1..=31)
            .filter(|day| self.near_days & (1 << day) != 0)
            .collect();
        if !near.is_empty() {
            parts.push(format!("the working day nearest day {}", numbers(&near)));
        }
        listed(&parts)
    }

    fn weekdays_in_words(&self) -> Vec<String> {
        let which = |has: &dyn Fn(&Weekday) -> bool| {
            let days = (0_u8..).zip(&self.weekdays).filter(|(_, day)| has(day));
            named(&days.map(|(day, _)| day).collect::<Vec<u8>>(), |day| {
                WEEKDAYS[day]
            })
        };
        let mut parts = Vec::new();
        let last = which(&|day| day.last);
        if !last.is_empty() {
            parts.push(format!("the last {} of the month", listed(&last)));
        }
        for nth in 1_u8..=5 {
            let days = which(&|day| day.nth & (1 << nth) != 0);
            if !days.is_empty() {
                let nth = ordinal(&nth.to_string());
                parts.push(format!("the {nth} {} of the month", listed(&days)));
            }
        }
        let every = which(&|day| day.every);
        if !every.is_empty() {
            parts.push(listed(&every));
        }
        parts
    }
}

/// The values, with three or more in a row as their first and last.
fn runs(values: &[u8]) -> Vec<(u8, u8)> {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *value => *last = *value,
            _ => runs.push((*value, *value)),
        }
    }
    let split = runs
        .into_iter()
        .flat_map(|(first, last)| match last - first {
            1 => vec![(first, first), (last, last)],
            _ => vec![(first, last)],
        });
    split.collect()
}

fn numbers(values: &[u8]) -> String {
    let shown = runs(values)
        .into_iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
    listed(&shown.collect::<Vec<String>>())
}

fn named(values: &[u8], name: impl Fn(usize) -> &'static str) -> Vec<String> {
    let name = |value: u8| name(usize::from(value));
    let shown = runs(values)
        .into_iter()
        .map(|(first, last)| match first == last {
            true => name(first).to_owned(),
            false => format!("{} to {}", name(first), name(last)),
        });
    shown.collect()
}

/// `a`, `a and b`, `a, b, and c`.
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        [before @ .., last] => format!("{}, and {last}", before.join(", ")),
    }
}

fn ordinal(number: &str) -> String {
    let ending = match number {
        "11" | "12" | "13" => "th",
        _ if number.ends_with('1') => "st",
        _ if number.ends_with('2') => "nd",
        _ if number.ends_with('3') => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

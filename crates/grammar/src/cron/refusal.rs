//! Why a cron expression is refused: the field, the value, and what the field allows.

use super::field::{DAY, KINDS, MONTH, WEEKDAY, WEEKDAYS, is_number, parts};

const FORM: &str = "write five fields (minute, hour, day of month, month, day of week), or six \
                    with seconds first";

/// How many values each field has, what they are, what they fill, and what to use for a longer step.
const STEPS: [(u64, &str, &str, Longer); 6] = [
    (60, "seconds", "a minute", Longer::Every("s")),
    (60, "minutes", "an hour", Longer::Every("m")),
    (24, "hours", "a day", Longer::Every("h")),
    (31, "days", "a month", Longer::Every("d")),
    (12, "months", "a year", Longer::List("months, like JAN,JUL")),
    (7, "days", "a week", Longer::List("days, like MON,THU")),
];

/// What to use for a step that does not fit into its field.
enum Longer {
    /// A period in this unit.
    Every(&'static str),
    /// A list of these.
    List(&'static str),
}

/// Returns why an expression is refused that could be read, but otherwise than its author or another reader
/// would.
pub(super) fn misread(fields: &[&str]) -> Option<String> {
    let ([_, _, _, _, weekday] | [_, _, _, _, _, weekday]) = fields else {
        return None;
    };
    let first = KINDS.len() - fields.len();
    let mut parts = (first..)
        .zip(fields)
        .flat_map(|(nth, field)| field.split(',').map(move |part| (nth, part)));
    let step = parts.find_map(|(nth, part)| wrong_step(part, nth));
    step.or_else(|| {
        weekday
            .trim_start_matches('+')
            .split(',')
            .find_map(wrong_weekday)
    })
}

fn wrong_weekday(part: &str) -> Option<String> {
    let range = part.split('/').next().unwrap_or_default();
    match range.to_ascii_uppercase().as_str() {
        "L" => Some(
            "`L` alone is not a day of the week; write `5L` for the last Friday of the month, or \
             `L` as the day of month for its last day"
                .to_owned(),
        ),
        "7-7" | "SUN-SUN" => Some(format!(
            "the day of week {part:?} is Sunday for some readers, and other days too for Spring; \
             list the days that you mean"
        )),
        _ => None,
    }
}

/// Returns why a step is refused that does not fit into its field, or that other readers count from
/// another day of the week.
fn wrong_step(part: &str, nth: usize) -> Option<String> {
    let (range, step) = part.split_once('/')?;
    let step = step.split('#').next().filter(|step| is_number(step))?;
    let name = KINDS[nth].name;
    let (size, unit, whole, longer) = &STEPS[nth];
    let step = step.trim_start_matches('0');
    let count: u64 = match step {
        "" => return None,
        // Whatever is too long for a number is too long for a field.
        step => step.parse().unwrap_or(u64::MAX),
    };
    if range.is_empty() {
        return Some(format!("the {name} {part:?} has no range; write */{step}"));
    }
    if count >= *size {
        let instead = match longer {
            _ if count == *size => format!("write one {name} to fire once {whole}"),
            Longer::Every(short) => format!("use `every` with {step}{short} instead of cron"),
            Longer::List(values) => format!("list the {values}"),
        };
        return Some(format!(
            "a step of {step} {unit} does not fit into {whole}; {instead}"
        ));
    }
    let range = range.trim_start_matches('+').to_ascii_uppercase();
    let (reader, spring_counts_from) = match range.as_str() {
        _ if nth != WEEKDAY => return None,
        "*" | "?" if count > 1 => ("crond", 1),
        "SUN" => ("Kubernetes", 7),
        _ => return None,
    };
    let step = usize::try_from(count).ok()?;
    let days = |days: &[&'static str]| -> String {
        let days: Vec<&str> = days.iter().copied().step_by(step).collect();
        days.join(",")
    };
    Some(format!(
        "{reader} reads the day of week {part:?} as {}, and Spring as {}; list the days that you mean",
        days(&WEEKDAYS[..7]),
        days(&WEEKDAYS[spring_counts_from..])
    ))
}

/// Returns why these fields cannot be read.
pub(super) fn reason(fields: &[&str]) -> String {
    match fields {
        [] => format!("it is empty; {FORM}"),
        ["-"] => "`-` disables a task in Spring; here, leave the job out, or pause it".to_owned(),
        [only] if only.starts_with('@') => {
            "its name is unknown; use @yearly, @annually, @monthly, \
                                            @weekly, @daily, @midnight or @hourly"
                .to_owned()
        }
        [_] => format!("it has 1 field; {FORM}"),
        [_, _, _, _, _] | [_, _, _, _, _, _] => {
            wrong_field(fields).unwrap_or_else(|| FORM.to_owned())
        }
        _ => format!("it has {} fields; {FORM}", fields.len()),
    }
}

fn wrong_field(fields: &[&str]) -> Option<String> {
    let first = KINDS.len() - fields.len();
    for (nth, field) in (first..).zip(fields.iter().copied()) {
        if is_read(field, nth) {
            continue;
        }
        let mut parts = field.split(',');
        let wrong = parts.find(|part| !is_read(part, nth));
        return Some(wrong_part(wrong.unwrap_or(field), nth));
    }
    None
}

/// Returns whether this text can be read in this field. An empty part of a list is passed over.
fn is_read(text: &str, nth: usize) -> bool {
    text.is_empty() || parts(nth, text).is_some()
}

/// What may be written in this field.
fn allowed(nth: usize) -> String {
    let numbers = KINDS[nth].numbers();
    match nth {
        DAY => numbers + ", L, LW, or W after a day, like 15W",
        WEEKDAY => numbers + ", SUN-SAT, or one of these with L or #, like 5L or MON#2",
        MONTH => numbers + " or JAN-DEC",
        _ => numbers,
    }
}

fn wrong_part(part: &str, nth: usize) -> String {
    let name = KINDS[nth].name;
    let article = if name == "hour" { "an" } else { "a" };
    let not_one = |text: &str| format!("{text:?} is not {article} {name}; use {}", allowed(nth));
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    if step.is_some_and(|step| !is_number(step) || step.bytes().all(|digit| digit == b'0')) {
        return format!("the step in the {name} {part:?} must be a whole number of 1 or more");
    }
    let ends: Vec<&str> = range.split('-').collect();
    if ends.contains(&"") && !range.is_empty() {
        return not_one(part);
    }
    let is_plain = |end: &&str| {
        is_number(end) || end.len() == 3 && end.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    for end in &ends {
        if is_read(end, nth) {
            continue;
        }
        if is_number(end) {
            return match ends.iter().all(is_plain) {
                true => format!("{name} {end} is not in {}", KINDS[nth].numbers()),
                false => not_one(part),
            };
        }
        let is_wrong_week = |(day, week): &(&str, &str)| {
            is_number(week) && is_read(day, nth) && is_read(&format!("{day}#2"), nth)
        };
        if let Some((day, _)) = end.split_once('#').filter(is_wrong_week) {
            return format!("in {end:?}, the number after # must be 1-5, like {day}#2");
        }
        return not_one(end);
    }
    match ends.as_slice() {
        [_, _] if ends.iter().all(is_plain) => {
            format!("the {name} range {range} ends before it starts")
        }
        _ => not_one(part),
    }
}

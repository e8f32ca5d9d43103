//! Why a cron expression is refused: the field, the value, and what the field allows.
//!
//! The scheduler refuses an expression in the same words: crates/scheduler has a copy of this file.

use croner::parser::CronParser;

const FORM: &str = "write five fields (minute, hour, day of month, month, day of week), or six \
                    with seconds first";

/// The name of each field, its numbers, and all that may be written in it.
const FIELDS: [(&str, &str, &str); 6] = [
    ("second", "0-59", "0-59"),
    ("minute", "0-59", "0-59"),
    ("hour", "0-23", "0-23"),
    (
        "day of month",
        "1-31",
        "1-31, L, LW, or W after a day, like 15W",
    ),
    ("month", "1-12", "1-12 or JAN-DEC"),
    (
        "day of week",
        "0-7",
        "0-7, SUN-SAT, or one of these with L or #, like 5L or MON#2",
    ),
];

/// Returns the message for an expression that this parser refuses.
pub(super) fn refusal(expression: &str, parser: &CronParser) -> String {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let why = match fields.as_slice() {
        [] => format!("it is empty; {FORM}"),
        [only] if only.starts_with('@') => {
            "its name is unknown; use @yearly, @annually, @monthly, @weekly, @daily or @hourly"
                .to_owned()
        }
        [_] => format!("it has 1 field; {FORM}"),
        [_, _, _, _, _] | [_, _, _, _, _, _] => {
            wrong_field(&fields, parser).unwrap_or_else(|| FORM.to_owned())
        }
        _ => format!("it has {} fields; {FORM}", fields.len()),
    };
    format!("cannot read {expression:?} as a cron expression: {why}")
}

fn wrong_field(fields: &[&str], parser: &CronParser) -> Option<String> {
    let first = FIELDS.len() - fields.len();
    for (nth, field) in (first..).zip(fields.iter().copied()) {
        if is_read(field, nth, parser) {
            continue;
        }
        let mut parts = field.split(',');
        let wrong = parts.find(|part| !is_read(part, nth, parser));
        return Some(wrong_part(wrong.unwrap_or(field), nth, parser));
    }
    None
}

/// Returns whether the parser accepts this text in this field, with `*` in all others.
fn is_read(text: &str, nth: usize, parser: &CronParser) -> bool {
    let mut alone = ["*"; FIELDS.len()];
    alone[nth] = text;
    parser.parse(&alone.join(" ")).is_ok()
}

fn wrong_part(part: &str, nth: usize, parser: &CronParser) -> String {
    let (name, numbers, allowed) = FIELDS[nth];
    let article = if name == "hour" { "an" } else { "a" };
    let not_one = |text: &str| format!("{text:?} is not {article} {name}; use {allowed}");
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
        if is_read(end, nth, parser) {
            continue;
        }
        if is_number(end) {
            return match ends.iter().all(is_plain) {
                true => format!("{name} {end} is not in {numbers}"),
                false => not_one(part),
            };
        }
        let is_wrong_week = |(day, week): &(&str, &str)| {
            is_number(week)
                && is_read(day, nth, parser)
                && is_read(&format!("{day}#2"), nth, parser)
        };
        if let Some((day, _)) = end.split_once('#').filter(is_wrong_week) {
            return format!("in {end:?}, the number after # must be 1-5, like {day}#2");
        }
        return not_one(end);
    }
    match (ends.as_slice(), step) {
        ([_, _], _) if ends.iter().all(is_plain) => {
            format!("the {name} range {range} ends before it starts")
        }
        ([""], Some(step)) => format!("the {name} {part:?} has no range; write */{step}"),
        ([start], Some(step)) if is_number(start) => format!(
            "the {name} {part:?} has no range; write a range before the step, like {numbers}/{step}"
        ),
        _ => not_one(part),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

//! Values of options, and what is wrong with them. The parser of the command line adds the option and
//! the value to the message.

use std::net::SocketAddr;
use std::time::Duration;

#[cfg(feature = "ui")]
use axum::http::HeaderName;
use shedlock::{Owner, PruneRequest};
use shedlock_grammar::duration::{self, Refusal};

/// A duration, which may be zero.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|refusal| {
        if text.trim().is_empty() {
            return "it is empty: set a duration, like 10m, or unset it".to_owned();
        }
        if is_negative(text) {
            return "it must not be negative".to_owned();
        }
        let message = match (refusal, unknown_unit(text)) {
            (Refusal::TooLong, _) => "it is too long, at most 7304484d is possible",
            (Refusal::Order, _) => {
                "write each unit once, the largest first (d, h, m, s or ms), like 10m, 1h30m, \
                 500ms or PT10M"
            }
            (_, Some(unit)) => {
                return format!(
                    "its unit {unit:?} is unknown: write d, h, m (minutes), s or ms, like 10m or 1h30m"
                );
            }
            _ => "write it with its unit (d, h, m, s or ms), like 10m, 1h30m, 500ms or PT10M",
        };
        message.to_owned()
    })
}

/// A prefix for owners.
pub(super) fn owner_prefix(text: &str) -> Result<String, String> {
    match Owner::generate_with_prefix(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("write 1 to 64 visible ASCII characters without \"/\"".to_owned()),
    }
}

/// A user of a database, which can be quoted without escaping.
pub(super) fn role(text: &str) -> Result<String, String> {
    let is_unfit = |c: char| c.is_control() || matches!(c, '"' | '\'' | '`' | '\\');
    match text.is_empty() || text.contains(is_unfit) {
        true => Err("write a name without quotes and backslashes".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A duration that is not zero.
pub(super) fn duration_above_zero(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() {
        return Err("it must be longer than zero".to_owned());
    }
    Ok(duration)
}

/// How long a lock must have been idle before its record is removed.
pub(super) fn idle_time(text: &str) -> Result<Duration, String> {
    let idle = duration(text)?;
    if idle < PruneRequest::SHORTEST {
        return Err(
            "it must be at least 1d: without its record, a slot that has been run can run again, and \
             within a day a late host may still ask for it"
                .to_owned(),
        );
    }
    Ok(idle)
}

fn is_negative(text: &str) -> bool {
    let positive = text.trim_start().strip_prefix('-').unwrap_or_default();
    positive.starts_with(|char: char| char.is_ascii_digit() || char == 'P')
}

/// The unit of a number that is no duration with it.
fn unknown_unit(text: &str) -> Option<&str> {
    let unit = text
        .trim()
        .trim_start_matches(|char: char| char.is_ascii_digit());
    let has_number = unit.len() < text.trim().len();
    let is_word = !unit.is_empty() && unit.chars().all(char::is_alphabetic);
    (has_number && is_word).then_some(unit)
}

/// A number of attempts.
pub(super) fn attempts(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("write a number from 1 to {}", u32::MAX)),
    }
}

/// How many runs are shown.
pub(super) fn runs(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(number @ 1..=10_000) => Ok(number),
        _ => Err("write a number from 1 to 10000".to_owned()),
    }
}

/// The name of a time zone.
pub(super) fn zone(text: &str) -> Result<String, String> {
    match shedlock_support::zone::get(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(
            "there is no such time zone: use a name from the IANA database, like Europe/Berlin or UTC"
                .to_owned(),
        ),
    }
}

/// An exit code.
pub(super) fn exit_code(text: &str) -> Result<u8, String> {
    text.parse::<u8>()
        .map_err(|_| "write a number from 0 to 255".to_owned())
}

/// A pattern of names.
pub(crate) fn pattern(text: &str) -> Result<glob::Pattern, String> {
    glob::Pattern::new(text).map_err(|_| {
        "write * for any text, ? for one character and [ab] for one of these, like expire-*"
            .to_owned()
    })
}

/// Where to listen.
pub(super) fn socket(text: &str) -> Result<SocketAddr, String> {
    let wrong = || "write an IP address and a port from 0 to 65535, like 127.0.0.1:9464".to_owned();
    text.parse().map_err(|_| wrong())
}

/// The width of a table. Each fits into the smallest.
pub(super) fn width(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(columns) if columns >= 40 => Ok(columns),
        _ => Err("write a number of 40 or more".to_owned()),
    }
}

/// The latest instant, to the second.
const LATEST: &str = "9999-12-30T22:00:00Z";

/// Whether only its year keeps this text from being an instant.
fn is_too_late(text: &str) -> bool {
    let (year, rest) = text.split_once('-').unwrap_or_default();
    let is_late = year.len() >= 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    // Of those with four digits, all are known but the last days of 9999.
    is_late && format!("2024-{rest}").parse::<jiff::Timestamp>().is_ok()
}

/// An instant.
pub(super) fn time(text: &str) -> Result<jiff::Timestamp, String> {
    text.parse::<jiff::Timestamp>().map_err(|_| {
        if is_too_late(text) {
            return format!("it is too late: the latest time is {LATEST}");
        }
        "write a date and a time with its zone, like 2026-11-21T03:00:00Z or \
         2026-11-21T12:00:00+09:00"
            .to_owned()
    })
}

/// A path below which something is served.
#[cfg(feature = "ui")]
pub(super) fn path_prefix(text: &str) -> Result<String, String> {
    let path = text.trim_end_matches('/');
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.~/".contains(char);
    let is_path = path.starts_with('/') && path.chars().all(is_plain) && !path.contains("//");
    match is_path {
        true => Ok(path.to_owned()),
        false => Err(
            "a prefix starts with a slash and has letters, digits and -_.~ like /shedlock"
                .to_owned(),
        ),
    }
}

/// The name of a header of HTTP.
#[cfg(feature = "ui")]
pub(super) fn header_name(text: &str) -> Result<HeaderName, String> {
    let name = text.parse::<HeaderName>();
    name.map_err(|_| {
        "a header's name has letters, digits and dashes like X-Forwarded-User".to_owned()
    })
}

/// A value with a name.
#[cfg(feature = "ui")]
pub(super) fn named(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !(name.is_empty() || value.is_empty()) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => {
            Err("write a name, an equals sign and the value, like reports=postgres://…".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_value_gets_the_advice_that_fits() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for text in ["10", "abc", "99999999"] {
            let said = duration(text).unwrap_err();
            assert!(said.starts_with("write it with its unit"), "{text}: {said}");
        }
        for text in ["1M", "10weeks", "3H"] {
            let said = duration(text).unwrap_err();
            let unit = text.trim_start_matches(|char: char| char.is_ascii_digit());
            let start = format!("its unit {unit:?} is unknown: write d, h, m (minutes), s or ms");
            assert!(said.starts_with(&start), "{text}: {said}");
        }
        for text in ["100000000d", "1d 99999999999999999999h", "7304484d 1s"] {
            let said = duration(text).unwrap_err();
            assert_eq!(
                said, "it is too long, at most 7304484d is possible",
                "{text}"
            );
        }
        for text in ["30m1h", "1h1h", "1s 1d", "1ms10000000s"] {
            let said = duration(text).unwrap_err();
            let order = "write each unit once, the largest first (d, h, m, s or ms), like 10m";
            assert!(said.starts_with(order), "{text}: {said}");
        }
        for text in ["-5m", "-10"] {
            assert!(
                duration(text)
                    .unwrap_err()
                    .starts_with("it must not be negative"),
                "{text}"
            );
        }
        assert_eq!(duration("-5m").unwrap_err(), "it must not be negative");
        for text in ["", " "] {
            let said = duration(text).unwrap_err();
            assert!(said.starts_with("it is empty: set a duration"), "{said}");
        }
        let said = duration("--keep-alive").unwrap_err();
        assert!(said.starts_with("write it with its unit"), "{said}");
        assert!(duration_above_zero("0s").is_err());
        for text in ["0", "x", "-1", "4294967296"] {
            assert_eq!(
                attempts(text),
                Err("write a number from 1 to 4294967295".to_owned())
            );
        }
        assert_eq!(attempts("3"), Ok(3));
        assert!(pattern("expire-*/[ab]?").is_ok());
        for text in ["[a", "a**b"] {
            assert!(
                pattern(text).unwrap_err().contains("like expire-*"),
                "{text}"
            );
        }
        assert_eq!(width("80"), Ok(80));
        for text in ["39", "-80", "x"] {
            assert_eq!(width(text), Err("write a number of 40 or more".to_owned()));
        }
        assert_eq!(attempts("4294967295"), Ok(u32::MAX));
        for text in ["256", "no", "-1"] {
            let said = exit_code(text).unwrap_err();
            assert_eq!(said, "write a number from 0 to 255");
        }
        assert_eq!(exit_code("75"), Ok(75));
        for text in [
            "yesterday",
            "2026-11-21",
            "2026-11-21T03:00:00",
            "2026-13-01T00:00:00Z",
            "-0001-13-01T00:00:00Z",
        ] {
            let said = time(text).unwrap_err();
            let advice = "write a date and a time with its zone, like 2026-11-21T03:00:00Z";
            assert!(said.starts_with(advice), "{text}: {said}");
        }
        for late in ["9999-12-31T23:59:59Z", "10000-01-01T00:00:00+09:00"] {
            let said = time(late).unwrap_err();
            assert_eq!(said, format!("it is too late: the latest time is {LATEST}"));
        }
        assert!(time(LATEST).is_ok());
        assert!(time("2026-11-21T03:00:00+09:00").is_ok());
    }
}

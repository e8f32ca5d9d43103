//! Formats instants and durations for people.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

/// Formats an instant as RFC 3339 in UTC, with as many fraction digits as needed, clamped to the
/// years that the format can represent.
pub(crate) fn instant(instant: SystemTime) -> String {
    match jiff::Timestamp::try_from(instant) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => "a time out of range".to_owned(),
    }
}

/// Formats an untrusted text on one line for people. Control characters are escaped, so that none
/// of them reaches a terminal.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let visible = text.chars().map(|char| match char {
        char if char.is_control() => char.escape_default().to_string(),
        char => char.to_string(),
    });
    Cow::Owned(visible.collect())
}

/// Formats a duration as `1h 30m` or `500ms`, the form that [`crate::parse_duration`] reads.
pub fn duration(duration: Duration) -> String {
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

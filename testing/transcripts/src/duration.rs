//! Durations as the command prints and reads them: `1h30m`, `0.5s`, `93us`.

use std::time::Duration;

const UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// The place of the unit in [`UNITS`].
const SECONDS: usize = 2;

/// A duration, and what its last digit is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) value: Duration,
    /// What is less was rounded off.
    pub(crate) precision: Duration,
}

/// The longest duration at the start of this text, and how many bytes it has.
pub(crate) fn leading(text: &str) -> Option<(usize, Printed)> {
    let (mut at, mut micros, mut precision, mut parts) = (0, 0, 0, 0);
    while let Some((length, value, unit)) = part(&text[at..]) {
        at += length;
        micros += value;
        precision = unit;
        parts += 1;
    }
    // Two units are printed: `4m` has no seconds.
    let is_whole = |(_, size): &(&str, u64)| parts == 1 && *size == precision;
    if let Some(unit) = UNITS
        .iter()
        .position(is_whole)
        .filter(|unit| *unit > SECONDS)
    {
        (_, precision) = UNITS[unit - 1];
    }
    let ends = !text[at..].starts_with(|char: char| char.is_ascii_alphanumeric());
    let printed = Printed {
        value: Duration::from_micros(micros),
        precision: Duration::from_micros(precision),
    };
    (at > 0 && ends).then_some((at, printed))
}

/// A number with its unit: its length, its value, and what its last digit is worth.
fn part(text: &str) -> Option<(usize, u64, u64)> {
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let whole = digits(text);
    let value: u64 = text[..whole].parse().ok()?;
    let fraction = text[whole..].strip_prefix('.').map_or(0, digits);
    let length = if fraction > 0 {
        whole + 1 + fraction
    } else {
        whole
    };
    let rest = &text[length..];
    let is_unit = |unit: &str| {
        let after = rest.strip_prefix(unit);
        after.is_some_and(|after| !after.starts_with(|char: char| char.is_ascii_alphabetic()))
    };
    let (unit, micros) = UNITS.into_iter().find(|(unit, _)| is_unit(unit))?;
    let scale = 10_u64.checked_pow(u32::try_from(fraction).ok()?)?;
    let decimals: u64 = match fraction {
        0 => 0,
        _ => text[whole + 1..length].parse().ok()?,
    };
    let precision = micros / scale;
    let value = value.checked_mul(micros)? + decimals * precision;
    Some((length + unit.len(), value, precision))
}

/// The duration that this text is.
#[must_use]
pub fn parsed(text: &str) -> Option<Duration> {
    let (length, printed) = leading(text)?;
    (length == text.len()).then_some(printed.value)
}

/// The duration as a placeholder has it.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let mut micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, size) in UNITS.into_iter().rev() {
        if micros >= size {
            text.push_str(&format!("{}{unit}", micros / size));
            micros %= size;
        }
    }
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text
    }
}

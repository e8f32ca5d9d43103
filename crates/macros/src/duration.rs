//! Duration literals, parsed with the grammar of `shedlock::parse_duration`.

use std::time::Duration;

/// Parses what the runtime parses, and refuses what it refuses, in the same words.
///
/// The grammar is repeated here because a build must not wait for the runtime crate to expand an
/// attribute. A test keeps the two consistent.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let span: jiff::Span = text.trim().parse().map_err(|_| unreadable(text))?;
    if span.get_years() != 0 || span.get_months() != 0 || span.get_weeks() != 0 {
        return Err(refused(
            text,
            ": years, months and weeks are not accepted; write it",
        ));
    }
    let signed = span
        .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
        .map_err(|_| unreadable(text))?;
    if signed.is_negative() {
        return Err(refused(text, ": it is negative; write it"));
    }
    if signed.unsigned_abs() > LONGEST {
        return Err(refused(text, ": it is longer than 19,998 years; write it"));
    }
    Ok(signed.unsigned_abs())
}

const LONGEST: Duration = Duration::from_secs(7_304_484 * 86_400);

/// The error for a value that is no duration, such as the number `10`.
pub(crate) fn unreadable(text: &str) -> String {
    let why = match has_units(text) {
        true => "; write each unit once, the largest first,",
        false => "; write it with its unit,",
    };
    refused(text, why)
}

/// Whether each number has its unit. So only their order is wrong, or a unit is repeated.
fn has_units(text: &str) -> bool {
    let mut rest = text.trim();
    while !rest.is_empty() {
        let after_number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let after_unit = after_number.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let part = &rest[..rest.len() - after_unit.len()];
        if part.parse::<jiff::Span>().is_err() {
            return false;
        }
        rest = after_unit.trim_start();
    }
    !text.trim().is_empty()
}

fn refused(text: &str, why: &str) -> String {
    format!(
        "cannot read {text:?} as a duration{why} like \"10m\", \"1h 30m\", \"500ms\" or \"PT10M\""
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_grammar_is_the_runtimes() {
        let texts = [
            "10m",
            "1h 30m",
            "1h30m",
            "500ms",
            "1d",
            "PT10M",
            "P1DT1H",
            "PT0.25S",
            "0s",
            " 5s ",
            "pt5s",
            "1.5s",
            "1h 30m 5s 3ms 2us 1ns",
            "",
            " ",
            "10",
            "0",
            "-10s",
            "PT-5S",
            "-PT5S",
            "10 foo",
            "P",
            "PT",
            "1w",
            "P1W",
            "P1M",
            "1y",
            "1mo",
            "9223372036854775808s",
            "7304484d",
            "7304484d 1s",
            "1h ago",
            "10m,",
            "m10",
            "١٠m",
            "10m\n",
            "30m1h",
            "1h1h",
            "30m1",
        ];
        for text in texts {
            let here = super::parse(text);
            let there = shedlock_core::parse_duration(text);
            match (here, there) {
                (Ok(here), Ok(there)) => assert_eq!(here, there, "{text:?}"),
                (Err(here), Err(there)) => assert_eq!(here, there.to_string(), "{text:?}"),
                (here, there) => panic!("{text:?}: {here:?} here, {there:?} there"),
            }
        }
    }
}

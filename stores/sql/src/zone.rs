//! Time zones of sessions, as MySQL and MariaDB spell them.

use shedlock_provider::{Result, invalid};

/// Parses a time zone that a session can be set to: `SYSTEM`, an offset from -13:59 to +14:00, or a
/// name from the server's tables. Returns it as the server shows it, so that the two can be
/// compared. Whether the name exists is checked by the server.
///
/// # Errors
/// `InvalidInput` for anything else. An accepted zone needs no escaping in a statement.
pub(crate) fn parse(text: &str) -> Result<String> {
    let text = text.trim();
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= 64
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"/_-+".contains(&b));
    match text.to_ascii_uppercase().as_str() {
        // Servers accept these names only if their time zone tables are loaded; an offset always works.
        "UTC" | "GMT" | "Z" | "ETC/UTC" => Ok("+00:00".to_owned()),
        "SYSTEM" => Ok("SYSTEM".to_owned()),
        _ if is_name => Ok(text.to_owned()),
        _ => offset(text).ok_or_else(|| {
            invalid(format!("{text:?} is not a session time zone")).advise(
"use an offset like \"+05:30\", a zone name of the server like \"Asia/Kolkata\", or \
                 \"SYSTEM\"")
        }),
    }
}

fn offset(text: &str) -> Option<String> {
    let is_negative = text.starts_with('-');
    let digits = text.strip_prefix(['+', '-'])?;
    let (hours, minutes) = digits.split_once(':')?;
    let number = |text: &str, lengths: &[usize]| {
        let fits = lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        fits.then(|| text.parse::<u32>().ok()).flatten()
    };
    let (hours, minutes) = (number(hours, &[1, 2])?, number(minutes, &[2])?);
    let total = hours * 60 + minutes;
    let longest = if is_negative { 14 * 60 - 1 } else { 14 * 60 };
    if minutes > 59 || total > longest {
        return None;
    }
    let sign = if is_negative && total > 0 { '-' } else { '+' };
    Some(format!("{sign}{hours:02}:{minutes:02}"))
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    #[test]
    fn zones_are_spelt_as_the_server_does() {
        for (text, zone) in [
            ("+05:30", "+05:30"),
            ("+5:30", "+05:30"),
            ("-03:00", "-03:00"),
            ("-00:00", "+00:00"),
            ("+14:00", "+14:00"),
            ("utc", "+00:00"),
            ("system", "SYSTEM"),
            ("Asia/Kolkata", "Asia/Kolkata"),
            ("Etc/GMT+5", "Etc/GMT+5"),
        ] {
            assert_eq!(parse(text).unwrap(), zone, "{text}");
        }
    }

    #[test]
    fn nothing_else_gets_into_a_statement() {
        for text in [
            "", "05:30", "+05", "+14:01", "-14:00", "+05:60", "+005:30", "+05:3", "a'b", "a b",
            "+05:30'", "é", "+é5:30",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text:?}");
        }
    }
}

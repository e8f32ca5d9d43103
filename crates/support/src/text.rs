//! Formats instants and durations for people.

use std::borrow::Cow;
use std::time::SystemTime;

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
pub use shedlock_grammar::duration::written as duration;

/// Formats an instant as RFC 3339 in UTC, with as many fraction digits as needed, clamped to the
/// years that the format can represent.
pub fn instant(instant: SystemTime) -> String {
    match Timestamp::try_from(instant) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => "a time out of range".to_owned(),
    }
}

/// The text with its control characters, and all characters that are invisible or that reorder or
/// break a line, as escapes like `\u{202e}`.
///
/// Names and owners come from other programs. A terminal obeys control characters, and one name
/// could look like another.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// The same for a text of several lines.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |char| char != '\n' && is_hidden(char))
}

/// ShedLock for Java as the owner of a lock: on this host, if the record names it.
pub fn shedlock_on(owner: Option<&str>) -> String {
    match owner {
        Some(host) => format!("ShedLock on {}", visible(host)),
        None => "ShedLock".to_owned(),
    }
}

/// What to say where all locks of a store are meant, if ShedLock for Java leaves no record of an idle job there.
pub const UNSEEN: &str =
    "ShedLock for Java leaves no record of an idle job in this store, so such jobs cannot be seen";

fn escaped(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        if is_hidden(char) {
            clean.extend(char.escape_default());
        } else {
            clean.push(char);
        }
    }
    Cow::Owned(clean)
}

/// Control characters, and Unicode's `Default_Ignorable_Code_Point`, `Bidi_Control` and line
/// separators.
fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// RFC 3339 in UTC to the second, rounded down: what has happened is never shown in the future.
pub fn second(instant: SystemTime) -> String {
    let down = TimestampRound::new()
        .smallest(Unit::Second)
        .mode(RoundMode::Floor);
    let rounded = Timestamp::try_from(instant).and_then(|instant| instant.round(down));
    rounded.map_or_else(|_| "out of range".to_owned(), |instant| instant.to_string())
}

/// Words as a sentence lists them: `a, b and c`.
pub fn listed(words: &[impl AsRef<str>], last: &str) -> String {
    let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    match &words[..] {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

/// The first bytes of a text, at most so many, without a part of a character.
#[must_use]
pub fn first_bytes(text: &str, longest: usize) -> &str {
    let mut end = text.len().min(longest);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        for (longest, cut) in [(0, ""), (1, ""), (2, "é"), (3, "éa"), (9, "éa")] {
            assert_eq!(first_bytes("éa", longest), cut, "{longest}");
        }
    }

    #[test]
    fn hidden_characters_are_escaped_and_words_are_kept() {
        for text in ["payroll", "zählwerk 日本語", "a\\b", "e\u{301}", "👩"] {
            assert_eq!(visible(text), text);
        }
        for (text, clean) in [
            ("a\u{202e}b", r"a\u{202e}b"),
            ("\u{2066}\u{2069}", r"\u{2066}\u{2069}"),
            ("a\u{2028}\u{2029}\u{85}b", r"a\u{2028}\u{2029}\u{85}b"),
            ("a\r\n\t\u{1b}", r"a\r\n\t\u{1b}"),
            ("\u{feff}\u{200b}\u{ad}", r"\u{feff}\u{200b}\u{ad}"),
            ("\u{e0041}", r"\u{e0041}"),
        ] {
            assert_eq!(visible(text), clean);
        }
        assert_eq!(visible_lines("a\n\u{202e}b\n"), "a\n\\u{202e}b\n");
    }
}

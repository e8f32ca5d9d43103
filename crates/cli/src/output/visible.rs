//! Text from elsewhere, made safe for a terminal and for the eye.

use std::borrow::Cow;

/// The text with its control characters, and all characters that are invisible or that reorder or
/// break a line, as escapes like `\u{202e}`.
///
/// Names and owners come from other programs. A terminal obeys control characters, and one name
/// could look like another.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// The same for a text of several lines.
pub(crate) fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |char| char != '\n' && is_hidden(char))
}

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

#[cfg(test)]
mod tests {
    use super::*;

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

//! What a step prints, as a page shows it.

/// What a step printed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Printed {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

/// How the messages of the command begin, which it prints to stderr.
const OF_STDERR: [&str; 2] = ["shedlock: ", "{\"time\":"];

const TO_STDOUT: &str = "[stdout]";
const TO_STDERR: &str = "[stderr]";

impl Printed {
    /// The lines of stdout, then those of stderr. Their border is the first line that begins as the messages of
    /// the command do, or else `[stderr]`; `[stdout]` precedes an output that would be divided elsewhere.
    pub(crate) fn screen(&self) -> Vec<String> {
        let (stdout, stderr) = (shown(&self.stdout), shown(&self.stderr));
        let is_message = |line: &String| OF_STDERR.iter().any(|start| line.starts_with(start));
        let mut screen = Vec::new();
        if stdout.iter().any(is_message) {
            screen.push(TO_STDOUT.to_owned());
        }
        let is_plain = screen.is_empty() && stderr.first().is_none_or(is_message);
        screen.extend(stdout);
        if !is_plain && !stderr.is_empty() {
            screen.push(TO_STDERR.to_owned());
        }
        screen.extend(stderr);
        screen
    }
}

impl Printed {
    /// The lines of a terminal, on which both streams are one.
    pub(crate) fn terminal(&self) -> Vec<String> {
        let mut screen = shown(&self.stdout.replace('\r', ""));
        screen.extend(shown(&self.stderr));
        screen
    }
}

/// The lines of a text, with what cannot be seen.
fn shown(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let whole = text.strip_suffix('\n');
    let mut lines: Vec<String> = whole.unwrap_or(text).split('\n').map(visible).collect();
    if whole.is_none() {
        lines.push("[no newline]".to_owned());
    }
    lines
}

/// Control characters as their pictures, other characters without a picture as `<U+202E>`, and a blank at the end as
/// `␠`.
fn visible(line: &str) -> String {
    let mut text = String::new();
    for char in line.chars() {
        match char {
            '\0'..='\x1f' => text.extend(char::from_u32(0x2400 + u32::from(char))),
            '\x7f' => text.push('␡'),
            _ if is_hidden(char) => text.push_str(&format!("<U+{:04X}>", u32::from(char))),
            _ => text.push(char),
        }
    }
    if text.ends_with(' ') {
        text.pop();
        text.push('␠');
    }
    text
}

/// Characters that change how others are shown, or that are not shown.
fn is_hidden(char: char) -> bool {
    matches!(char, '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// The expected and the actual lines: what both have in common around what differs, which `-` and `+` mark.
pub(crate) fn difference(expected: &[String], actual: &[String], same: (usize, usize)) -> String {
    let (start, end) = same;
    let mut text = String::new();
    let mut push = |sign: &str, lines: &[String]| {
        for line in lines {
            text.push_str(&format!("  {sign} {line}\n"));
        }
    };
    push(" ", &expected[..start]);
    push("-", &expected[start..expected.len() - end]);
    push("+", &actual[start..actual.len() - end]);
    push(" ", &expected[expected.len() - end..]);
    text
}

#[cfg(test)]
mod tests {
    use super::Printed;

    fn screen(stdout: &str, stderr: &str) -> String {
        let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
        let printed = Printed {
            stdout,
            stderr,
            code: 0,
        };
        printed.screen().join("|")
    }

    #[test]
    fn a_screen_shows_which_stream_each_line_is_from() {
        let shown = [
            ("", "", ""),
            ("a\n", "", "a"),
            ("", "shedlock: b\n", "shedlock: b"),
            ("a\n", "shedlock: b\nc\n", "a|shedlock: b|c"),
            ("a\n", "b\n", "a|[stderr]|b"),
            ("", "a\n", "[stderr]|a"),
            ("shedlock: b\n", "", "[stdout]|shedlock: b"),
            (
                "shedlock: a\n",
                "shedlock: b\n",
                "[stdout]|shedlock: a|[stderr]|shedlock: b",
            ),
            ("a\nshedlock: b\n", "", "[stdout]|a|shedlock: b"),
            ("", "a\nshedlock: b\n", "[stderr]|a|shedlock: b"),
        ];
        for (stdout, stderr, expected) in shown {
            assert_eq!(screen(stdout, stderr), expected);
        }
        let mut all: Vec<_> = shown.iter().map(|(_, _, screen)| screen).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), shown.len(), "each is different");
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(screen("a\x1b[H\x7f\tb \n", ""), "a␛[H␡␉b␠");
        assert_eq!(
            screen("a\u{202e}b\u{9b}c", ""),
            "a<U+202E>b<U+009B>c|[no newline]"
        );
        assert_eq!(screen("\n\na\n", ""), "||a");
    }
}

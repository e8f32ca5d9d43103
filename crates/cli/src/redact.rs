//! Passwords are taken out of everything that is printed.
//!
//! Our own messages hold none. This is the net under them: for the messages of store clients, and
//! for a URL that the user typed in a wrong place and that an error message quotes.

use std::borrow::Cow;

const MASK: &str = "***";

/// The text without the passwords of the URLs in it: those between `//user:` and `@`, and the
/// values of parameters whose name says so.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    if !text.contains("://") && !text.contains("password") {
        return Cow::Borrowed(text);
    }
    Cow::Owned(parameters(&authorities(text)))
}

fn authorities(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        clean.push_str(head);
        // A password may hold unescaped '/' or '@' by mistake: up to the last '@' of the word.
        let word = tail.find(is_end).unwrap_or(tail.len());
        match tail[..word].rfind('@') {
            Some(end) => {
                let user = tail[..end].split(':').next().unwrap_or_default();
                clean.push_str(user);
                if user.len() < end {
                    clean.push(':');
                    clean.push_str(MASK);
                }
                rest = &tail[end..];
            }
            None => rest = tail,
        }
    }
    clean.push_str(rest);
    clean
}

fn parameters(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("password=") {
        let (head, tail) = rest.split_at(at + "password=".len());
        clean.push_str(head);
        clean.push_str(MASK);
        let end = tail
            .find(|c: char| is_end(c) || c == '&')
            .unwrap_or(tail.len());
        rest = &tail[end..];
    }
    clean.push_str(rest);
    clean
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '<' | '>')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_go_and_the_rest_stays() {
        let cases = [
            ("postgres://u:geheim@h:5432/d", "postgres://u:***@h:5432/d"),
            ("'mysql://u:a@b:c@h/d' found", "'mysql://u:***@h/d' found"),
            ("postgres://u:a/b@h/d", "postgres://u:***@h/d"),
            (
                "postgres://h/d?user=u&password=x&a=b",
                "postgres://h/d?user=u&password=***&a=b",
            ),
            ("a://u@h and b://:p@h", "a://u@h and b://:***@h"),
            ("sqlite:///var/lib/x.db", "sqlite:///var/lib/x.db"),
            ("nothing here", "nothing here"),
        ];
        for (text, clean) in cases {
            assert_eq!(redact(text), clean, "{text}");
        }
    }
}

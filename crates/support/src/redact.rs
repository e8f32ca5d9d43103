//! Removes passwords from texts that are shown or stored.
//!
//! Our own messages contain none. This is a second line of defence, for the messages of store
//! clients and tasks, and for a URL that the user typed in the wrong place and that an error message
//! quotes.

use std::borrow::Cow;

const MASK: &str = "***";

/// The text without the passwords of its URLs: those between `//user:` and `@`, NATS tokens, and
/// the values of parameters whose name denotes a password.
pub fn redact(text: &str) -> Cow<'_, str> {
    if !text.contains("://") && !text.to_ascii_lowercase().contains(PARAMETER) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(parameters(&authorities(text)))
}

/// The end of such parameters' names, in any case.
const PARAMETER: &str = "password=";

fn authorities(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        clean.push_str(head);
        let has_tokens = ["nats://", "tls://"].iter().any(|it| clean.ends_with(it));
        // A password may contain an unescaped '/', '@' or quote by mistake, so it extends to the
        // last '@' before a blank.
        let word = tail.find(char::is_whitespace).unwrap_or(tail.len());
        match tail[..word].rfind('@') {
            Some(end) => {
                let user = tail[..end].split(':').next().unwrap_or_default();
                if user.len() < end {
                    clean.push_str(user);
                    clean.push(':');
                    clean.push_str(MASK);
                } else {
                    clean.push_str(if has_tokens { MASK } else { user });
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
    while let Some(at) = rest.to_ascii_lowercase().find(PARAMETER) {
        let (head, tail) = rest.split_at(at + PARAMETER.len());
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
    fn passwords_are_removed_and_the_rest_is_kept() {
        let cases = [
            ("postgres://u:geheim@h:5432/d", "postgres://u:***@h:5432/d"),
            ("'mysql://u:a@b:c@h/d' found", "'mysql://u:***@h/d' found"),
            ("postgres://u:a/b@h/d", "postgres://u:***@h/d"),
            (
                "postgres://h/d?user=u&password=x&a=b",
                "postgres://h/d?user=u&password=***&a=b",
            ),
            (
                "mongodb://h/d?tlsCertificateKeyFilePassword=x&w=1",
                "mongodb://h/d?tlsCertificateKeyFilePassword=***&w=1",
            ),
            ("'nats://geheim@h'", "'nats://***@h'"),
            ("postgres://u:a'b\"c@h/d", "postgres://u:***@h/d"),
            ("a://u@h and b://:p@h", "a://u@h and b://:***@h"),
            ("sqlite:///var/lib/x.db", "sqlite:///var/lib/x.db"),
            ("nothing here", "nothing here"),
        ];
        for (text, clean) in cases {
            assert_eq!(redact(text), clean, "{text}");
        }
    }
}

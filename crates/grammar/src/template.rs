//! Templates of names: text with arguments in braces, like `sync-{tenant.id}`.

use std::ops::Range;

/// A name with the arguments that it contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template<'a> {
    /// The text with `{{` and `}}` resolved. This is the name if there are no arguments.
    pub fixed: String,
    /// The text as a format string, with one `{}` for each argument.
    pub format: String,
    /// The code of the arguments, and where in the text it is.
    pub arguments: Vec<(&'a str, Range<usize>)>,
}

/// Why a template is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The bytes of the text that it is about.
    pub at: Range<usize>,
    /// What is wrong, and what to do.
    pub message: String,
}

/// Finds the arguments of a template.
///
/// # Errors
/// Why it is refused.
pub fn parse(text: &str) -> Result<Template<'_>, Refusal> {
    let mut template = Template::default();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            template.fixed.push(next);
            template.format.push_str(&rest[..2]);
            at += 2;
        } else if next == '{' {
            let Some(length) = rest.find('}') else {
                let message = "unmatched `{`: write `{{` for a literal brace";
                return Err(refused(at..text.len(), message));
            };
            template.take(&rest[1..length], at + 1)?;
            at += length + 1;
        } else if next == '}' {
            let message = "unmatched `}`: write `}}` for a literal brace";
            return Err(refused(at..at + 1, message));
        } else if next.is_control() {
            let message = format!("the name contains the control character {next:?}; remove it");
            return Err(refused(at..at + next.len_utf8(), message));
        } else {
            template.fixed.push(next);
            template.format.push(next);
            at += next.len_utf8();
        }
    }
    if template.arguments.is_empty() && template.fixed.trim().is_empty() {
        let message = "the lock's name is empty or blank; set one";
        return Err(refused(0..text.len(), message));
    }
    Ok(template)
}

fn refused(at: Range<usize>, message: impl Into<String>) -> Refusal {
    let message = message.into();
    Refusal { at, message }
}

impl<'a> Template<'a> {
    /// Takes the text between two braces, which starts at this byte.
    fn take(&mut self, inside: &'a str, start: usize) -> Result<(), Refusal> {
        let (code, spec) = split_spec(inside);
        let end = start + code.len();
        if code.trim().is_empty() {
            let message = "the braces name nothing: write an argument of the function, or a field, like \
                           `{tenant.id}`";
            return Err(refused(start - 1..end + 1, message));
        }
        if spec.contains('{') {
            let message = "a width or precision from an argument is not supported: use \
                           `name = format!(…)`";
            return Err(refused(end..end + spec.len(), message));
        }
        self.arguments.push((code, start..end));
        self.format.push('{');
        self.format.push_str(spec);
        self.format.push('}');
        Ok(())
    }
}

/// Splits `id:>8` into the expression `id` and the specification `:>8`. The `::` of a path does not
/// separate them.
fn split_spec(inside: &str) -> (&str, &str) {
    let bytes = inside.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b':' {
            if bytes.get(at + 1) != Some(&b':') {
                return inside.split_at(at);
            }
            at += 1;
        }
        at += 1;
    }
    (inside, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_hold_arguments_or_are_doubled() {
        let template = parse("a{{b}}c").unwrap();
        assert_eq!(
            (template.fixed.as_str(), template.arguments.len()),
            ("a{b}c", 0)
        );
        let template = parse("ü-{Self::ID}{{{ pair.0 :>8}").unwrap();
        assert_eq!(template.format, "ü-{}{{{:>8}");
        assert_eq!(
            template.arguments,
            [("Self::ID", 4..12), (" pair.0 ", 16..24)]
        );
    }

    #[test]
    fn a_refusal_points_at_what_is_wrong() {
        for (text, at, says) in [
            ("", 0..0, "empty or blank"),
            ("\u{a0}", 0..2, "empty or blank"),
            ("a{b", 1..3, "unmatched `{`"),
            ("üa}b", 3..4, "unmatched `}`"),
            ("a{ :?}", 1..4, "the braces name nothing"),
            ("a{b:{c}", 3..6, "a width or precision"),
            ("a\u{85}b", 1..3, "control character '\\u{85}'"),
        ] {
            let refusal = parse(text).unwrap_err();
            assert!(refusal.message.contains(says), "{refusal:?}");
            assert_eq!(refusal.at, at, "{text:?}");
        }
    }
}

//! The name of the lock: fixed, with arguments of the function, or computed.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Expr, LitStr};

/// The value of `name = …`.
pub(crate) enum Name {
    /// Known at compile time, and checked.
    Fixed(LitStr),
    /// `"sync-{tenant.id}"`: a format string with one `{}` per expression, and the expressions.
    Template {
        format: LitStr,
        arguments: Vec<Expr>,
        /// The name as written.
        written: LitStr,
    },
    /// Any expression that evaluates to text.
    Computed(Box<Expr>),
}

impl Name {
    /// Parses a literal: its braces, and the expressions between them.
    pub(crate) fn from_literal(literal: &LitStr) -> syn::Result<Self> {
        let source = Source::of(literal);
        let text = literal.value();
        let mut scan = Scan {
            source: &source,
            fixed: String::new(),
            format: String::new(),
            arguments: Vec::new(),
        };
        scan.read(&text)?;
        if scan.arguments.is_empty() {
            if scan.fixed.trim().is_empty() {
                return Err(syn::Error::new(
                    literal.span(),
                    "the lock's name is empty or blank; set one",
                ));
            }
            return Ok(Self::Fixed(LitStr::new(&scan.fixed, literal.span())));
        }
        Ok(Self::Template {
            format: LitStr::new(&scan.format, literal.span()),
            arguments: scan.arguments,
            written: literal.clone(),
        })
    }

    /// Returns the name as written, if it contains arguments.
    pub(crate) fn template(&self) -> Option<&LitStr> {
        match self {
            Self::Template { written, .. } => Some(written),
            Self::Fixed(_) | Self::Computed(_) => None,
        }
    }

    /// Generates an expression for the name that borrows the variables it uses.
    pub(crate) fn to_tokens(&self, private: &TokenStream) -> TokenStream {
        match self {
            Self::Fixed(text) => quote!(#text),
            Self::Template {
                format, arguments, ..
            } => {
                quote!(#private::format!(#format #(, #arguments)*))
            }
            Self::Computed(expression) => quote!(#expression),
        }
    }
}

/// Finds the span of a part of the literal.
struct Source {
    literal: proc_macro2::Literal,
    /// Where the text starts in the literal; `None` if escapes shift positions.
    start: Option<usize>,
}

impl Source {
    fn of(literal: &LitStr) -> Self {
        let token = literal.token();
        let written = token.to_string();
        let start = written
            .find('"')
            .map(|quote| quote + 1)
            .filter(|start| written[*start..].starts_with(&literal.value()));
        Self {
            literal: token,
            start,
        }
    }

    /// Returns the span of these bytes of the text. If the compiler does not provide spans of
    /// parts, as stable does not yet, returns the span of the whole literal.
    fn span(&self, from: usize, to: usize) -> Span {
        self.start
            .and_then(|start| self.literal.subspan(start + from..start + to))
            .unwrap_or_else(|| self.literal.span())
    }
}

struct Scan<'a> {
    source: &'a Source,
    /// The text with `{{` and `}}` resolved. This is the name if there are no arguments.
    fixed: String,
    /// The text as a format string.
    format: String,
    arguments: Vec<Expr>,
}

impl Scan<'_> {
    fn read(&mut self, text: &str) -> syn::Result<()> {
        let mut at = 0;
        while let Some(next) = text[at..].chars().next() {
            let rest = &text[at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                self.fixed.push(next);
                self.format.push_str(&rest[..2]);
                at += 2;
            } else if next == '{' {
                let Some(length) = rest.find('}') else {
                    return Err(self.error(
                        at,
                        text.len(),
                        "unmatched `{`: write `{{` for a literal brace",
                    ));
                };
                self.argument(&rest[1..length], at + 1)?;
                at += length + 1;
            } else if next == '}' {
                return Err(self.error(
                    at,
                    at + 1,
                    "unmatched `}`: write `}}` for a literal brace",
                ));
            } else if next.is_control() {
                let message =
                    format!("the name contains the control character {next:?}; remove it");
                return Err(self.error(at, at + next.len_utf8(), message));
            } else {
                self.fixed.push(next);
                self.format.push(next);
                at += next.len_utf8();
            }
        }
        Ok(())
    }

    /// Parses the text between two braces, which starts at this byte.
    fn argument(&mut self, inside: &str, start: usize) -> syn::Result<()> {
        let (code, spec) = split_spec(inside);
        let end = start + code.len();
        if code.trim().is_empty() {
            return Err(self.error(
                start.saturating_sub(1),
                end + 1,
                "the braces name nothing: write an argument of the function, or a field, like \
                 `{tenant.id}`",
            ));
        }
        if spec.contains('{') {
            return Err(self.error(
                end,
                end + spec.len(),
                "a width or precision from an argument is not supported: use `name = format!(…)`",
            ));
        }
        let span = self.source.span(start, end);
        let expression = LitStr::new(code, span).parse::<Expr>().ok();
        let Some(expression) = expression.filter(is_plain) else {
            let message = format!(
                "`{}` is not an argument, field, constant, method call or index: use \
                 `name = format!(…)`",
                code.trim()
            );
            return Err(self.error(start, end, message));
        };
        self.arguments.push(expression);
        self.format.push('{');
        self.format.push_str(spec);
        self.format.push('}');
        Ok(())
    }

    fn error(&self, from: usize, to: usize, message: impl std::fmt::Display) -> syn::Error {
        syn::Error::new(self.source.span(from, to), message)
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

/// Names consist of places and calls. Anything with control flow or an operator belongs outside of
/// the name, where it is readable.
fn is_plain(expression: &Expr) -> bool {
    match expression {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Field(field) => is_plain(&field.base),
        Expr::Paren(paren) => is_plain(&paren.expr),
        Expr::Reference(reference) => is_plain(&reference.expr),
        Expr::Unary(unary) => matches!(unary.op, syn::UnOp::Deref(_)) && is_plain(&unary.expr),
        Expr::Index(index) => is_plain(&index.expr) && is_plain(&index.index),
        Expr::Call(call) => is_plain(&call.func) && call.args.iter().all(is_plain),
        Expr::MethodCall(call) => is_plain(&call.receiver) && call.args.iter().all(is_plain),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    fn literal(text: &str) -> LitStr {
        LitStr::new(text, Span::call_site())
    }

    fn parts(text: &str) -> (String, Vec<String>) {
        match Name::from_literal(&literal(text)).unwrap() {
            Name::Fixed(text) => (text.value(), Vec::new()),
            Name::Template {
                format, arguments, ..
            } => {
                let arguments = arguments.iter().map(|a| a.to_token_stream().to_string());
                (format.value(), arguments.collect())
            }
            Name::Computed(_) => panic!("a literal is not computed"),
        }
    }

    fn refusal(text: &str) -> String {
        Name::from_literal(&literal(text))
            .err()
            .unwrap()
            .to_string()
    }

    #[test]
    fn a_name_without_arguments_is_fixed() {
        assert_eq!(parts("payroll"), ("payroll".into(), vec![]));
        assert_eq!(parts("a{{b}}c"), ("a{b}c".into(), vec![]));
        assert_eq!(parts("größe-日"), ("größe-日".into(), vec![]));
    }

    #[test]
    fn arguments_become_places_in_a_format_string() {
        let one = |format: &str, argument: &str| (format.to_owned(), vec![argument.to_owned()]);
        assert_eq!(parts("sync-{tenant}"), one("sync-{}", "tenant"));
        assert_eq!(parts("{{{tenant.id}}}"), one("{{{}}}", "tenant . id"));
        assert_eq!(parts("{id:>08}"), one("{:>08}", "id"));
        assert_eq!(parts("{ pair.0 }"), one("{}", "pair . 0"));
        assert_eq!(parts("{Self::NAME}"), one("{}", "Self :: NAME"));
        assert_eq!(
            parts("{crate::shard():?}"),
            one("{:?}", "crate :: shard ()")
        );
        assert_eq!(
            parts("{self.tenants[0].id()}"),
            one("{}", "self . tenants [0] . id ()")
        );
        assert_eq!(parts("ü{a}-{b}").1, ["a", "b"]);
    }

    #[test]
    fn an_invalid_name_is_refused() {
        for blank in ["", " ", "\u{a0}"] {
            assert!(refusal(blank).contains("empty or blank"), "{blank:?}");
        }
        assert!(refusal("a{b").contains("unmatched `{`"));
        assert!(refusal("a}b").contains("unmatched `}`"));
        assert!(refusal("a{}").contains("the braces name nothing"));
        assert!(refusal("a{ :?}").contains("the braces name nothing"));
        assert!(refusal("a{b + c}").contains("name = format!(…)"));
        assert!(refusal("a{b?}").contains("`b?` is not"));
        assert!(refusal("a{b c}").contains("`b c` is not"));
        assert!(refusal("a\tb").contains("control character '\\t'"));
    }
}

//! The name of the lock: fixed, with arguments of the function, or computed.

use std::ops::Range;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use shedlock_grammar::template;
use syn::{Expr, LitStr};

/// The value of `name = …`.
pub(crate) enum Name {
    /// Known at compile time, and checked.
    Fixed(LitStr),
    /// `"sync-{tenant.id}"`: a format string with one `{}` per expression, and the expressions.
    Template {
        format: LitStr,
        arguments: Vec<Expr>,
        /// The name as written, as code of the expansion: a lint would take the user's literal for a
        /// format string outside of `format!`.
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
        let template = template::parse(&text)
            .map_err(|refusal| syn::Error::new(source.span(refusal.at), refusal.message))?;
        if template.arguments.is_empty() {
            return Ok(Self::Fixed(LitStr::new(&template.fixed, literal.span())));
        }
        let arguments = template.arguments.into_iter();
        let arguments = arguments.map(|(code, at)| argument(code, source.span(at)));
        Ok(Self::Template {
            format: LitStr::new(&template.format, literal.span()),
            arguments: arguments.collect::<syn::Result<_>>()?,
            written: LitStr::new(&text, Span::mixed_site()),
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
    fn span(&self, at: Range<usize>) -> Span {
        self.start
            .and_then(|start| self.literal.subspan(start + at.start..start + at.end))
            .unwrap_or_else(|| self.literal.span())
    }
}

fn argument(code: &str, span: Span) -> syn::Result<Expr> {
    let expression = LitStr::new(code, span).parse::<Expr>().ok();
    // A number would be no argument, as in `format!`, but the number itself.
    let is_value = |expression: &Expr| is_plain(expression) && !matches!(expression, Expr::Lit(_));
    expression.filter(is_value).ok_or_else(|| {
        let message = format!(
            "`{}` is not an argument, field, constant, method call or index: use \
             `name = format!(…)`",
            code.trim()
        );
        syn::Error::new(span, message)
    })
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
        assert!(refusal("a{0}").contains("`0` is not"));
        assert!(refusal("a\tb").contains("control character '\\t'"));
    }
}

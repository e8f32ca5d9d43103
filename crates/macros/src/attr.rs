//! The arguments of the attribute.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Ident, Lit, Path, Token, UnOp, parse_quote};

use crate::duration;
use crate::name::Name;

const KEYS: &str = "`name`, `lock_at_most_for`, `lock_at_least_for`, `keep_alive`, \
                    `max_run_time`, `lock_wait`, `provider` and `crate`";
/// Keys that need no value; the second one belongs elsewhere, and is to be told so.
const FLAGS: &[&str] = &["keep_alive", "must_not_be_lost"];

/// What the user wrote, as far as it is right.
///
/// What is wrong is missing here and stands in the errors beside it, so that the function is
/// expanded all the same and the compiler goes on to say what it thinks of its body.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) name: Option<Name>,
    pub(crate) lock_at_most_for: Option<Period>,
    pub(crate) lock_at_least_for: Option<Period>,
    pub(crate) keep_alive: Option<Expr>,
    pub(crate) max_run_time: Option<Period>,
    pub(crate) lock_wait: Option<Period>,
    pub(crate) provider: Option<Expr>,
    pub(crate) facade: Option<Path>,
}

/// One of the durations.
pub(crate) enum Period {
    /// A literal, read at compile time.
    Known(Duration, Span),
    /// Anything that turns into a `LockDuration`.
    Computed(Box<Expr>),
}

impl Period {
    pub(crate) fn to_tokens(&self, private: &TokenStream) -> TokenStream {
        match self {
            Self::Known(duration, _) => {
                let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
                quote!(#private::Duration::new(#seconds, #nanos))
            }
            Self::Computed(expression) => quote!(#expression),
        }
    }
}

/// All errors that were found, to be shown together.
#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            none => *none = Some(error),
        }
    }

    pub(crate) fn add(&mut self, span: Span, message: impl std::fmt::Display) {
        self.push(syn::Error::new(span, message));
    }

    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// One `compile_error!` for each.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0
            .map_or_else(TokenStream::new, syn::Error::into_compile_error)
    }
}

impl Arguments {
    /// Reads what stands between the parentheses.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut arguments = Self::default();
        let mut seen = Vec::new();
        let was_read = read_pairs(tokens, (KEYS, FLAGS), &mut seen, errors, {
            |key, value, errors| arguments.take(key, value, errors)
        });
        if was_read && !seen.iter().any(|key| key == "name") {
            errors.add(
                Span::call_site(),
                "the lock has no name: write `#[scheduler_lock(name = \"…\")]`",
            );
        }
        arguments.check_durations(errors);
        arguments
    }

    /// The path of the facade crate.
    pub(crate) fn facade(&self) -> Path {
        self.facade
            .clone()
            .unwrap_or_else(|| parse_quote!(::shedlock))
    }

    /// The values that may move an argument of the function: all but references, calls of macros like
    /// `format!`, and what stands between the braces of a name.
    pub(crate) fn moving(&self) -> TokenStream {
        let name = match &self.name {
            Some(Name::Computed(name)) => Some(&**name),
            _ => None,
        };
        let periods = [
            &self.lock_at_most_for,
            &self.lock_at_least_for,
            &self.max_run_time,
            &self.lock_wait,
        ];
        let periods = periods.into_iter().filter_map(|period| match period {
            Some(Period::Computed(period)) => Some(&**period),
            _ => None,
        });
        let values = name.into_iter().chain(periods);
        let values = values.chain(&self.keep_alive).chain(&self.provider);
        let values = values.filter(|value| !matches!(value, Expr::Reference(_) | Expr::Macro(_)));
        quote!(#(#values)*)
    }

    fn take(&mut self, key: &Ident, value: Value, errors: &mut Errors) {
        let value = match value {
            Value::Facade(path) => {
                self.facade = Some(path);
                return;
            }
            Value::Flag => parse_quote!(true),
            Value::Given(value) => value,
        };
        match key.to_string().as_str() {
            "name" => self.name = errors.keep(name(value)),
            "lock_at_most_for" => self.lock_at_most_for = errors.keep(period(value)),
            "lock_at_least_for" => self.lock_at_least_for = errors.keep(period(value)),
            "keep_alive" => self.keep_alive = Some(value),
            "max_run_time" => self.max_run_time = errors.keep(period(value)),
            "lock_wait" => self.lock_wait = errors.keep(period(value)),
            "provider" => self.provider = Some(value),
            "must_not_be_lost" | "max_attempts" | "backoff" | "max_backoff" => errors.add(
                key.span(),
                format!("`{key}` belongs to `#[scheduled]`, where the slots are"),
            ),
            _ => errors.push(unknown_key(key, KEYS)),
        }
    }

    /// What is wrong with durations that can be read, each alone and together.
    fn check_durations(&mut self, errors: &mut Errors) {
        if let Some(Period::Known(Duration::ZERO, span)) = self.max_run_time {
            errors.add(span, "max_run_time is zero: the task could never run");
            self.max_run_time = None;
        }
        let Some(Period::Known(at_most, at_most_span)) = self.lock_at_most_for else {
            return;
        };
        if at_most.is_zero() {
            errors.add(
                at_most_span,
                "lock_at_most_for is zero: such a lock would be free again at once; \
                 set it longer than the task ever takes",
            );
            self.lock_at_most_for = None;
            return;
        }
        match self.lock_at_least_for {
            Some(Period::Known(at_least, at_least_span)) if at_least > at_most => {
                errors.add(
                    at_least_span,
                    "lock_at_least_for is longer than lock_at_most_for: raise the one or lower the other",
                );
                self.lock_at_least_for = None;
            }
            _ => {}
        }
    }
}

/// What stands behind a key.
pub(crate) enum Value {
    /// Nothing: the key alone says it.
    Flag,
    Given(Expr),
    /// The value of `crate`.
    Facade(Path),
}

/// Reads `key = value` until the end, and hands each on; whether all could be read.
///
/// Stops with an error where the grammar is broken; what is wrong beyond the grammar goes to
/// `errors`, and reading goes on. `flags` are the keys that need no value; the first of two values
/// counts.
pub(crate) fn read_pairs(
    tokens: TokenStream,
    (keys, flags): (&str, &[&str]),
    seen: &mut Vec<String>,
    errors: &mut Errors,
    mut take: impl FnMut(&Ident, Value, &mut Errors),
) -> bool {
    let read = |input: ParseStream<'_>| {
        while !input.is_empty() {
            if !input.peek(Ident::peek_any) {
                return Err(input.error(format!("expected `key = value`; the keys are {keys}")));
            }
            let key = Ident::parse_any(input)?;
            let word = key.to_string();
            let value = read_value(input, &key, flags)?;
            if seen.contains(&word) {
                errors.add(key.span(), format!("`{word}` is given twice"));
            } else {
                take(&key, value, errors);
            }
            seen.push(word);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    };
    let whole = read.parse2(tokens);
    errors.keep(whole).is_some()
}

fn read_value(input: ParseStream<'_>, key: &Ident, flags: &[&str]) -> syn::Result<Value> {
    let ends = |input: ParseStream<'_>| input.is_empty() || input.peek(Token![,]);
    if flags.iter().any(|flag| key == flag) && ends(input) {
        return Ok(Value::Flag);
    }
    if !input.peek(Token![=]) {
        return Err(no_value(key));
    }
    input.parse::<Token![=]>()?;
    if ends(input) {
        return Err(no_value(key));
    }
    if key == "crate" {
        return input.call(Path::parse_mod_style).map(Value::Facade);
    }
    Ok(Value::Given(ungroup(input.parse()?)))
}

pub(crate) fn unknown_key(key: &Ident, keys: &str) -> syn::Error {
    let message = format!("unknown key `{key}`; the keys are {keys}");
    syn::Error::new(key.span(), message)
}

fn no_value(key: &Ident) -> syn::Error {
    let message = format!("`{key}` has no value: write `{key} = …`");
    syn::Error::new(key.span(), message)
}

fn name(value: Expr) -> syn::Result<Name> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Name::from_literal(&text),
        Expr::Lit(other) => Err(syn::Error::new(
            other.span(),
            "a name is text, or an expression that gives text",
        )),
        expression => Ok(Name::Computed(Box::new(expression))),
    }
}

pub(crate) fn period(value: Expr) -> syn::Result<Period> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => {
            let duration = duration::parse(&text.value());
            let duration = duration.map_err(|message| syn::Error::new(text.span(), message))?;
            Ok(Period::Known(duration, text.span()))
        }
        Expr::Lit(other) => Err(no_unit(&other)),
        Expr::Unary(unary) if matches!((&unary.op, &*unary.expr), (UnOp::Neg(_), Expr::Lit(_))) => {
            Err(no_unit(&unary))
        }
        expression => Ok(Period::Computed(Box::new(expression))),
    }
}

fn no_unit(value: &impl quote::ToTokens) -> syn::Error {
    let text = value.to_token_stream().to_string().replace(' ', "");
    syn::Error::new_spanned(value, duration::unreadable(&text))
}

/// What a `macro_rules` macro passes on stands in a group that nobody sees.
fn ungroup(mut value: Expr) -> Expr {
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    value
}

//! The arguments of the attribute.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use shedlock_grammar::duration::{self, Refusal};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Path, Token, UnOp, parse_quote};

use crate::name::Name;

const KEYS: &str = "`name`, `lock_at_most_for`, `lock_at_least_for`, `keep_alive`, \
                    `max_run_time`, `lock_wait`, `expect_every`, `provider` and `crate`";
/// Keys that need no value. The second one belongs to the other attribute, and gets an error that
/// says so.
const FLAGS: &[&str] = &["keep_alive", "must_not_be_lost"];

/// The valid part of the arguments.
///
/// Invalid arguments are missing here and are recorded in the errors instead. The function is still
/// expanded, so that the compiler also checks its body.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) name: Option<Name>,
    pub(crate) lock_at_most_for: Option<Period>,
    pub(crate) lock_at_least_for: Option<Period>,
    pub(crate) keep_alive: Option<Expr>,
    pub(crate) max_run_time: Option<Period>,
    pub(crate) expect_every: Option<Period>,
    pub(crate) lock_wait: Option<Period>,
    pub(crate) provider: Option<Expr>,
    pub(crate) facade: Option<Path>,
}

/// One of the durations.
pub(crate) enum Period {
    /// A literal, parsed at compile time.
    Known(Duration, Span),
    /// Any expression that converts into a `LockDuration`.
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

/// All errors that were found, to be reported together.
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

    /// Returns one `compile_error!` for each error.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0
            .map_or_else(TokenStream::new, syn::Error::into_compile_error)
    }
}

impl Arguments {
    /// Parses the tokens between the parentheses.
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

    /// Returns the path of the facade crate.
    pub(crate) fn facade(&self) -> Path {
        self.facade
            .clone()
            .unwrap_or_else(|| parse_quote!(::shedlock))
    }

    /// Returns the values that may move an argument of the function: all except references, calls
    /// of macros like `format!`, and expressions between the braces of a name.
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
            &self.expect_every,
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
            "expect_every" => self.expect_every = errors.keep(period(value)),
            "provider" => self.provider = Some(value),
            "must_not_be_lost" | "max_attempts" | "backoff" | "max_backoff" => errors.add(
                key.span(),
                format!("`{key}` is a key of `#[scheduled]`: move it there"),
            ),
            _ => errors.push(unknown_key(key, KEYS)),
        }
    }

    /// Checks durations known at compile time, each alone and together.
    fn check_durations(&mut self, errors: &mut Errors) {
        if let Some(Period::Known(Duration::ZERO, span)) = self.max_run_time {
            errors.add(span, "max_run_time is zero: the task could never run");
            self.max_run_time = None;
        }
        if let Some(Period::Known(Duration::ZERO, span)) = self.expect_every {
            errors.add(span, "expect_every is zero: no task can run that often");
            self.expect_every = None;
        }
        let Some(Period::Known(at_most, at_most_span)) = self.lock_at_most_for else {
            return;
        };
        if at_most.is_zero() {
            errors.add(
                at_most_span,
                "lock_at_most_for is zero: the lock would be free immediately; set it longer than \
                 the task can take",
            );
            self.lock_at_most_for = None;
            return;
        }
        match self.lock_at_least_for {
            Some(Period::Known(at_least, at_least_span)) if at_least > at_most => {
                errors.add(
                    at_least_span,
                    "lock_at_least_for exceeds lock_at_most_for: lower the first or raise the \
                     second",
                );
                self.lock_at_least_for = None;
            }
            _ => {}
        }
    }
}

/// The value of a key.
pub(crate) enum Value {
    /// No value: the key alone is enough.
    Flag,
    Given(Expr),
    /// The value of `crate`.
    Facade(Path),
}

/// Parses `key = value` pairs until the end, and passes each to the callback. Returns whether all
/// could be parsed.
///
/// Stops with an error if the grammar is broken. Other errors go to `errors`, and parsing
/// continues. `flags` are the keys that need no value. If a key occurs twice, the first value
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
                errors.add(key.span(), format!("`{word}` is set twice"));
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
        // Also in quotes, as other attributes take it.
        let path = match input.parse::<Option<LitStr>>()? {
            Some(text) => text.parse_with(Path::parse_mod_style),
            None => input.call(Path::parse_mod_style),
        };
        return path.map(Value::Facade).map_err(|error| {
            let message = "`crate` needs a path: write `crate = name` or `crate = \"name\"`";
            syn::Error::new(error.span(), message)
        });
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
            "a name must be a string, or an expression that evaluates to one",
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
            let refused =
                |refusal: Refusal| syn::Error::new(text.span(), refusal.in_words(&text.value()));
            let duration = duration::parse(&text.value()).map_err(refused)?;
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
    syn::Error::new_spanned(value, Refusal::Unreadable.in_words(&text))
}

/// Removes the invisible group around a value that a `macro_rules` macro passes on.
fn ungroup(mut value: Expr) -> Expr {
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    value
}

//! The arguments of `#[scheduled]`.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use shedlock_grammar::cron::Pattern;
use shedlock_grammar::period::{check_every, check_fixed_delay};
use shedlock_grammar::{instant, zone};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Path, parse_quote};

use super::completion::Completion;
use crate::attr::{Errors, Period, Value, period, read_pairs, unknown_key};

const KEYS: &str = "`cron`, `zone`, `every`, `anchor`, `fixed_delay`, `jitter`, `initial_delay`, \
                    `run_at_start`, `late`, `overlap`, `must_not_be_lost`, `max_attempts`, \
                    `backoff`, `max_backoff`, `job` and `crate`";
const FLAGS: &[&str] = &["run_at_start", "must_not_be_lost"];
const TRIGGERS: &str = "write `cron = \"0 2 * * *\"`, `every = \"10m\"` or `fixed_delay = \"10s\"`";

/// The valid part of the arguments. Invalid arguments are recorded in the errors instead.
#[derive(Default)]
pub(super) struct Arguments {
    trigger: Option<Trigger>,
    zone: Option<Text>,
    anchor: Option<Expr>,
    settings: Vec<Setting>,
    pub(super) completion: Completion,
    /// The name of the job, if the function's name is already taken.
    pub(super) job: Option<Ident>,
    pub(super) facade: Option<Path>,
}

/// When the job is due.
enum Trigger {
    Cron(Text),
    Every(Period),
    FixedDelay(Period),
}

/// A literal that was parsed at compile time, or any other expression that evaluates to text.
enum Text {
    Known(LitStr),
    Computed(Expr),
}

/// A call of one of `Job`'s setters.
enum Setting {
    Duration(&'static str, Period),
    RunAtStart(Expr),
    Late(Late),
    Overlap(Overlap),
}

enum Late {
    Once,
    Skip,
    Within(Period),
    Computed(Expr),
}

enum Overlap {
    Known(&'static str),
    Computed(Expr),
}

impl Arguments {
    /// Parses the tokens between the parentheses.
    pub(super) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut arguments = Self::default();
        let mut seen = Vec::new();
        // Which of these belong together is only known at the end.
        let mut keys = Keys::default();
        let was_read = read_pairs(tokens, (KEYS, FLAGS), &mut seen, errors, {
            |key, value, errors| arguments.take(key, value, &mut keys, errors)
        });
        if was_read {
            arguments.check(&keys, errors);
        }
        arguments
    }

    fn take(&mut self, key: &Ident, value: Value, keys: &mut Keys, errors: &mut Errors) {
        let value = match value {
            Value::Facade(path) => {
                self.facade = Some(path);
                return;
            }
            Value::Flag => parse_quote!(true),
            Value::Given(value) => value,
        };
        match key.to_string().as_str() {
            "cron" => {
                keys.triggers.push(key.clone());
                let cron = errors
                    .keep(text(value, |text| Pattern::parse(text).map(drop)))
                    .map(Trigger::Cron);
                self.trigger = self.trigger.take().or(cron);
            }
            "every" => {
                keys.triggers.push(key.clone());
                let every = errors.keep(checked_period(value, check_every));
                self.trigger = self.trigger.take().or(every.map(Trigger::Every));
            }
            "fixed_delay" => {
                keys.triggers.push(key.clone());
                let delay = errors.keep(checked_period(value, check_fixed_delay));
                self.trigger = self.trigger.take().or(delay.map(Trigger::FixedDelay));
            }
            "zone" => {
                keys.zone = Some(key.clone());
                self.zone = errors.keep(text(value, zone::check));
            }
            "anchor" => {
                keys.anchor = Some(key.clone());
                self.anchor = errors.keep(anchor(value));
            }
            "jitter" => {
                let jitter = errors.keep(period(value));
                self.set(jitter.map(|jitter| Setting::Duration("jitter", jitter)));
            }
            "initial_delay" => {
                let delay = errors.keep(period(value));
                self.set(delay.map(|delay| Setting::Duration("initial_delay", delay)));
            }
            "run_at_start" => self.set(Some(Setting::RunAtStart(value))),
            "late" => {
                let late = errors.keep(late(value)).map(Setting::Late);
                self.set(late);
            }
            "overlap" => {
                let overlap = errors.keep(overlap(value)).map(Setting::Overlap);
                self.set(overlap);
            }
            "job" => self.job = errors.keep(job(&value)),
            _ if self.completion.take(key, &value, errors) => {}
            _ => errors.push(unknown_key(key, KEYS)),
        }
    }

    fn set(&mut self, setting: Option<Setting>) {
        self.settings.extend(setting);
    }

    /// Checks values that are valid separately but may not be valid together.
    fn check(&self, keys: &Keys, errors: &mut Errors) {
        match &keys.triggers[..] {
            [] => errors.add(
                Span::call_site(),
                format!("the job has no schedule: {TRIGGERS}"),
            ),
            [_] => {}
            [first, others @ ..] => {
                for other in others {
                    let message = format!("`{first}` is already set: a job has one schedule");
                    errors.add(other.span(), message);
                }
            }
        }
        let has = |trigger: &str| keys.triggers.iter().any(|key| key == trigger);
        if let Some(zone) = keys.zone.as_ref().filter(|_| !has("cron")) {
            errors.add(zone.span(), "`zone` needs `cron`");
        }
        if let Some(anchor) = keys.anchor.as_ref().filter(|_| !has("every")) {
            errors.add(anchor.span(), "`anchor` needs `every`");
        }
        let has_slots = !has("fixed_delay") || has("cron") || has("every");
        self.completion.check(has_slots, errors);
        let gap = match &self.trigger {
            Some(Trigger::Every(Period::Known(every, _))) => Some(*every),
            Some(Trigger::Cron(Text::Known(cron))) => Pattern::parse(&cron.value())
                .ok()
                .and_then(|pattern| pattern.shortest_gap()),
            _ => None,
        };
        if let Some(gap) = gap {
            for setting in &self.settings {
                match setting {
                    Setting::Duration("jitter", Period::Known(jitter, span)) if *jitter >= gap => {
                        errors.add(
                            *span,
                            format!(
                                "the jitter ({jitter:?}) reaches the next slot; make it shorter"
                            ),
                        );
                    }
                    _ => {}
                }
            }
        }
    }

    /// Generates the schedule, or an error: an expression of a type that `Job::new` accepts.
    pub(super) fn schedule(&self, scheduler: &TokenStream, private: &TokenStream) -> TokenStream {
        match &self.trigger {
            Some(Trigger::Cron(cron)) => {
                let cron = cron.to_tokens(private);
                let zone = self.zone.as_ref();
                let zone = zone.map_or_else(|| quote!("UTC"), |zone| zone.to_tokens(private));
                quote!(#scheduler::Schedule::cron_in(#cron, #zone))
            }
            Some(Trigger::Every(period)) => {
                let period = period.to_tokens(private);
                let anchor = self.anchor.as_ref();
                let anchor = anchor
                    .map(|at| quote!(.map(|__shedlock_grid| __shedlock_grid.anchored_at(#at))));
                quote!(#scheduler::Schedule::every(#period) #anchor)
            }
            Some(Trigger::FixedDelay(delay)) => {
                let delay = delay.to_tokens(private);
                quote!(#scheduler::Schedule::fixed_delay(#delay))
            }
            // Missing or invalid, and already reported. This only keeps the rest compiling.
            None => quote!(#scheduler::Schedule::every("1h")),
        }
    }

    /// Generates the calls that apply the other settings to the job.
    pub(super) fn set_on(
        &self,
        job: TokenStream,
        scheduler: &TokenStream,
        private: &TokenStream,
    ) -> TokenStream {
        let set = |job, setting: &Setting| match setting {
            Setting::Duration(setter, period) => {
                let setter = Ident::new(setter, Span::mixed_site());
                let period = period.to_tokens(private);
                quote!(#job.#setter(#period))
            }
            Setting::RunAtStart(wanted) => quote!(#private::job::run_at_start(#job, #wanted)),
            Setting::Late(late) => {
                let policy = late.to_tokens(scheduler, private);
                quote!(#job.late(#policy))
            }
            Setting::Overlap(Overlap::Known(policy)) => {
                let policy = Ident::new(policy, Span::mixed_site());
                quote!(#job.overlap(#scheduler::Overlap::#policy))
            }
            Setting::Overlap(Overlap::Computed(policy)) => quote!(#job.overlap(#policy)),
        };
        self.settings.iter().fold(job, set)
    }
}

impl Late {
    fn to_tokens(&self, scheduler: &TokenStream, private: &TokenStream) -> TokenStream {
        match self {
            Self::Once => quote!(#scheduler::LatePolicy::Once),
            Self::Skip => quote!(#scheduler::LatePolicy::Skip),
            Self::Within(period) => {
                let period = period.to_tokens(private);
                quote!(#scheduler::LatePolicy::Within(#period))
            }
            Self::Computed(policy) => quote!(#policy),
        }
    }
}

/// The positions of keys that depend on each other.
#[derive(Default)]
struct Keys {
    triggers: Vec<Ident>,
    zone: Option<Ident>,
    anchor: Option<Ident>,
}

impl Text {
    fn to_tokens(&self, private: &TokenStream) -> TokenStream {
        match self {
            Self::Known(text) => quote!(#text),
            Self::Computed(text) => quote!(#private::AsRef::<str>::as_ref(&(#text))),
        }
    }
}

fn job(value: &Expr) -> syn::Result<Ident> {
    let name = match value {
        Expr::Path(path) => path.path.get_ident(),
        _ => None,
    };
    name.cloned().ok_or_else(|| {
        syn::Error::new_spanned(
            value,
            "`job` must be a name: `job = clean_job` creates `clean_job::job(…)`",
        )
    })
}

fn text(value: Expr, check: fn(&str) -> Result<(), String>) -> syn::Result<Text> {
    match literal(&value) {
        Some(Lit::Str(text)) => match check(&text.value()) {
            Ok(()) => Ok(Text::Known(text.clone())),
            Err(message) => Err(syn::Error::new(text.span(), message)),
        },
        Some(other) => Err(no_text(other)),
        None => Ok(Text::Computed(value)),
    }
}

fn checked_period(value: Expr, check: fn(Duration) -> Result<(), String>) -> syn::Result<Period> {
    let period = period(value)?;
    if let Period::Known(duration, span) = &period {
        check(*duration).map_err(|message| syn::Error::new(*span, message))?;
    }
    Ok(period)
}

fn anchor(value: Expr) -> syn::Result<Expr> {
    match literal(&value) {
        Some(Lit::Str(text)) => {
            let since = instant::parse(&text.value())
                .map_err(|message| syn::Error::new(text.span(), message))?;
            let (seconds, nanos) = (since.as_secs(), since.subsec_nanos());
            Ok(parse_quote! {
                ::std::time::UNIX_EPOCH + ::std::time::Duration::new(#seconds, #nanos)
            })
        }
        Some(other) => Err(no_text(other)),
        None => Ok(value),
    }
}

fn late(value: Expr) -> syn::Result<Late> {
    match literal(&value) {
        Some(Lit::Str(text)) => match text.value().as_str() {
            "once" => Ok(Late::Once),
            "skip" => Ok(Late::Skip),
            _ => match period(value.clone()) {
                Ok(period) => Ok(Late::Within(period)),
                Err(error) => Err(syn::Error::new(
                    value.span(),
                    format!("{error}; or \"once\" (run however late) or \"skip\""),
                )),
            },
        },
        Some(other) => Err(no_text(other)),
        None => Ok(Late::Computed(value)),
    }
}

fn overlap(value: Expr) -> syn::Result<Overlap> {
    match literal(&value) {
        Some(Lit::Str(text)) => match text.value().as_str() {
            "queue" => Ok(Overlap::Known("Queue")),
            "skip" => Ok(Overlap::Known("Skip")),
            other => Err(syn::Error::new(
                text.span(),
                format!("unknown overlap policy {other:?}: write \"queue\" or \"skip\""),
            )),
        },
        Some(other) => Err(no_text(other)),
        None => Ok(Overlap::Computed(value)),
    }
}

fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

fn no_text(value: &Lit) -> syn::Error {
    syn::Error::new(value.span(), "expected a string literal")
}

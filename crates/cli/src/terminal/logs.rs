//! The libraries' log as lines on stderr.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use shedlock_core::SETTINGS;

use super::line::Line;
use super::said;

/// Prints warnings, or more with each `-v`.
pub(super) fn listen(is_quiet: bool, verbosity: u8, has_findings: bool, remembers: bool) {
    let levels = match (is_quiet, verbosity) {
        // What a store's client logs is in the error, if it matters.
        (true, _) => Targets::new().with_target("shedlock", LevelFilter::ERROR),
        (false, 0) if has_findings => Targets::new()
            .with_target("shedlock", LevelFilter::ERROR)
            .with_target("shedlock_core", LevelFilter::WARN)
            // Not every store has a finding about that.
            .with_target("shedlock::settings::tls", LevelFilter::WARN),
        (false, 0) => Targets::new().with_target("shedlock", LevelFilter::WARN),
        // Events of the lock, but not every statement that is sent for it.
        (false, 1) => Targets::new()
            .with_default(LevelFilter::INFO)
            .with_target("shedlock_core", LevelFilter::DEBUG),
        (false, 2) => Targets::new().with_default(LevelFilter::DEBUG),
        (false, _) => Targets::new().with_default(LevelFilter::TRACE),
    };
    let subscriber = tracing_subscriber::registry().with(Lines { remembers }.with_filter(levels));
    // Set once, at the start of the program, so no other subscriber exists.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Turns each event into a line, with the fields of its spans.
#[derive(Debug)]
struct Lines {
    /// What was said about the settings of a store lately is left out.
    remembers: bool,
}

#[derive(Debug, Default)]
struct Fields(Map<String, Value>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        let spans = context.event_scope(event).into_iter();
        for span in spans.flat_map(tracing_subscriber::registry::Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.0.extend(of_span.0.clone());
            }
        }
        event.record(&mut fields);
        let message = match fields.0.remove("message") {
            Some(Value::String(message)) => message,
            _ => String::new(),
        };
        let about = event.metadata();
        let message = match self.remembers && about.target().starts_with(SETTINGS) {
            true if !said::is_new(&message) => return,
            true => format!("{message} {}", said::NOTE),
            false => message,
        };
        Line::with_fields(*about.level(), about.target(), &message, fields.0).write();
    }
}

impl Fields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}

//! Warnings that a call logs.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber as _;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// The future's output, with the text of what it has warned of, fields included: in the future itself,
/// not in tasks that it spawns.
pub(crate) async fn with_warnings<T>(future: impl Future<Output = T>) -> (T, String) {
    let warnings = Warnings::default();
    let dispatch = Dispatch::new(warnings.clone());
    let output = future.with_subscriber(dispatch).await;
    let said = warnings.0.lock().unwrap_or_else(PoisonError::into_inner);
    (output, said.clone())
}

#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<String>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        event.record(&mut Text(&mut said));
        said.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

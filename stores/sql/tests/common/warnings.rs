//! What is logged as a warning on this thread.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// Collects warnings until it is dropped.
pub(crate) struct Warnings {
    texts: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

impl Warnings {
    pub(crate) fn collect() -> Self {
        let texts = Arc::new(Mutex::new(Vec::new()));
        let collector = Collector(Arc::clone(&texts));
        Self {
            texts,
            _guard: tracing::subscriber::set_default(collector),
        }
    }

    /// Those with this text in them.
    pub(crate) fn with(&self, part: &str) -> Vec<String> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts
            .iter()
            .filter(|text| text.contains(part))
            .cloned()
            .collect()
    }
}

struct Collector(Arc<Mutex<Vec<String>>>);

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

//! Collects logged warnings.

use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber as _;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::wait::bounded;

/// While a process has one subscriber, `tracing` asks only the thread that first reaches a log line
/// whether the line is of interest. A thread without a subscriber would disable the line for all
/// threads. With a second subscriber that is never dropped, `tracing` asks both.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Collector::default()));

/// The warnings and errors that this thread logs until this is dropped.
#[derive(Debug)]
pub struct Warnings {
    collector: Collector,
    _guard: DefaultGuard,
}

impl Warnings {
    /// Starts collecting.
    pub fn collect() -> Self {
        LazyLock::force(&SECOND);
        let collector = Collector::default();
        Self {
            _guard: tracing::subscriber::set_default(collector.clone()),
            collector,
        }
    }

    /// Returns the entries that contain this text in their level, target, message or fields.
    pub fn with(&self, part: &str) -> Vec<String> {
        let texts = self.collector.texts();
        let with_it = texts.iter().filter(|text| text.contains(part));
        with_it.cloned().collect()
    }
}

/// Connects to each of these URLs, whose servers need not exist. Checks that the warning that TLS
/// does not verify the server is logged once (`true`) or not at all (`false`).
///
/// # Panics
/// If the number of warnings differs.
pub async fn warns_of_unverified<T>(urls: &[(&str, bool)], connect: impl AsyncFn(&str) -> T) {
    for (url, is_warned_of) in urls {
        let warnings = Warnings::collect();
        drop(bounded(Duration::from_secs(10), connect(url)).await);
        let logged = warnings.with("not verified by TLS");
        let times = usize::from(*is_warned_of);
        assert_eq!(logged.len(), times, "warnings for {url}: {logged:?}");
    }
}

/// Returns the future's output and the warnings logged by the future itself, not by tasks that it
/// spawns.
pub(crate) async fn with_warnings<T>(future: impl Future<Output = T>) -> (T, String) {
    LazyLock::force(&SECOND);
    let collector = Collector::default();
    let dispatch = Dispatch::new(collector.clone());
    let output = future.with_subscriber(dispatch).await;
    let logged = collector.texts().join("\n");
    (output, logged)
}

#[derive(Clone, Debug, Default)]
struct Collector(Arc<Mutex<Vec<String>>>);

impl Collector {
    fn texts(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        let metadata = event.metadata();
        let mut text = Text(format!("{} {}: ", metadata.level(), metadata.target()));
        event.record(&mut text);
        self.texts().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

#[cfg(test)]
mod tests {
    use super::Warnings;

    #[test]
    fn a_thread_without_a_subscriber_does_not_hide_a_warning_from_the_others() {
        let warnings = Warnings::collect();
        let warn = || tracing::warn!("seen by two threads");
        std::thread::spawn(warn).join().unwrap();
        warn();
        assert_eq!(warnings.with("seen by two").len(), 1);
    }
}

//! Tests which attributes the span of a run has.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use shedlock::MemoryProvider;
use shedlock_core::{Executor, LockConfig};
use shedlock_scheduler::{Job, JobRun, Schedule, Scheduler};
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

type Fields = BTreeMap<String, String>;

/// Keeps the fields of the last span of a run.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeMap<u64, Fields>>>);

struct Into<'a>(&'a mut Fields);

impl Visit for Into<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "shedlock" {
            let mut fields = Fields::new();
            attributes.record(&mut Into(&mut fields));
            self.0.lock().unwrap().insert(id.into_u64(), fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        if let Some(fields) = spans.get_mut(&id.into_u64()) {
            values.record(&mut Into(fields));
        }
    }
}

/// The fields of the span in which a job's first run was, and the run.
fn fields_of_run(schedule: Schedule, is_asked_for: bool) -> (Fields, JobRun) {
    let spans = Spans::default();
    // While there is one subscriber, a thread without it can disable a log line for all threads.
    let _second = tracing::Dispatch::new(Registry::default());
    let _logging = tracing::subscriber::set_default(Registry::default().with(spans.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (sender, mut runs) = mpsc::unbounded_channel();
        let config = LockConfig::new("job").lock_at_most_for("10m");
        let job = Job::new(config, schedule, move |run| {
            let _ = sender.send((tracing::Span::current().id(), run));
            async { Ok::<_, String>(()) }
        });
        let executor = Executor::new(Arc::new(MemoryProvider::new()));
        let handle = Scheduler::new(executor).job(job).start().unwrap();
        if is_asked_for {
            handle.run_now("job").await.unwrap();
        }
        let (id, run) = runs.recv().await.unwrap();
        let spans = spans.0.lock().unwrap();
        (spans[&id.unwrap().into_u64()].clone(), run)
    })
}

#[test]
fn a_run_has_the_attributes_of_opentelemetry() {
    let (fields, run) = fields_of_run(Schedule::cron("* * * * * *").unwrap(), false);
    let of = |field: &str| fields.get(field).map(String::as_str);
    assert_eq!(of("lock"), Some("job"));
    assert_eq!(of("job.system"), Some("shedlock"));
    assert_eq!(of("faas.trigger"), Some("timer"));
    assert_eq!(of("faas.cron"), Some("* * * * * *"));
    assert_eq!(of("faas.time"), Some(&*run.slot().unwrap().to_string()));
    assert_eq!(of("slot"), of("faas.time"));
}

#[test]
fn jobs_without_slots_or_cron_have_what_applies() {
    let (fields, _) = fields_of_run(Schedule::fixed_delay("1ms").unwrap(), false);
    assert_eq!(fields["faas.trigger"], "timer");
    assert!(!fields.contains_key("faas.cron") && !fields.contains_key("faas.time"));
    let (fields, _) = fields_of_run(Schedule::cron("0 0 1 1 *").unwrap(), true);
    assert_eq!(fields["job.system"], "shedlock");
    assert!(!fields.contains_key("faas.trigger"), "no timer started it");
}

//! `shedlock metrics`: the state of all jobs, for Prometheus.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use shedlock::{Error, ErrorKind, JobMetrics, JobMetricsText, LockProvider, scheduler};

use crate::args::MetricsArgs;
use crate::exit::{Failure, INTERNAL, STORE};
use crate::store::Store;
use crate::terminal::Terminal;

/// Prints the metrics. A store that cannot be read is reported like the others.
pub(crate) async fn metrics(args: &MetricsArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let text = match Store::open_existing(&args.store, terminal).await {
        Ok(store) => {
            let text = of(store.provider()).read().await;
            if let Some(error) = text.error() {
                terminal.error(&format!("{error:#}"));
            } else if !text.has_journal() {
                terminal.notice(&why_no_jobs(&store, args.store.option()));
            }
            text
        }
        Err(failure) if failure.number() == STORE => {
            terminal.error(failure.message());
            JobMetricsText::unreachable(Error::new(ErrorKind::Unavailable, failure.message()))
        }
        Err(failure) => return Err(failure),
    };
    match &args.textfile {
        None => terminal.print(text.as_str())?,
        Some(file) => replace(file, text.as_str()).map_err(|error| {
            let file = file.display();
            Failure::new(
                INTERNAL,
                format!("cannot write {file}: {error}; check its folder"),
            )
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What reads the metrics of this store.
pub(crate) fn of(provider: &Arc<dyn LockProvider>) -> JobMetrics {
    JobMetrics::new(provider.clone()).schedules(scheduler::next_slot)
}

fn why_no_jobs(store: &Store, option: &str) -> String {
    let provider = store.provider();
    if provider.journal().is_none() {
        let kind = provider.store();
        return format!("no job is reported: a store of kind {kind} cannot keep a journal yet");
    }
    format!(
        "no job is reported: no journal in {}; to create one, run `shedlock migrate \
         --journal{option}`",
        store.place()
    )
}

/// Replaces a file in one step. The collector reads only names that end with `.prom`.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut new = file.to_owned().into_os_string();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    let replaced = fs::write(&new, text).and_then(|()| fs::rename(&new, file));
    if replaced.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&new);
    }
    replaced
}

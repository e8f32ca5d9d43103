//! The functions that can be a job.
#![deny(warnings)]
#![deny(missing_docs)]

use std::sync::Arc;
use std::time::Duration;

use shedlock::scheduler::{Job, JobRun, LatePolicy, Overlap, Schedule};
use shedlock::{scheduled, scheduler_lock};

/// Documented.
#[scheduled(cron = "0 */10 * * * *", zone = "Asia/Seoul")]
#[scheduler_lock(name = "plain", lock_at_most_for = "9m")]
pub async fn plain() {}

/// The other order.
#[scheduler_lock(name = "swapped", lock_at_most_for = "9m", keep_alive)]
#[scheduled(every = "10m", anchor = "2027-01-16T09:00:00+09:00", jitter = "1m")]
async fn swapped() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Ok(())
}

#[scheduled(
    fixed_delay = "10s",
    initial_delay = "1m",
    run_at_start,
    late = "skip",
    overlap = "skip"
)]
#[scheduler_lock(name = "blocking", lock_at_most_for = "9m", max_run_time = "1m", lock_wait = "5s")]
fn blocking(run: JobRun) -> Result<(), shedlock::Error> {
    let _ = run.slot();
    Ok(())
}

/// All forms of an argument.
#[shedlock::scheduled(cron = "@daily")]
#[shedlock::scheduler_lock(name = "mails-{tenant}-{count:03}", lock_at_most_for = "9m")]
#[tracing::instrument(skip_all)]
#[allow(unused_variables)]
#[must_use]
pub(crate) async fn arguments(
    tenant: String,
    mut count: u32,
    run: shedlock::scheduler::JobRun,
    pool: Arc<Vec<u8>>,
    fixed: &'static str,
) -> anyhow_like::Result<()> {
    count += 1;
    let _ = (tenant, count, run, fixed);
    drop(pool);
    Ok(())
}

mod anyhow_like {
    pub(crate) type Result<T> = std::result::Result<T, shedlock::Error>;
}

/// Only the name uses the argument.
#[scheduled(every = "1h")]
#[scheduler_lock(name = "only-{tenant}", lock_at_most_for = "9m")]
async fn only_the_name(tenant: String) {}

#[scheduled(every = "1h")]
#[scheduler_lock(name = format!("only-{shard}"), lock_at_most_for = "9m")]
fn only_the_computed_name(shard: u8) {}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "mailer-{mailer}", lock_at_most_for = "9m")]
async fn mailer(mailer: String) {
    drop(mailer);
}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "run", lock_at_most_for = "9m")]
fn run(run: JobRun) {
    let _ = run.slot();
}

/// Arguments that some builds do not have.
#[scheduled(every = "1h")]
#[scheduler_lock(name = "conditional-{tenant}", lock_at_most_for = "9m")]
async fn conditional(
    #[cfg(any())] pool: NoSuchPool,
    #[cfg(not(any()))] pool: Arc<u8>,
    #[cfg(all())] tenant: String,
    #[cfg_attr(all(), allow(unused_variables))] metrics: u8,
    #[expect(unused_variables)] expected: u8,
    #[cfg(any())] run: JobRun,
) {
    drop(pool);
}

#[deprecated]
#[scheduled(every = "1h")]
#[scheduler_lock(name = "deprecated", lock_at_most_for = "9m")]
async fn deprecated() {}

const CRON: &str = "0 2 * * *";

fn zone() -> String {
    "Europe/Berlin".to_owned()
}

#[scheduled(
    cron = CRON,
    zone = zone(),
    jitter = Duration::from_secs(1),
    initial_delay = "1s".to_owned(),
    run_at_start = cfg!(debug_assertions),
    late = LatePolicy::Within(Duration::from_secs(60)),
    overlap = Overlap::Skip,
)]
#[scheduler_lock(name = format!("computed-{}", 1), lock_at_most_for = Duration::from_secs(60))]
async fn computed() {}

#[scheduled(every = "1h", late = "4h", overlap = "queue")]
#[scheduler_lock(name = "job", lock_at_most_for = "9m")]
async fn job() {}

#[scheduled(every = "1h", late = "once")]
#[scheduler_lock(name = "raw", lock_at_most_for = "9m")]
async fn r#loop() {}

#[scheduled(every = "1h", must_not_be_lost)]
#[scheduler_lock(name = "kept", lock_at_most_for = "9m")]
async fn kept() {}

const ATTEMPTS: u32 = 3;

#[scheduled(
    cron = "0 2 * * *",
    must_not_be_lost = cfg!(debug_assertions),
    max_attempts = ATTEMPTS,
    backoff = "1m",
    max_backoff = Duration::from_secs(3_600),
)]
#[scheduler_lock(name = "kept-blocking", lock_at_most_for = "9m", keep_alive)]
fn kept_blocking(run: JobRun) -> Result<(), shedlock::Error> {
    let _ = run.slot_attempt();
    Ok(())
}

#[scheduled(every = "1h", must_not_be_lost, max_attempts = 1, backoff = "0s")]
#[scheduler_lock(name = "kept-once", lock_at_most_for = "9m")]
fn kept_once() {}

/// In a module whose names shadow everything.
mod shadow {
    #[allow(unused)]
    mod shedlock {}
    #[allow(unused)]
    struct Option;
    #[allow(unused)]
    struct Clone;

    #[::shedlock::scheduled(every = "1h")]
    #[::shedlock::scheduler_lock(name = "shadow", lock_at_most_for = "9m")]
    pub(super) async fn shadowed(text: String) {
        drop(text);
    }
}

mod tidy {
    pub(crate) fn everything() {}
}

#[scheduled(every = "1h", job = tidy_job)]
#[scheduler_lock(name = "tidy", lock_at_most_for = "50m")]
fn tidy() {
    tidy::everything();
}

fn main() {
    #[scheduled(every = "1h")]
    #[scheduler_lock(name = "local", lock_at_most_for = "9m")]
    async fn local() {}

    let jobs: Vec<Job> = vec![
        plain::job(),
        swapped::job(),
        blocking::job(),
        arguments::job("acme".to_owned(), 7, Arc::default(), "fixed"),
        only_the_name::job("acme".to_owned()),
        only_the_computed_name::job(3),
        computed::job(),
        job::job(),
        r#loop::job(),
        shadow::shadowed::job(String::new()),
        local::job(),
        kept::job(),
        kept_blocking::job(),
        kept_once::job(),
        tidy_job::job(),
        mailer::job("a".to_owned()),
        run::job(),
        conditional::job(Arc::new(1), "acme".to_owned(), 1, 1),
        deprecated::job(),
    ];
    let names: Vec<&str> = jobs.iter().map(Job::name).collect();
    assert_eq!(
        names,
        [
            "plain", "swapped", "blocking", "mails-acme-007", "only-acme", "only-3", "computed-1", "job", "raw", "shadow",
            "local", "kept", "kept-blocking", "kept-once", "tidy", "mailer-a", "run", "conditional-acme", "deprecated"
        ]
    );
    let shown = format!("{:?}", jobs[1]);
    assert!(shown.contains(&format!("{:?}", Schedule::every("10m").unwrap())), "{shown}");
    let _ = (plain, swapped, local);
}

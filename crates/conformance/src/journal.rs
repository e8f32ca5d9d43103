//! Checks that a journal keeps what the runtime gives it.

mod elsewhere;
mod jobs;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{
    Actor, AuditRecord, AuditRequest, JOURNAL_VERSION, JobChange, JobRecord, Journal, JournalEntry,
    Retention, RunEnd, RunOutcome, RunRecord, RunsRequest, Slot,
};

/// The identity of a store of locks.
const LOCK_STORE: &str = "db-1/4711/5f0c9b1d7e3a4c28";

const SECOND: Duration = Duration::from_secs(1);

/// Checks a journal that does not exist yet: creates it, fills it, reads and prunes it.
///
/// # Panics
/// If the journal does anything else than [`Journal`] promises.
pub async fn check(journal: Arc<dyn Journal>) {
    let journal = &*journal;
    created(journal).await;
    runs(journal).await;
    late_and_repeated(journal).await;
    elsewhere::check(journal).await;
    of_two_processes(journal).await;
    jobs::check(journal).await;
    texts(journal).await;
    audit(journal).await;
    pruned(journal).await;
    forgotten(journal).await;
}

/// Checks that replicas can share a journal: they register the same job and record its runs at the same time, and none
/// undoes what another one recorded.
///
/// # Panics
/// If one of them fails, or something is missing afterwards.
pub async fn contended(journals: &[Arc<dyn Journal>]) {
    const TASKS: u64 = 8;
    const RUNS: u64 = 20;
    let _ = journals[0]
        .migrate()
        .await
        .expect("this user may create it");
    let tasks: Vec<_> = (0..TASKS)
        .zip(journals.iter().cycle())
        .map(|(task, journal)| {
            let journal = Arc::clone(journal);
            tokio::spawn(async move {
                let mut change = JobChange::new("kit-shared");
                change.schedule = Some("every 1s".to_owned());
                record(&*journal, &[JournalEntry::Job(change)]).await;
                for number in 0..RUNS {
                    let owner = format!("host/{task}/{number:016x}");
                    let second = number * TASKS + task;
                    let open = RunRecord::new("kit-shared", "kit-shared", owner, at(second));
                    let ended = ended(&open, 1, RunOutcome::Succeeded, None);
                    record(&*journal, &[entry(&open)]).await;
                    record(&*journal, &[entry(&ended)]).await;
                    let job = journal.job("kit-shared").await.expect("it is there");
                    let succeeded = job.and_then(|job| job.last_succeeded);
                    assert!(succeeded >= Some(at(second + 1)), "another one undid it");
                    let retention = Retention::default();
                    let pruned = journal.prune("kit-none", &retention).await;
                    pruned.expect("the journal is there");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no replica fails");
    }
    let job = journals[0].job("kit-shared").await.expect("it is there");
    let job = job.expect("it was registered");
    assert_eq!(job.last_succeeded, Some(at(TASKS * RUNS)));
    assert_eq!(job.schedule.as_deref(), Some("every 1s"));
}

/// Checks that a journal does not grow without bounds: many runs leave at most those that are kept, in all that can be
/// read. There are 3,000 runs, and `full` in a full run (`SHEDLOCK_TEST_FULL`).
///
/// # Panics
/// If more is left, or something that should have been kept is missing.
pub async fn retained(journal: Arc<dyn Journal>, full: u64) {
    const KEPT: usize = 50;
    const BATCH: usize = 64;
    let is_full = std::env::var_os("SHEDLOCK_TEST_FULL").is_some_and(|value| !value.is_empty());
    let count = if is_full { full } else { 3_000 };
    let journal = &*journal;
    let _ = journal.migrate().await.expect("this user may create it");
    let mut retention = Retention::default();
    retention.runs_per_job = KEPT;
    retention.max_age = SECOND * 1_000_000_000;
    let name = |number: u64| format!("kit-{}", number % 3);
    let runs: Vec<_> = (0..count)
        .map(|number| {
            let owner = format!("host/3/{number:016x}");
            let run = RunRecord::new("kit-{n}", name(number), owner, at(number));
            // Some never end.
            match number % 10 {
                0 => run,
                _ => ended(&run, 1, RunOutcome::Succeeded, None),
            }
        })
        .collect();
    for batch in runs.chunks(BATCH) {
        record(journal, &batch.iter().map(entry).collect::<Vec<_>>()).await;
        let pruned = journal.prune("kit-{n}", &retention).await;
        pruned.expect("the journal is there");
    }
    let latest: Vec<_> = runs.iter().rev().take(KEPT).cloned().collect();
    let all = |request: RunsRequest| request.with_limit(10_000);
    let of_job = RunsRequest::new().with_job("kit-{n}");
    assert_eq!(list(journal, &all(of_job)).await, latest);
    assert_eq!(list(journal, &all(RunsRequest::new())).await, latest);
    let open = list(journal, &all(RunsRequest::new().open_only())).await;
    assert_eq!(open.len(), KEPT / 10);
    for number in 0..3 {
        let of_name = RunsRequest::new().with_name(name(number));
        let expected = latest.iter().filter(|run| run.name == name(number));
        let found = list(journal, &all(of_name)).await;
        assert_eq!(found, expected.cloned().collect::<Vec<_>>());
    }
}

async fn record(journal: &dyn Journal, entries: &[JournalEntry]) {
    journal.record(entries).await.expect("the journal is there");
}

/// An entry of a run without a deadline.
fn entry(run: &RunRecord) -> JournalEntry {
    JournalEntry::run(run.clone(), None)
}

/// The instant this many seconds after a whole second of the year 2026, in the past.
fn at(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_000_000 + second)
}

fn run(job: &str, second: u64) -> RunRecord {
    let mut run = RunRecord::new(job, job, format!("host/1/{second:016x}"), at(second));
    run.lock_at_most_for = Some(SECOND * 60);
    run.lock_store = Some(LOCK_STORE.to_owned());
    run
}

fn ended(run: &RunRecord, seconds: u64, outcome: RunOutcome, error: Option<&str>) -> RunRecord {
    let mut run = run.clone();
    run.end = Some(RunEnd::new(
        SECOND * u32::try_from(seconds).expect("small"),
        outcome,
        error.map(str::to_owned),
    ));
    run
}

fn slot(second: u64) -> Slot {
    Slot::at(at(second)).expect("it is in the calendar")
}

async fn known(journal: &dyn Journal, job: &str) -> JobRecord {
    let job = journal.job(job).await.expect("it can be read");
    job.expect("it is there")
}

async fn list(journal: &dyn Journal, request: &RunsRequest) -> Vec<RunRecord> {
    journal.runs(request).await.expect("the journal is there")
}

async fn created(journal: &dyn Journal) {
    let found = journal.version().await;
    let found = found.expect("a missing journal is no error");
    let identity = async || {
        journal
            .identity()
            .await
            .expect("a missing journal is no error")
    };
    assert_eq!(identity().await.is_some(), found.is_some());
    let plan = journal.plan_migration().await.expect("it changes nothing");
    let still = journal.version().await.expect("it changes nothing");
    assert_eq!(still, found, "a plan changes nothing");
    let migration = journal.migrate().await.expect("this user may create it");
    assert_eq!(found.is_none(), !migration.changes.is_empty());
    assert_eq!(plan.is_empty(), migration.changes.is_empty(), "{plan:?}");
    let plan = journal.plan_migration().await.expect("it exists");
    assert_eq!(plan, []);
    let before = identity().await;
    let again = journal.migrate().await.expect("it exists");
    assert_eq!(again.changes, [] as [String; 0]);
    assert_eq!(identity().await, before);
    let version = journal.version().await.expect("it exists");
    assert_eq!(version, Some(JOURNAL_VERSION));
    let given = identity().await.expect("migrate gives it one");
    assert!(given.len() >= 16, "{given:?}");
}

async fn runs(journal: &dyn Journal) {
    let mut first = run("kit-a", 1);
    first.slot = Slot::at(at(0)).ok();
    first.attempt = Some(2);
    first.fencing_token = Some(7);
    record(journal, &[entry(&first)]).await;
    let of_job = RunsRequest::new().with_job("kit-a");
    let open = of_job.clone().open_only();
    assert_eq!(list(journal, &open).await, std::slice::from_ref(&first));
    let first = ended(&first, 3, RunOutcome::Failed, Some("no mail\nno route"));
    let mut second = run("kit-a", 10);
    second.slot = Slot::at(at(9)).ok();
    let second = ended(&second, 2, RunOutcome::Succeeded, None);
    record(journal, &[entry(&first), entry(&second)]).await;
    assert_eq!(
        list(journal, &of_job).await,
        [second.clone(), first.clone()]
    );
    assert_eq!(list(journal, &open).await, []);
    let failed = of_job.clone().with_outcome(RunOutcome::Failed);
    assert_eq!(list(journal, &failed).await, std::slice::from_ref(&first));
    let since = of_job.clone().with_since(at(10));
    assert_eq!(list(journal, &since).await, std::slice::from_ref(&second));
    let page = of_job.clone().with_limit(1);
    assert_eq!(list(journal, &page).await, std::slice::from_ref(&second));
    let page = page.with_before(second.id);
    assert_eq!(list(journal, &page).await, std::slice::from_ref(&first));
    let by_name = RunsRequest::new().with_name("kit-a").with_before(first.id);
    assert_eq!(list(journal, &by_name).await, []);
    let job = journal.job("kit-a").await.expect("it is there");
    let job = job.expect("its runs were recorded");
    let last = job.last_run.as_ref().expect("its runs were recorded");
    assert_eq!((last.started, &*last.owner), (at(10), &*second.owner));
    assert_eq!(last.lock_store.as_deref(), Some(LOCK_STORE));
    assert_eq!(
        (&*last.name, last.outcome),
        ("kit-a", Some(RunOutcome::Succeeded))
    );
    assert_eq!(last.lock_at_most_for, Some(SECOND * 60));
    assert_eq!(last.slot, second.slot);
    assert_eq!(job.last_failed, Some(at(4)));
    assert_eq!(job.last_error.as_deref(), Some("no mail"));
    assert_eq!(job.last_succeeded, Some(at(12)));
    assert_eq!(job.last_duration, Some(SECOND * 2));
    assert_eq!((job.deadline, job.schedule), (None, None));
}

/// Entries that arrive twice, or after later ones, change nothing that later ones said.
async fn late_and_repeated(journal: &dyn Journal) {
    let (early, late) = (run("kit-late", 1), run("kit-late", 20));
    let early_end = ended(&early, 1, RunOutcome::Failed, Some("early"));
    let late_end = ended(&late, 1, RunOutcome::Succeeded, None);
    let entries = [
        entry(&late),
        entry(&late_end),
        entry(&early),
        entry(&early_end),
    ];
    for _ in 0..2 {
        record(journal, &entries).await;
    }
    let of_job = RunsRequest::new().with_job("kit-late");
    assert_eq!(
        list(journal, &of_job).await,
        [late_end.clone(), early_end.clone()]
    );
    let job = journal.job("kit-late").await.expect("it is there");
    let job = job.expect("its runs were recorded");
    let last = job.last_run.expect("its runs were recorded");
    assert_eq!(
        (last.started, last.outcome),
        (at(20), Some(RunOutcome::Succeeded))
    );
    assert_eq!(
        (job.last_succeeded, job.last_failed),
        (Some(at(21)), Some(at(2)))
    );
    // The unlock found that the lease had ended; nothing replaces that.
    let lost = ended(&late, 5, RunOutcome::Lost, Some("lost"));
    record(journal, &[entry(&lost), entry(&late_end)]).await;
    assert_eq!(list(journal, &of_job).await, [lost, early_end.clone()]);
    // Another end stays.
    let lost = ended(&early, 5, RunOutcome::Lost, Some("lost"));
    record(journal, &[entry(&lost)]).await;
    assert_eq!(list(journal, &of_job).await[1], early_end);
    let job = journal.job("kit-late").await.expect("it is there");
    let last = job.and_then(|job| job.last_run);
    assert_eq!(last.and_then(|it| it.outcome), Some(RunOutcome::Lost));
}

/// Two processes can record one run, and its start differs where the store does not report it.
async fn of_two_processes(journal: &dyn Journal) {
    let open = run("kit-two", 30);
    let mut late = RunRecord::new("kit-two", "kit-two", &*open.owner, at(31));
    late.lock_at_most_for = open.lock_at_most_for;
    late.lock_store.clone_from(&open.lock_store);
    let end = ended(&late, 4, RunOutcome::Failed, Some("killed"));
    record(journal, &[entry(&open), entry(&end)]).await;
    record(journal, &[entry(&late), entry(&open)]).await;
    let found = list(journal, &RunsRequest::new().with_job("kit-two")).await;
    let expected = ended(&open, 4, RunOutcome::Failed, Some("killed"));
    assert_eq!(found, [expected]);
    assert_eq!(list(journal, &RunsRequest::new().open_only()).await, []);
    let job = journal.job("kit-two").await.expect("it is there");
    let last = job.and_then(|job| job.last_run);
    assert_eq!(last.and_then(|it| it.outcome), Some(RunOutcome::Failed));
    // A run of the same owner under another lock is another one.
    let mut other = RunRecord::new("kit-two", "kit-other", &*open.owner, at(30));
    other.lock_at_most_for = Some(SECOND);
    record(journal, &[entry(&other)]).await;
    let found = list(journal, &RunsRequest::new().with_job("kit-two")).await;
    assert_eq!(found.len(), 2);
    // Several runs can start at the same instant. Pages contain each of them once.
    let page = RunsRequest::new().with_job("kit-two").with_limit(1);
    let first = list(journal, &page).await.remove(0);
    let second = list(journal, &page.clone().with_before(first.id.clone()))
        .await
        .remove(0);
    assert_eq!([first.clone(), second.clone()], *found);
    assert_eq!(list(journal, &page.with_before(second.id)).await, []);
}

/// Texts of any content and length.
async fn texts(journal: &dyn Journal) {
    let long = "ä".repeat(3_000);
    for (number, text) in ["it's \\ \"quoted\"; --", "👩‍🚀 \u{202e}x", "a\0b", &long]
        .into_iter()
        .enumerate()
    {
        let job = format!("kit-text {text}");
        let second = 400 + u64::try_from(number).expect("small");
        let failed = ended(&run(&job, second), 1, RunOutcome::Failed, Some(text));
        record(journal, &[entry(&failed)]).await;
        let found = list(journal, &RunsRequest::new().with_job(&job)).await;
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(found[0].id, failed.id);
        let kept = found[0].end.as_ref().and_then(|end| end.error.as_deref());
        assert!(kept.is_some_and(|kept| text.starts_with(kept)), "{kept:?}");
        let kept = journal.job(&job).await.expect("it is there");
        assert!(kept.is_some(), "{text}");
        assert!(journal.forget(&job).await.expect("it is there"));
    }
}

async fn audit(journal: &dyn Journal) {
    let actors = [
        Actor::Claimed("root".to_owned()),
        Actor::Authenticated("ann@example.org".to_owned()),
    ];
    let records: Vec<_> = actors
        .into_iter()
        .zip(1_u64..)
        .map(|(actor, second)| {
            let mut record = AuditRecord::new(at(second), second, actor, "pause", "kit-a");
            record.detail = "until 2026-06-01T00:00:00Z".to_owned();
            record.reason = (second == 2).then(|| "a migration".to_owned());
            record.until = (second == 2).then(|| at(9_000));
            record.lock_store = (second == 2).then(|| LOCK_STORE.to_owned());
            record
        })
        .collect();
    let entries: Vec<_> = records.iter().cloned().map(JournalEntry::Audit).collect();
    for _ in 0..2 {
        record(journal, &entries).await;
    }
    let request = AuditRequest::new().with_name("kit-a").with_limit(1);
    let latest = journal.audit(&request).await.expect("it is there");
    assert_eq!(latest, [records[1].clone()]);
    let request = request.with_before(records[1].id.clone());
    let first = journal.audit(&request).await.expect("it is there");
    assert_eq!(first, [records[0].clone()]);
    let none = AuditRequest::new().with_name("kit-b");
    assert_eq!(journal.audit(&none).await.expect("it is there"), []);
}

async fn pruned(journal: &dyn Journal) {
    // Records of an hour ago by the clock of this host, which is that of the test's servers.
    let soon = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let runs: Vec<_> = (0..20_u64)
        .map(|number| {
            let owner = format!("host/2/{number:016x}");
            RunRecord::new(
                "kit-prune",
                "kit-prune",
                owner,
                soon + SECOND * u32::try_from(number).expect("small"),
            )
        })
        .collect();
    record(journal, &runs.iter().map(entry).collect::<Vec<_>>()).await;
    let mut retention = Retention::default();
    retention.runs_per_job = 5;
    retention.max_age = Duration::from_secs(3_600);
    let removed = journal
        .prune("kit-prune", &retention)
        .await
        .expect("it is there");
    assert!(removed >= 15, "{removed}");
    let left = list(journal, &RunsRequest::new().with_job("kit-prune")).await;
    assert_eq!(left.len(), 5);
    assert_eq!(left[0], runs[19]);
    // The others are months old by the journal's clock.
    let old = list(journal, &RunsRequest::new().with_job("kit-a")).await;
    assert_eq!(old, []);
    // What is known about a job outlives its runs.
    let job = journal.job("kit-a").await.expect("it is there");
    assert_eq!(job.and_then(|job| job.last_succeeded), Some(at(12)));
}

async fn forgotten(journal: &dyn Journal) {
    assert!(journal.forget("kit-prune").await.expect("it is there"));
    assert!(!journal.forget("kit-prune").await.expect("it is there"));
    let left = list(journal, &RunsRequest::new().with_job("kit-prune")).await;
    assert_eq!(left, []);
}

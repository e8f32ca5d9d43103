//! The journal: what `run` writes into it, and `shedlock jobs` and `history`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock::{
    AuditRecord, AuditRequest, Clock, Error, JobRecord, JobRegistration, Journal, JournalEntry,
    JournalSettings, JournalWriter, LockName, RunOutcome, RunRecord, RunsRequest, SystemClock,
    missed_slots, scheduler,
};
use shedlock_core::within;
use shedlock_journal::view::{
    all_jobs, current_jobs, missing_journal, next_slot, run_by_shedlock, run_states, store_now,
    taken_locks,
};

use crate::args::{HistoryArgs, JobsArgs, RunArgs};
use crate::audit::{Action, Trail};
use crate::exit::{ABSENT, Failure};
use crate::list::all_locks;
use crate::output::{self, visible};
use crate::spool::{KeptRun, Spool};
use crate::store::{JournalPlace, Store};
use crate::terminal::Terminal;
use crate::words;

/// How long a command that has ended waits for the journal.
pub(crate) const FLUSH: Duration = Duration::from_secs(2);

/// The largest page of runs.
const PAGE: usize = 1_000;

/// The writer for a `run`, if its store can keep a journal. If there is none beside the locks, it does
/// nothing; in a store of its own there must be one.
pub(crate) fn writer(store: &Store, args: &RunArgs) -> Option<JournalWriter> {
    let settings = JournalSettings::new().errors(args.journal_errors.into());
    let settings = match store.has_own_journal() {
        true => settings.absent(why_none(&store.journal_place())),
        false => settings.optional(),
    };
    Some(JournalWriter::with_settings(store.journal()?, settings))
}

/// The job of a `run` with a schedule, whose leases have this length.
pub(crate) fn registration(args: &RunArgs, at_most: Duration) -> Option<JobRegistration> {
    let schedule = args.schedule().ok()??;
    let longest = at_most.max(args.max_run_time.unwrap_or_default());
    let registration = schedule.registration(&args.name);
    let registration = registration.lock_at_most_for(at_most);
    Some(registration.allowance(longest + super::run::tolerance(args)))
}

/// Waits until the end of the run is written. If it cannot be, it is kept for a later `shedlock`.
pub(crate) async fn flush(writer: Option<&JournalWriter>, args: &RunArgs, terminal: Terminal) {
    let Some(writer) = writer else { return };
    let name = &args.name;
    if writer.flush(FLUSH).await == 0 {
        let journal = &**writer.journal();
        let more = async {
            deliver(journal).await;
            warn_of_missing_schedule(journal, args, terminal).await;
        };
        let _ = within(&SystemClock, FLUSH, more).await;
        return;
    }
    let within = format!("within {}", output::duration(FLUSH));
    keep_unwritten(writer, name, &within, terminal);
}

/// Keeps what is not written for a later `shedlock`. It could not be written `until` then: the rest of a sentence.
pub(crate) fn keep_unwritten(writer: &JournalWriter, name: &str, until: &str, terminal: Terminal) {
    let (journal, ends) = writer.take_unwritten().unwrap_or_default();
    let ends = ends.iter().filter_map(|entry| match entry {
        JournalEntry::Run { run, next } => Some(KeptRun::of(run, *next)),
        _ => None,
    });
    let ends: Vec<_> = ends.collect();
    let fate = keep(&journal, &ends);
    terminal.notice(&format!(
        "{name}: could not write to the journal {until}: {fate}"
    ));
}

/// Waits until a slot that ShedLock took is recorded as such, if this attempt found one.
pub(crate) async fn flush_elsewhere(writer: &JournalWriter, name: &str, terminal: Terminal) {
    if writer.flush(FLUSH).await > 0 {
        terminal.notice(&format!(
            "{name}: could not write to the journal within {}: that ShedLock took the slot is not recorded, so the job may \
             be reported as overdue",
            output::duration(FLUSH)
        ));
    }
}

/// Warns of a run without a slot of a job that has a schedule, unless a person has started it: if the schedule is missing on
/// one host only, the job runs there in addition.
async fn warn_of_missing_schedule(journal: &dyn Journal, args: &RunArgs, terminal: Terminal) {
    let has_schedule = args.schedule().is_ok_and(|schedule| schedule.is_some());
    if has_schedule || terminal.is_read_by_a_person() {
        return;
    }
    let Ok(Some(job)) = journal.job(&args.name).await else {
        return;
    };
    // Another scheduler that registers when it expects a run has no slots.
    let has_slots = scheduler::next_slot(&job, SystemClock.system_time()).is_some();
    if let (true, Some(schedule), Some(by)) = (has_slots, &job.schedule, &job.registered_by) {
        terminal.warning(&format!(
            "{}: this run has no schedule, and {by} has registered the job with {schedule:?}: a run without a slot comes in \
             addition to those of the schedule; unless it was started by hand, give this command the same --schedule",
            args.name
        ));
    }
}

/// Keeps these ends of runs for the journal with this identity. Returns what becomes of them, for the user.
pub(crate) fn keep(journal: &str, ends: &[KeptRun]) -> String {
    let lost = "the end of this run is not recorded";
    match Spool::of_user() {
        // The journal was never reached, or there is none.
        _ if ends.is_empty() || journal.is_empty() => lost.to_owned(),
        None => format!("{lost}: neither HOME nor XDG_STATE_HOME is set"),
        Some(spool) => match spool.keep(journal, ends) {
            Ok(()) => format!(
                "the end of this run is kept in {}, and the next `shedlock` of this user on this host \
                 that reaches the journal records it",
                spool.folder().display()
            ),
            Err(error) => format!(
                "{lost}: cannot keep it in {}: {error}",
                spool.folder().display()
            ),
        },
    }
}

/// Delivers what earlier runs of this user could not write. A user who may only read delivers nothing.
pub(crate) async fn deliver(journal: &dyn Journal) {
    if let Some(spool) = Spool::of_user() {
        spool.deliver(journal).await;
    }
}

/// Prints the jobs.
pub(crate) async fn jobs(args: &JobsArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&args.store, terminal).await?;
    let journal = required(&store.journal_place()).await?;
    if let Some(job) = &args.forget {
        return forget(args, job, &store, journal, terminal).await;
    }
    if let Some((job, elsewhere)) = args.watched() {
        return watch(args, job, elsewhere, &store, journal, terminal).await;
    }
    let mut jobs = all_jobs(&*journal).await?;
    let is_wanted = |job: &JobRecord| args.filter.iter().any(|filter| filter.matches(&job.job));
    let none = match jobs.is_empty() {
        true => "no jobs",
        false => "no job matches",
    };
    jobs.retain(|job| args.filter.is_empty() || is_wanted(job));
    let known: BTreeSet<String> = jobs.iter().map(|job| job.job.clone()).collect();
    let is_empty = jobs.is_empty();
    print_jobs(args, &store, &*journal, jobs, none, terminal).await?;
    // All locks are read only if there is nothing else to show.
    for lock in all_locks(&store, !is_empty).await? {
        let name = lock.name.as_str();
        let is_wanted = args.filter.is_empty() || args.filter.iter().any(|it| it.matches(name));
        let is_new = is_wanted && !known.contains(name);
        if let Some(by) = run_by_shedlock(&lock).filter(|_| is_new) {
            terminal.notice(&format!("{}: {by}", visible(name)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn print_jobs(
    args: &JobsArgs,
    store: &Store,
    journal: &dyn Journal,
    jobs: Vec<JobRecord>,
    none: &str,
    terminal: Terminal,
) -> Result<(), Failure> {
    let width = args.width.or_else(|| terminal.width());
    let provider = &**store.provider();
    let now = store_now(provider, SystemClock.system_time()).await?;
    let next = |job: &JobRecord, after| next_slot(job, after, scheduler::next_slot);
    let locks = taken_locks(provider).await?;
    let mut found = Vec::new();
    for current in current_jobs(provider, journal, jobs, &locks, now, next).await? {
        let missed = missed_slots(journal, &current.job, now, scheduler::next_slot).await?;
        found.push((current, missed));
    }
    let kind = store.journal_place().kind;
    let text = output::jobs(&kind, &found, now, none, width, args.output.format);
    terminal.print(&text)
}

/// Removes a job and its runs, and prints the job. Without `--yes` it only prints it.
async fn forget(
    args: &JobsArgs,
    name: &str,
    store: &Store,
    journal: Arc<dyn Journal>,
    terminal: Terminal,
) -> Result<ExitCode, Failure> {
    let name = LockName::new(name)?;
    let job = known(&name, "removed", store, &*journal).await?;
    print_jobs(args, store, &*journal, vec![job], "no jobs", terminal).await?;
    if !args.yes {
        terminal.notice(
            "would remove this job and its runs: nothing was changed; to remove them, add --yes",
        );
        return Ok(ExitCode::SUCCESS);
    }
    journal.forget(name.as_str()).await?;
    terminal.notice("removed this job and its runs");
    let action = Action {
        what: AuditRecord::FORGET,
        name: &name,
        detail: "the job and its runs".to_owned(),
        reason: "",
        until: None,
    };
    Trail::of(store, terminal).record(action).await;
    Ok(ExitCode::SUCCESS)
}

/// The job with this name, or why nothing was done to it.
async fn known(
    name: &LockName,
    done: &str,
    store: &Store,
    journal: &dyn Journal,
) -> Result<JobRecord, Failure> {
    journal.job(name.as_str()).await?.ok_or_else(|| {
        Failure::new(
            ABSENT,
            format!(
                "{}: not {done}: there is no such job in the journal of {}; to see all, run \
                 `shedlock jobs{}`",
                visible(name.as_str()),
                store.journal_place().place,
                words::store_option()
            ),
        )
    })
}

/// Records whether Java watches the outcome of its runs of a job, and prints the job.
async fn watch(
    args: &JobsArgs,
    name: &str,
    elsewhere: bool,
    store: &Store,
    journal: Arc<dyn Journal>,
    terminal: Terminal,
) -> Result<ExitCode, Failure> {
    let name = LockName::new(name)?;
    let mut job = known(&name, "changed", store, &*journal).await?;
    let entry = JournalEntry::Watched {
        job: job.job.clone(),
        elsewhere,
    };
    journal.record(&[entry]).await?;
    job.is_watched_elsewhere = elsewhere;
    print_jobs(args, store, &*journal, vec![job], "no jobs", terminal).await?;
    let (what, detail) = match elsewhere {
        true => ("watch", "Java watches the outcome of its runs"),
        false => ("unwatch", "Java does not watch the outcome of its runs"),
    };
    let action = Action {
        what,
        name: &name,
        detail: detail.to_owned(),
        reason: "",
        until: None,
    };
    Trail::of(store, terminal).record(action).await;
    Ok(ExitCode::SUCCESS)
}

/// Prints the runs of a job, and what operators did to its lock.
pub(crate) async fn history(args: &HistoryArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&args.store, terminal).await?;
    let place = store.journal_place();
    let journal = required(&place).await?;
    let of_job = RunsRequest::new().with_job(&args.name);
    let mut runs = matching(&*journal, &of_job, args).await?;
    if runs.is_empty() {
        let of_name = RunsRequest::new().with_name(&args.name);
        runs = matching(&*journal, &of_name, args).await?;
    }
    let actions = actions(&*journal, &runs, args).await?;
    let provider = &**store.provider();
    let now = store_now(provider, SystemClock.system_time()).await?;
    let rows = run_states(provider, runs, now).await?;
    let width = args.width.or_else(|| terminal.width());
    let kind = store.provider().store();
    let text = output::history(kind, &rows, &actions, width, args.output.format);
    terminal.print(&text)?;
    if rows.is_empty() && actions.is_empty() {
        let nothing = nothing(&*journal, args, &place.place).await?;
        // No lock has the name of a template.
        let lock = match LockName::new(&args.name) {
            Ok(name) => provider.inspect(&name).await?,
            Err(_) => None,
        };
        let by = lock.as_ref().and_then(run_by_shedlock);
        terminal.error(&match by {
            Some(by) => format!("{}: {by}: {nothing}", visible(&args.name)),
            None => nothing,
        });
        return Ok(ExitCode::from(ABSENT));
    }
    Ok(ExitCode::SUCCESS)
}

/// Why nothing was printed: the options select nothing, or there is nothing.
async fn nothing(
    journal: &dyn Journal,
    args: &HistoryArgs,
    place: &str,
) -> Result<String, Failure> {
    let (name, option) = (&args.name, words::store_option());
    let one = |request: RunsRequest| request.with_limit(1);
    let of_job = journal
        .runs(&one(RunsRequest::new().with_job(name)))
        .await?;
    let of_name = journal
        .runs(&one(RunsRequest::new().with_name(name)))
        .await?;
    let audit = AuditRequest::new().with_name(name).with_limit(1);
    let actions = journal.audit(&audit).await?;
    let selected = match (args.failed, args.since) {
        (true, None) => "that failed".to_owned(),
        (true, Some(since)) => format!("that failed since {since}"),
        (false, Some(since)) => format!("since {since}"),
        (false, None) => String::new(),
    };
    let is_known = !(of_job.is_empty() && of_name.is_empty() && actions.is_empty());
    Ok(if is_known {
        let word = output::shell_word(name);
        format!(
            "no run of {name:?} {selected} in the journal of {place}; to see its other runs, run \
             `shedlock history {word}{option}`"
        )
    } else {
        format!(
            "no run of {name:?} in the journal of {place}; to see all jobs, run `shedlock \
             jobs{option}`"
        )
    })
}

/// The latest runs that the options select.
async fn matching(
    journal: &dyn Journal,
    request: &RunsRequest,
    args: &HistoryArgs,
) -> Result<Vec<RunRecord>, Failure> {
    let limit = usize::try_from(args.limit).unwrap_or(PAGE);
    let mut request = request.clone().with_limit(limit.min(PAGE));
    if let Some(since) = args.since {
        request = request.with_since(since.into());
    }
    let mut runs = Vec::new();
    while runs.len() < limit {
        let page = journal.runs(&request).await?;
        let Some(last) = page.last() else { break };
        request = request.with_before(last.id.clone());
        let is_doubtful = |run: &RunRecord| {
            let outcome = run.end.as_ref().map(|end| end.outcome);
            outcome.is_none_or(|it| it.is_failure() || it == RunOutcome::MaybeOverlapped)
        };
        runs.extend(
            page.into_iter()
                .filter(|run| !args.failed || is_doubtful(run)),
        );
    }
    runs.truncate(limit);
    Ok(runs)
}

/// What operators did to the lock in the time of these runs, the latest first.
async fn actions(
    journal: &dyn Journal,
    runs: &[RunRecord],
    args: &HistoryArgs,
) -> Result<Vec<AuditRecord>, Failure> {
    if args.failed {
        return Ok(Vec::new());
    }
    let limit = usize::try_from(args.limit).unwrap_or(PAGE);
    let request = AuditRequest::new().with_name(&args.name);
    let mut actions = journal.audit(&request.with_limit(limit)).await?;
    // Earlier runs are not shown either.
    let first_run = runs.last().filter(|_| runs.len() == limit);
    let first_run = first_run.map(|run| run.started);
    let since = args.since.map(SystemTime::from).max(first_run);
    actions.retain(|action| since.is_none_or(|since| action.at >= since));
    Ok(actions)
}

/// The journal of the store, if it has one.
pub(crate) async fn if_any(store: &Store) -> Result<Option<Arc<dyn Journal>>, Failure> {
    Ok(existing(store.journal()).await?)
}

pub(crate) async fn existing(
    journal: Option<Arc<dyn Journal>>,
) -> Result<Option<Arc<dyn Journal>>, Error> {
    let Some(journal) = journal else {
        return Ok(None);
    };
    Ok(journal.version().await?.is_some().then_some(journal))
}

/// The journal in this place.
pub(crate) async fn required(place: &JournalPlace) -> Result<Arc<dyn Journal>, Failure> {
    let found = existing(place.journal.clone()).await?;
    let found = found.ok_or_else(|| Failure::new(ABSENT, why_none(place)))?;
    deliver(&*found).await;
    Ok(found)
}

/// Why there is no journal, and what to do.
pub(crate) fn why_none(
    JournalPlace {
        journal,
        kind,
        place,
    }: &JournalPlace,
) -> String {
    missing_journal(journal.is_some(), kind, place)
}

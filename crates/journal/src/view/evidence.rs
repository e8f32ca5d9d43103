//! What the journal contains and the locks have lost, and what replicas have registered differently.

use std::time::{Duration, SystemTime};

use super::{elsewhere_in_words, open_end, second};
use crate::registered::registered;
use crate::states::LostState;
use shedlock_core::{Finding, JobRecord, Operation, Owner};

const LOST: &str = "lost-state";
const DRIFT: &str = "registrations";

const UNVERIFIED: &str = "unverified";

/// Names in a message.
const FEW: usize = 5;

/// For how long a registration that another host has replaced is taken for one that is still in use.
const RECENT: Duration = Duration::from_secs(2 * 86_400);

/// What the locks have lost. `is_elsewhere`: the journal is not beside the locks, and may be that of other locks too.
pub(super) fn lost_state(lost: &LostState, is_elsewhere: bool, now: SystemTime) -> Finding {
    if lost.is_empty() && lost.store.is_none() {
        return Finding::warning(
            LOST,
            "this lock store has no identity, so that slots and pauses that it loses cannot be restored from the journal",
            format!("run {}, which gives it one", Operation::Migrate),
        );
    }
    if lost.is_empty() {
        return Finding::ok(LOST, "the locks have the slots and pauses of the journal");
    }
    // Records of this very store are missed for sure.
    let is_certain = |store: &Option<String>| store.is_some() && *store == lost.store;
    let is_certain = lost.slots.iter().any(|it| is_certain(&it.store))
        || lost
            .pauses
            .iter()
            .any(|it| is_certain(&it.action.lock_store));
    let other = match (&lost.store, lost.others.first()) {
        (None, Some(other)) => format!(
            "; this store has no identity, so its records are new, and those of the journal are of lock store \
             {other}"
        ),
        _ if is_elsewhere && !is_certain => {
            ", unless the journal is that of other locks too".to_owned()
        }
        _ => String::new(),
    };
    Finding::warning(
        LOST,
        format!(
            "the journal has what the locks have lost: {}{other}",
            what(lost, now)
        ),
        format!(
            "records were deleted, flushed or restored from a backup, or a host still uses a former primary; {} prints what \
             can be put back, and does it with --yes",
            Operation::Restore
        ),
    )
}

/// The slots and pauses, in words.
pub fn what(lost: &LostState, now: SystemTime) -> String {
    let slots = lost.slots.iter();
    let slots = slots.map(|lost| format!("the last slot of {} ({})", lost.name, lost.slot));
    let pauses = lost.pauses.iter().map(|pause| {
        let end = open_end(pause.until, Some(now));
        let end = end.map_or_else(|| second(pause.until), str::to_owned);
        let (name, actor) = (&pause.action.name, &pause.action.actor);
        format!("the pause of {name} by {actor} (until {end})")
    });
    few(slots.chain(pauses).collect())
}

pub(super) fn few(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(FEW);
    all.truncate(FEW);
    let more = match more {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("{}{more}", all.join(", "))
}

/// The registrations of a job in which two hosts differ, in words. `None` if they do not, or if the other one has not
/// been seen for two days.
pub fn drift(job: &JobRecord, now: SystemTime) -> Option<String> {
    let other = job.replaced.as_ref()?;
    let of_other = registered(
        other.schedule.as_deref(),
        other.zone.as_deref(),
        other.lock_at_most_for,
    );
    let of_last = registered(
        job.schedule.as_deref(),
        job.zone.as_deref(),
        job.lock_at_most_for,
    );
    if of_last == of_other {
        return None;
    }
    // A host that still runs the job has not been changed.
    let last = job.last_run.as_ref();
    let by_other = last.filter(|run| Owner::host_of(&run.owner) == Some(&*other.by));
    let seen = by_other.map_or(other.at, |run| run.started.max(other.at));
    if now.duration_since(seen).is_ok_and(|age| age > RECENT) {
        return None;
    }
    let by = job.registered_by.as_deref().unwrap_or("another host");
    Some(format!(
        "{by} has registered {} as {of_last}, and {} as {of_other} until {}",
        job.job,
        other.by,
        second(other.at)
    ))
}

/// The jobs that two hosts have registered differently.
pub(super) fn drift_finding(jobs: &[JobRecord], now: SystemTime) -> Finding {
    let drifts: Vec<String> = jobs.iter().filter_map(|job| drift(job, now)).collect();
    if drifts.is_empty() {
        return Finding::ok(DRIFT, "no job that two hosts have registered differently");
    }
    Finding::warning(
        DRIFT,
        few(drifts),
        "each host runs the job at its own slots: give all of them the same schedule, zone and lease; after a change \
         on purpose, this ends when the other host has registered it too, or after two days",
    )
}

/// The jobs that ShedLock for Java runs, so that no one is known to look at their outcome.
pub(super) fn unverified_finding(jobs: &[JobRecord]) -> Finding {
    let unverified = jobs.iter().filter(|job| job.lacks_outcomes());
    let unverified =
        unverified.filter_map(|job| Some(format!("{}: {}", job.job, elsewhere_in_words(job)?)));
    let unverified: Vec<String> = unverified.collect();
    if unverified.is_empty() {
        return Finding::ok(
            UNVERIFIED,
            "no job whose last three slots have no known outcome",
        );
    }
    Finding::warning(
        UNVERIFIED,
        few(unverified),
        format!(
            "the journal has no runs of Java's, so a job that fails there looks the same; check it there; if Java alerts \
             on its failures, run {}",
            Operation::WatchJava
        ),
    )
}

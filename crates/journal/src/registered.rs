//! What a registration changes in a journal, and whether hosts differ.

use std::time::{Duration, SystemTime};

use shedlock_core::{JobChange, JobRecord, JobRegistration, ReplacedRegistration, Slot, host};
use shedlock_support::text;

/// Returns what is recorded for this job if `known` is what the journal knows about it.
pub(crate) fn change(
    job: &JobRegistration,
    known: Option<&JobRecord>,
    now: SystemTime,
) -> JobChange {
    let same = known.filter(|known| {
        known.schedule.as_deref() == Some(&*job.schedule) && known.zone == job.zone
    });
    // Deploying a job that fails again and again must not move its deadline.
    let registered = same.map_or(now, |known| known.registered);
    let succeeded = same.and_then(|known| known.last_succeeded);
    let done = job.done.map(Slot::instant);
    let base = done.max(succeeded).unwrap_or(registered);
    let mut change = JobChange::new(&*job.job);
    change.schedule = Some(job.schedule.clone());
    change.zone.clone_from(&job.zone);
    change.lock_at_most_for = job.lock_at_most_for;
    change.by = Some(host().to_owned());
    change.replaced = known.and_then(|known| replaced(job, known, now));
    change.next = job.next_after(base);
    change
}

/// Returns whether this is what the journal knows about the job.
fn is_known_as(job: &JobRegistration, known: &JobRecord) -> bool {
    known.schedule.as_deref() == Some(&*job.schedule)
        && known.zone == job.zone
        && known.lock_at_most_for == job.lock_at_most_for
}

/// Warns if the journal has another schedule, zone or lease: replicas that differ run a job at the slots of each.
pub(crate) fn warn_of_drift(job: &JobRegistration, known: &JobRecord) {
    if known.schedule.is_none() || is_known_as(job, known) {
        return;
    }
    let theirs = registered(
        known.schedule.as_deref(),
        known.zone.as_deref(),
        known.lock_at_most_for,
    );
    let ours = registered(
        Some(&job.schedule),
        job.zone.as_deref(),
        job.lock_at_most_for,
    );
    let by = known.registered_by.as_deref().unwrap_or("another replica");
    tracing::warn!(
        "{}: {by} has registered {theirs}, and {} registers {ours}: unless it was changed on purpose, give all \
         replicas the same schedule, zone and lease",
        job.job,
        host()
    );
}

/// Returns what another host has registered, if that differs from this registration. A host that changes its own
/// registration has been given a new one, and no longer has the old one.
fn replaced(
    job: &JobRegistration,
    known: &JobRecord,
    now: SystemTime,
) -> Option<ReplacedRegistration> {
    let by = known.registered_by.as_deref()?;
    if is_known_as(job, known) || by == host() {
        let earlier = known.replaced.clone();
        return earlier.filter(|earlier| earlier.by != host());
    }
    let mut replaced = ReplacedRegistration::new(by, now);
    replaced.schedule.clone_from(&known.schedule);
    replaced.zone.clone_from(&known.zone);
    replaced.lock_at_most_for = known.lock_at_most_for;
    Some(replaced)
}

/// Returns what was registered, in words.
pub(crate) fn registered(
    schedule: Option<&str>,
    zone: Option<&str>,
    at_most: Option<Duration>,
) -> String {
    let schedule = schedule.map_or_else(|| "no schedule".to_owned(), |it| format!("{it:?}"));
    let zone = zone.map_or_else(String::new, |zone| format!(" {zone}"));
    let at_most = at_most.map(text::duration);
    let at_most = at_most.map_or_else(String::new, |it| format!(" with a lease of {it}"));
    format!("{schedule}{zone}{at_most}")
}

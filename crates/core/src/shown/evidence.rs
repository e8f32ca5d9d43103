//! What the journal contains and the locks have lost: a table was dropped, a cache flushed, a backup restored.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::{all_jobs, second};
use crate::{
    AuditRecord, AuditRequest, Error, Finding, Journal, ListRequest, LockProvider, LockRecord,
    LockState, Slot,
};

const CHECK: &str = "lost-state";
const PAGE: usize = 1_000;

/// Names in a message.
const FEW: usize = 5;

/// Compares the slots and pauses of the journal with those of the locks. `is_elsewhere`: the journal is not beside the
/// locks, and may be that of other locks too.
///
/// # Errors
/// Those of the store and the journal.
pub async fn lost_state(
    provider: &dyn LockProvider,
    journal: &dyn Journal,
    is_elsewhere: bool,
    now: SystemTime,
) -> Result<Finding, Error> {
    if journal.version().await?.is_none() {
        return Ok(Finding::ok(CHECK, "no journal to compare the locks with"));
    }
    let locks = locks_of(provider).await?;
    let actions = latest_actions(journal).await?;
    let mut lost = Vec::new();
    for job in all_jobs(journal).await? {
        let Some((run, slot)) = job.last_run.as_ref().and_then(|run| Some((run, run.slot?))) else {
            continue;
        };
        // An operator has set the slot, or removed the record.
        let is_meant = |action: &AuditRecord| {
            action.at >= run.started && ["slot-reset", "prune"].contains(&&*action.action)
        };
        let has_lost = !locks
            .get(&run.name)
            .is_some_and(|lock| remembers(lock, slot));
        if provider.capabilities().slots
            && has_lost
            && !actions.get(&run.name).is_some_and(is_meant)
        {
            lost.push(format!("the last slot of {} ({slot})", run.name));
        }
    }
    for (name, action) in &actions {
        let until = action.until.filter(|until| *until > now);
        let is_paused = |lock: &LockRecord| lock.state == LockState::Paused;
        if let (Some(until), false) = (until, locks.get(name).is_some_and(is_paused)) {
            let end = super::open_end(until, Some(now));
            let end = end.map_or_else(|| second(until), str::to_owned);
            lost.push(format!(
                "the pause of {name} by {} (until {end})",
                action.actor
            ));
        }
    }
    if lost.is_empty() {
        return Ok(Finding::ok(
            CHECK,
            "the locks have the slots and pauses of the journal",
        ));
    }
    let more = lost.len().saturating_sub(FEW);
    lost.truncate(FEW);
    let more = match more {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let other = match is_elsewhere {
        true => ", unless the journal is that of other locks too",
        false => "",
    };
    Ok(Finding::warning(
        CHECK,
        format!(
            "the journal has what the locks have lost: {}{more}{other}",
            lost.join(", ")
        ),
        "records were deleted, flushed or restored from a backup; before the next start of these jobs, pause \
         those that must not run again",
    ))
}

/// Whether a record accounts for this slot. One that was given back leaves the instant before it.
fn remembers(lock: &LockRecord, slot: Slot) -> bool {
    let before = slot.instant() - Duration::from_micros(1);
    let last = lock.last_slot.max(lock.skipped_slots.map(|it| it.until));
    last.is_some_and(|last| last.instant() >= before)
}

async fn locks_of(provider: &dyn LockProvider) -> Result<BTreeMap<String, LockRecord>, Error> {
    let mut locks = BTreeMap::new();
    let mut request = ListRequest::new().with_limit(PAGE);
    loop {
        let page = provider.list(&request).await?;
        let last = page.last().map(|lock| lock.name.clone());
        let is_last = page.len() < PAGE;
        locks.extend(page.into_iter().map(|it| (it.name.as_str().to_owned(), it)));
        match last {
            Some(last) if !is_last => request = request.with_after(last),
            _ => return Ok(locks),
        }
    }
}

/// What operators did last to each lock.
async fn latest_actions(journal: &dyn Journal) -> Result<BTreeMap<String, AuditRecord>, Error> {
    let mut actions = BTreeMap::new();
    let mut request = AuditRequest::new().with_limit(PAGE);
    loop {
        let page = journal.audit(&request).await?;
        let last = page.last().map(|action| action.id.clone());
        let is_last = page.len() < PAGE;
        for action in page {
            actions.entry(action.name.clone()).or_insert(action);
        }
        match last {
            Some(last) if !is_last => request = request.with_before(last),
            _ => return Ok(actions),
        }
    }
}

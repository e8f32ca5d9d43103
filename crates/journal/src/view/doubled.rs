//! Slots that had two runs.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::evidence::few;
use super::second;
use shedlock_core::{
    AuditRequest, Error, Finding, Journal, Operation, RunOutcome, RunRecord, RunsRequest, Slot,
};

const CHECK: &str = "slots-run-twice";

/// Earlier runs are not compared.
const WINDOW: Duration = Duration::from_secs(86_400);

/// The most runs that are compared, the latest first.
const RUNS: usize = 10_000;

/// The runs of a page.
const PAGE: usize = 1_000;

/// The coarsest unit in which stores keep the start of a run.
const UNIT: Duration = Duration::from_secs(1);

/// The operators' actions after which a slot may run again.
const AGAIN: [&str; 3] = ["slot-reset", "restore", "run-now"];

/// The slots of the last day that had two runs: one attempt twice, or two attempts at the same time. The lock was taken
/// from its holder, or the store has lost it.
pub(super) async fn doubled_finding(
    journal: &dyn Journal,
    now: SystemTime,
) -> Result<Finding, Error> {
    let runs = latest_runs(journal, now).await?;
    let mut slots: BTreeMap<(&str, Slot), Vec<&RunRecord>> = BTreeMap::new();
    for run in runs.iter().filter(|run| !run.is_elsewhere()) {
        if let Some(slot) = run.slot {
            slots.entry((&run.name, slot)).or_default().push(run);
        }
    }
    let mut doubled = Vec::new();
    for ((name, slot), mut runs) in slots {
        runs.sort_by_key(|run| run.started);
        let pairs = runs.windows(2).map(|pair| (pair[0], pair[1]));
        let twice = pairs.filter(|(first, second)| {
            first.attempt == second.attempt || overlap(first, second, now)
        });
        for (first, again) in twice {
            if is_wanted(journal, first, again).await? {
                continue;
            }
            doubled.push(format!(
                "slot {slot} of {name} ran at {} by {} and at {} by {}",
                second(first.started),
                first.owner,
                second(again.started),
                again.owner
            ));
        }
    }
    if doubled.is_empty() {
        return Ok(Finding::ok(
            CHECK,
            "no slot of the last 24 hours had two runs",
        ));
    }
    Ok(Finding::warning(
        CHECK,
        few(doubled),
        format!(
            "a lock was freed by force or paused with --now while its task ran, or the store has lost it (a failover, a \
             restored backup, a dropped table); {} has the runs and what operators did; check what the task has done twice",
            Operation::History
        ),
    ))
}

async fn latest_runs(journal: &dyn Journal, now: SystemTime) -> Result<Vec<RunRecord>, Error> {
    let since = now.checked_sub(WINDOW).unwrap_or(now);
    let mut request = RunsRequest::new().with_since(since).with_limit(PAGE);
    let mut runs: Vec<RunRecord> = Vec::new();
    while runs.len() < RUNS {
        let page = journal.runs(&request).await?;
        let Some(last) = page.last() else { break };
        request = request.with_before(last.id.clone());
        let is_last = page.len() < PAGE;
        runs.extend(page);
        if is_last {
            break;
        }
    }
    Ok(runs)
}

/// Whether the second run began before the first one had ended.
fn overlap(first: &RunRecord, second: &RunRecord, now: SystemTime) -> bool {
    let ended = match &first.end {
        Some(end) => first.started.checked_add(end.ran_for),
        // Its lease is the longest that it can have run unnoticed.
        None => {
            let lasts = first.lock_at_most_for.unwrap_or_default();
            first.started.checked_add(lasts).map(|end| end.min(now))
        }
    };
    // If the unlock found the lock gone, the units of the store need not be allowed for.
    let outcome = first.end.as_ref().map(|end| end.outcome);
    let unit = match outcome.is_some_and(RunOutcome::corrects_success) {
        true => Duration::ZERO,
        false => UNIT,
    };
    ended.is_some_and(|ended| second.started + unit < ended)
}

/// Whether an operator has made the slot run again.
async fn is_wanted(
    journal: &dyn Journal,
    first: &RunRecord,
    again: &RunRecord,
) -> Result<bool, Error> {
    const ACTIONS: usize = 100;
    let request = AuditRequest::new().with_name(&first.name);
    let actions = journal.audit(&request.with_limit(ACTIONS)).await?;
    Ok(actions.iter().any(|action| {
        let is_between = first.started <= action.at && action.at <= again.started;
        is_between && AGAIN.contains(&&*action.action)
    }))
}

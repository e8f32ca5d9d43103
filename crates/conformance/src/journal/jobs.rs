//! What registrations and ends of runs say about a job.

use shedlock_core::{
    JobChange, JobRecord, JobsRequest, Journal, JournalEntry, ReplacedRegistration, RunOutcome,
    Slot,
};

use super::{SECOND, at, ended, entry, known, record, run, slot};

const JOB: &str = "kit-job";

pub(super) async fn check(journal: &dyn Journal) {
    let first = registered(journal).await;
    replaced(journal).await;
    moved(journal, &first).await;
    rescheduled(journal, &first).await;
}

/// A registration with this schedule, whose next slot is that of this second.
fn change(schedule: &str, next: u64) -> JobChange {
    let mut change = JobChange::new(JOB);
    change.schedule = Some(schedule.to_owned());
    change.zone = Some("Europe/Berlin".to_owned());
    change.lock_at_most_for = Some(SECOND * 90);
    change.by = Some("web-1".to_owned());
    change.next = Some((slot(next), at(next + 30)));
    change
}

async fn register(journal: &dyn Journal, change: JobChange) {
    record(journal, &[JournalEntry::Job(change)]).await;
}

async fn registered(journal: &dyn Journal) -> JobRecord {
    register(journal, change("0 4 * * *", 100)).await;
    let first = known(journal, JOB).await;
    assert_eq!(first.schedule.as_deref(), Some("0 4 * * *"));
    assert_eq!(first.zone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(first.lock_at_most_for, Some(SECOND * 90));
    assert_eq!(first.next_slot, Slot::at(at(100)).ok());
    assert_eq!(first.deadline, Some(at(130)));
    assert_eq!(first.last_run, None);
    assert_eq!(first.registered_by.as_deref(), Some("web-1"));
    assert_eq!(first.replaced, None);
    first
}

/// Another host has another schedule.
async fn replaced(journal: &dyn Journal) {
    let mut other = ReplacedRegistration::new("web-2", at(90));
    other.schedule = Some("$0 5 * * *".to_owned());
    other.zone = Some("Asia/Seoul".to_owned());
    other.lock_at_most_for = Some(SECOND * 20);
    for replaced in [
        Some(other),
        Some(ReplacedRegistration::new("web-3", at(91))),
        None,
    ] {
        let mut differs = change("0 4 * * *", 100);
        differs.replaced.clone_from(&replaced);
        register(journal, differs).await;
        assert_eq!(known(journal, JOB).await.replaced, replaced);
    }
}

/// Only later slots of the same schedule, and successes, move the deadline.
async fn moved(journal: &dyn Journal, first: &JobRecord) {
    register(journal, change("0 4 * * *", 50)).await;
    assert_eq!(known(journal, JOB).await, *first);
    register(journal, change("0 4 * * *", 200)).await;
    let later = known(journal, JOB).await;
    assert_eq!(later.deadline, Some(at(230)));
    assert_eq!(later.registered, first.registered);
    let failed = ended(&run(JOB, 205), 1, RunOutcome::Failed, None);
    record(journal, &[entry(&failed)]).await;
    assert_eq!(known(journal, JOB).await.deadline, Some(at(230)));
    let succeeded = ended(&run(JOB, 210), 1, RunOutcome::Succeeded, None);
    let next = Some((slot(300), at(330)));
    record(journal, &[JournalEntry::run(succeeded, next)]).await;
    let later = known(journal, JOB).await;
    assert_eq!(later.deadline, Some(at(330)));
    assert_eq!(later.next_slot, Some(slot(300)));
}

/// Another schedule counts from its registration.
async fn rescheduled(journal: &dyn Journal, first: &JobRecord) {
    register(journal, change("0 5 * * *", 150)).await;
    let changed = known(journal, JOB).await;
    assert_eq!(changed.deadline, Some(at(180)));
    assert!(changed.registered >= first.registered);
    assert_eq!(changed.last_succeeded, Some(at(211)));
    let page = JobsRequest::new().with_after("kit-a").with_limit(1);
    let page = journal.jobs(&page).await.expect("it is there");
    assert_eq!(page, [changed]);
}

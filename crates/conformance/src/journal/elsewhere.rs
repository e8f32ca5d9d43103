//! A slot that ShedLock took is no run of ours: it moves the deadline, and counts until an outcome is known.

use shedlock_core::{
    AttemptRequest, JobRecord, Journal, JournalEntry, LockName, Owner, RunOutcome, RunRecord,
    RunsRequest, Skip, SkipReason,
};

use super::{LOCK_STORE, SECOND, at, ended, entry, known, list, record, run, slot};

const JOB: &str = "kit-taken";

pub(super) async fn check(journal: &dyn Journal) {
    // A job that is not known stays unknown.
    record(journal, &[watched(true)]).await;
    assert_eq!(journal.job(JOB).await.expect("it can be read"), None);
    for _ in 0..2 {
        record(
            journal,
            &[taken(100, Some("web-2")), taken(160, Some("web-3"))],
        )
        .await;
        record(journal, &[taken(100, Some("web-2"))]).await;
    }
    let first = counted(journal).await;
    listed(journal).await;
    record(journal, &[watched(true)]).await;
    settled(journal, &first).await;
    taken_again(journal).await;
    record(journal, &[watched(false)]).await;
    assert!(!known(journal, JOB).await.is_watched_elsewhere);
}

/// The slot of this second, taken by this owner.
fn taken(of: u64, by: Option<&str>) -> JournalEntry {
    let name = LockName::new(JOB).expect("it is a name");
    let request = AttemptRequest::new(name, Owner::generate(), SECOND).with_slot(slot(of));
    let mut skip = Skip::new(SkipReason::SlotTaken).with_until(at(of + 5));
    skip.owner = by.map(str::to_owned);
    let mut run = RunRecord::elsewhere(&request, slot(of), &skip, at(of + 1));
    run.lock_store = Some(LOCK_STORE.to_owned());
    JournalEntry::run(run, Some((slot(of + 60), at(of + 90))))
}

fn watched(elsewhere: bool) -> JournalEntry {
    JournalEntry::Watched {
        job: JOB.to_owned(),
        elsewhere,
    }
}

/// Each slot counts once, however often it is recorded.
async fn counted(journal: &dyn Journal) -> JobRecord {
    let found = known(journal, JOB).await;
    let last = found.elsewhere.clone().expect("ShedLock took it");
    assert_eq!((last.slot, last.at, last.slots), (slot(160), at(161), 2));
    assert_eq!(last.by.as_deref(), Some("web-3"));
    assert_eq!(
        (found.next_slot, found.deadline),
        (Some(slot(220)), Some(at(250)))
    );
    assert_eq!(
        (&found.last_run, found.last_succeeded, found.last_failed),
        (&None, None, None)
    );
    assert!(!found.is_watched_elsewhere);
    found
}

/// Slots that ShedLock took are listed among the runs, and none of them is open.
async fn listed(journal: &dyn Journal) {
    let of_job = RunsRequest::new().with_job(JOB);
    let runs = list(journal, &of_job).await;
    let seen: Vec<_> = runs
        .iter()
        .map(|run| (run.slot, run.started, &*run.owner))
        .collect();
    assert_eq!(
        seen,
        [
            (Some(slot(160)), at(161), "web-3"),
            (Some(slot(100)), at(101), "web-2")
        ]
    );
    assert!(runs.iter().all(RunRecord::is_elsewhere), "{runs:?}");
    assert_eq!(runs[0].lock_at_most_for, Some(SECOND * 4));
    assert_eq!(list(journal, &of_job.open_only()).await, []);
}

/// An outcome of ours settles what ShedLock ran before it.
async fn settled(journal: &dyn Journal, first: &JobRecord) {
    // Neither an interrupted run nor one that started before is a known outcome of what ShedLock ran.
    let early = run(JOB, 150);
    let cut = run(JOB, 170);
    let ends = [
        entry(&ended(&early, 1, RunOutcome::Succeeded, None)),
        entry(&ended(&cut, 1, RunOutcome::Cancelled, None)),
    ];
    record(journal, &ends).await;
    assert_eq!(known(journal, JOB).await.elsewhere, first.elsewhere);
    let ours = run(JOB, 221);
    for _ in 0..2 {
        record(
            journal,
            &[entry(&ended(&ours, 1, RunOutcome::Failed, Some("no")))],
        )
        .await;
        assert_eq!(known(journal, JOB).await.elsewhere, None);
        // What arrives late was taken before it.
        record(journal, &[taken(160, Some("web-3"))]).await;
        assert_eq!(known(journal, JOB).await.elsewhere, None);
    }
}

/// A slot that ShedLock takes after that counts from one, and leaves the last run as it was.
async fn taken_again(journal: &dyn Journal) {
    record(journal, &[taken(280, None)]).await;
    let found = known(journal, JOB).await;
    let last = found.elsewhere.expect("ShedLock took it");
    assert_eq!((last.slot, last.by, last.slots), (slot(280), None, 1));
    let started = found.last_run.map(|run| run.started);
    assert_eq!((started, found.deadline), (Some(at(221)), Some(at(370))));
    assert!(found.is_watched_elsewhere, "only an operator changes it");
}

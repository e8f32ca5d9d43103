//! Mistakes about records as such: what is remembered of them, listed and removed.

use shedlock_core::{
    Attempt, AttemptRequest, Error, KeepReason, ListRequest, LockRecord, MigrationStep,
    PruneRequest, Pruned, Skip, SkipReason,
};

use super::about::{About, Known};
use super::site::Site;

/// A provider caches that a record exists.
pub(super) struct RemembersRecords;

impl Known for RemembersRecords {
    const ABOUT: About = About::new("remembers-records")
        .caught_by(&["law07_no_memory::a_record_deleted_after_unlock_heals"]);

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let is_there = site.inner.inspect(request.name()).await?.is_some();
        let is_known = !site.own.lock().names.insert(request.name().clone());
        if is_known && !is_there {
            return Ok(Attempt::Skipped(Skip::new(SkipReason::Contended)));
        }
        site.inner.attempt(request).await
    }
}

/// A failing store looks like a held lock.
pub(super) struct ErrorIsSkip;

impl Known for ErrorIsSkip {
    const ABOUT: About = About::new("error-is-skip")
        .violates(&["taken for too long"])
        .caught_by(&["law07_no_memory::a_failed_first_attempt_poisons_nothing"])
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let answer = site.inner.attempt(request).await;
        Ok(answer.unwrap_or_else(|_| Attempt::Skipped(Skip::new(SkipReason::Held))))
    }
}

/// A list ends after its first page.
pub(super) struct OnePage;

impl Known for OnePage {
    const ABOUT: About =
        About::new("one-page").caught_by(&["operators::list_pages_in_the_byte_order_of_names"]);

    async fn list(site: &Site, request: &ListRequest) -> Result<Vec<LockRecord>, Error> {
        match request.after() {
            Some(_) => Ok(Vec::new()),
            None => site.inner.list(request).await,
        }
    }
}

/// Removes a record although the store would keep it for a reason that is overlooked.
async fn prune_overlooking(
    site: &Site,
    request: &PruneRequest,
    overlooks: impl FnOnce(Option<KeepReason>, &LockRecord) -> bool,
) -> Result<Pruned, Error> {
    let found = site.inner.inspect(request.name()).await?;
    let Some(record) = found.filter(|_| request.validate().is_ok()) else {
        return site.inner.prune(request).await;
    };
    let refusal = request.refusal(&record, site.read_at(&record), &site.inner.capabilities());
    if !overlooks(refusal, &record) {
        return site.inner.prune(request).await;
    }
    site.between_two_steps().await;
    site.records()?.remove(request.name());
    Ok(Pruned::Removed(record))
}

/// A removal does not look at the lock's state.
pub(super) struct PruneRemovesHeldLocks;

impl Known for PruneRemovesHeldLocks {
    const ABOUT: About = About::new("prune-removes-held-locks").caught_by(&[
        "prunes::a_held_lock_keeps_its_record",
        "prunes::at_least_keeps_the_record",
        "prunes::a_paused_lock_keeps_its_record",
    ]);

    async fn prune(site: &Site, request: &PruneRequest) -> Result<Pruned, Error> {
        let overlooks = |refusal, _: &LockRecord| refusal == Some(KeepReason::Taken);
        prune_overlooking(site, request, overlooks).await
    }
}

/// A removal does not look at the lock's slots.
pub(super) struct PruneIgnoresSlots;

impl Known for PruneIgnoresSlots {
    const ABOUT: About = About::new("prune-ignores-slots").caught_by(&[
        "prunes::a_recent_slot_keeps_the_record",
        "prunes::an_open_slot_keeps_the_record",
    ]);

    async fn prune(site: &Site, request: &PruneRequest) -> Result<Pruned, Error> {
        let overlooks = |refusal, record: &LockRecord| match refusal {
            Some(KeepReason::SlotOpen) => true,
            Some(KeepReason::UsedRecently) => record.last_slot.is_some(),
            _ => false,
        };
        prune_overlooking(site, request, overlooks).await
    }
}

/// A removal does not look at how long a slot may be asked for.
pub(super) struct PruneForgetsSlots;

impl Known for PruneForgetsSlots {
    const ABOUT: About = About::new("prune-forgets-slots")
        .caught_by(&["prunes::a_slot_that_may_still_be_asked_for_keeps_the_record"]);

    async fn prune(site: &Site, request: &PruneRequest) -> Result<Pruned, Error> {
        let overlooks = |refusal, _: &LockRecord| refusal == Some(KeepReason::SlotAskedFor);
        prune_overlooking(site, request, overlooks).await
    }
}

/// A removal does not look at the idle time.
pub(super) struct PruneIgnoresTime;

impl Known for PruneIgnoresTime {
    const ABOUT: About = About::new("prune-ignores-time")
        .caught_by(&["prunes::a_lock_that_was_used_recently_keeps_its_record"]);

    async fn prune(site: &Site, request: &PruneRequest) -> Result<Pruned, Error> {
        let overlooks = |refusal, _: &LockRecord| refusal == Some(KeepReason::UsedRecently);
        prune_overlooking(site, request, overlooks).await
    }
}

/// A removal deletes whatever record is there by then.
pub(super) struct PruneInTwoSteps;

impl Known for PruneInTwoSteps {
    const ABOUT: About = About::new("prune-in-two-steps").caught_by(&[
        "prunes::a_record_that_is_taken_meanwhile_is_kept",
        "prunes::attempts_and_removals_at_once_break_nothing",
    ]);

    async fn prune(site: &Site, request: &PruneRequest) -> Result<Pruned, Error> {
        let overlooks = |refusal: Option<KeepReason>, _: &LockRecord| refusal.is_none();
        prune_overlooking(site, request, overlooks).await
    }
}

/// A removal reports success, and leaves the record.
pub(super) struct PruneKeepsTheRecord;

impl Known for PruneKeepsTheRecord {
    const ABOUT: About =
        About::new("prune-keeps-the-record").caught_by(&["prunes::an_idle_record_is_removed"]);

    async fn prune(site: &Site, request: &PruneRequest) -> Result<Pruned, Error> {
        let found = site.inner.inspect(request.name()).await?;
        match found.filter(|_| request.validate().is_ok()) {
            Some(record)
                if request
                    .refusal(&record, site.read_at(&record), &site.inner.capabilities())
                    .is_none() =>
            {
                Ok(Pruned::Removed(record))
            }
            _ => site.inner.prune(request).await,
        }
    }
}

/// The plan of a migration has changes that are not made.
pub(super) struct PlansWhatIsThere;

impl Known for PlansWhatIsThere {
    const ABOUT: About =
        About::new("plans-what-is-there").caught_by(&["law12_record::migrating_twice_is_harmless"]);

    async fn plan_migration(site: &Site) -> Result<Vec<MigrationStep>, Error> {
        let mut steps = site.inner.plan_migration().await?;
        steps.push(MigrationStep::new("create the records"));
        Ok(steps)
    }
}

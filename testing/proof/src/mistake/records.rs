//! Mistakes about records as such: what is remembered of them, listed and removed.

use std::time::{Duration, UNIX_EPOCH};

use shedlock_core::admin::{Changed, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, Error, ListRequest, LockName, LockRecord, LockState, MigrationStep,
    Skip, SkipReason, SlotState,
};

use super::about::{About, Known};
use super::site::Site;

/// A provider caches that a record exists.
pub(super) struct RemembersRecords;

impl Known for RemembersRecords {
    const ABOUT: About = About::new("remembers-records")
        .caught_by(&["law07_no_memory::a_record_deleted_after_unlock_heals"]);

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let is_there = site.inner.inspect(&request.name).await?.is_some();
        let is_known = !site.own.lock().names.insert(request.name.clone());
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
        match request.after.as_ref() {
            Some(_) => Ok(Vec::new()),
            None => site.inner.list(request).await,
        }
    }
}

/// Shows a record as that of a lock that has been free for decades.
fn show_idle(record: &mut LockRecord) {
    record.state = LockState::Free;
    record.locked_at = Some(UNIX_EPOCH + Duration::from_secs(2));
    record.locked_until = None;
}

/// Removes whatever record is there.
fn remove_any(site: &Site, name: &LockName) -> Result<Changed, Error> {
    site.records()?.remove(name);
    Ok(Changed::Done)
}

/// A look shows every lock as free, so that its record is removed.
pub(super) struct PruneRemovesHeldLocks;

impl Known for PruneRemovesHeldLocks {
    const ABOUT: About = About::new("prune-removes-held-locks").caught_by(&[
        "prunes::a_held_lock_keeps_its_record",
        "prunes::at_least_keeps_the_record",
        "prunes::a_paused_lock_keeps_its_record",
    ]);

    async fn look(site: &Site, name: &LockName) -> Result<Option<Seen>, Error> {
        site.shown(name, show_idle).await
    }

    async fn remove(site: &Site, name: &LockName, _: &Seen) -> Result<Changed, Error> {
        remove_any(site, name)
    }
}

/// A look shows no slots, so that records are removed which must still say which slot was the last.
pub(super) struct PruneIgnoresSlots;

impl Known for PruneIgnoresSlots {
    const ABOUT: About = About::new("prune-ignores-slots").caught_by(&[
        "prunes::a_recent_slot_keeps_the_record",
        "prunes::an_open_slot_keeps_the_record",
        "prunes::a_slot_that_may_still_be_asked_for_keeps_the_record",
    ]);

    async fn look(site: &Site, name: &LockName) -> Result<Option<Seen>, Error> {
        let show = |record: &mut LockRecord| {
            *record = record.clone().with_slots(SlotState::default());
        };
        site.shown(name, show).await
    }
}

/// A look does not show when a lock was used last.
pub(super) struct PruneIgnoresTime;

impl Known for PruneIgnoresTime {
    const ABOUT: About = About::new("prune-ignores-time")
        .caught_by(&["prunes::a_lock_that_was_used_recently_keeps_its_record"]);

    async fn look(site: &Site, name: &LockName) -> Result<Option<Seen>, Error> {
        let show = |record: &mut LockRecord| {
            if record.state == LockState::Free {
                show_idle(record);
            }
        };
        site.shown(name, show).await
    }
}

/// A removal deletes whatever record is there by then.
pub(super) struct PruneInTwoSteps;

impl Known for PruneInTwoSteps {
    const ABOUT: About = About::new("prune-in-two-steps").caught_by(&[
        "prunes::a_record_that_is_taken_meanwhile_is_kept",
        "prunes::attempts_and_removals_at_once_break_nothing",
    ]);

    async fn remove(site: &Site, name: &LockName, _: &Seen) -> Result<Changed, Error> {
        site.between_two_steps().await;
        remove_any(site, name)
    }
}

/// A removal reports success, and leaves the record.
pub(super) struct PruneKeepsTheRecord;

impl Known for PruneKeepsTheRecord {
    const ABOUT: About =
        About::new("prune-keeps-the-record").caught_by(&["prunes::an_idle_record_is_removed"]);

    async fn remove(_: &Site, _: &LockName, _: &Seen) -> Result<Changed, Error> {
        Ok(Changed::Done)
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

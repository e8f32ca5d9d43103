//! Cases that the conformance kit cannot arrange: faults at single writes, and the number of
//! requests.

#![allow(
    clippy::unwrap_used,
    reason = "the lint knows test functions, but not the helpers of test targets"
)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Fault, Texts};
use shedlock_core::{
    Attempt, AttemptRequest, Budget, Clock, ClockSource, ErrorKind, ExtendRequest, Extension,
    ForceUnlockRequest, KeepReason, Lease, LockName, LockProvider, LockState, ManualClock, Owner,
    PruneRequest, Pruned, SkipReason, SystemClock, Unlock, UnlockRequest, admin,
};
use shedlock_provider::{DEFAULT_TOLERATED_SKEW, Record, Store as _, StoreProvider, Versioned};

const AT_MOST: Duration = Duration::from_secs(60);

struct Room {
    texts: Texts,
    clock: ManualClock,
    provider: StoreProvider<Versioned<Texts>>,
    job: LockName,
}

impl Room {
    fn new() -> Self {
        Self::over(Texts::new())
    }

    fn over(texts: Texts) -> Self {
        let clock = ManualClock::new();
        let engine = Versioned::new(texts.clone()).with_clock(Arc::new(clock.clone()));
        let provider = engine.provider();
        Self {
            texts,
            clock,
            provider,
            job: LockName::new("job").unwrap(),
        }
    }

    fn request(&self) -> AttemptRequest {
        AttemptRequest::new(self.job.clone(), Owner::generate(), AT_MOST)
    }

    async fn acquire(&self) -> Lease {
        let attempt = self.provider.attempt(&self.request()).await.unwrap();
        attempt.acquired().expect("the lock is free")
    }

    async fn skip(&self) -> SkipReason {
        match self.provider.attempt(&self.request()).await.unwrap() {
            Attempt::Skipped(skip) => skip.reason,
            answer => panic!("{answer:?}"),
        }
    }

    async fn state(&self) -> LockState {
        self.provider
            .inspect(&self.job)
            .await
            .unwrap()
            .unwrap()
            .state
    }

    async fn unlock(&self, lease: &Lease) -> Unlock {
        let request = UnlockRequest::new();
        self.provider.unlock(lease, &request).await.unwrap()
    }
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_found_by_reading_back() {
    let room = Room::new();
    room.texts.plan([Fault::ReplyLost]);
    let lease = room.acquire().await;
    room.texts.plan([Fault::ReplyLost]);
    let longer = ExtendRequest::new(2 * AT_MOST);
    let extension = room.provider.extend(&lease, &longer).await.unwrap();
    let Extension::Extended(lease) = extension else {
        panic!("{extension:?}");
    };
    room.texts.plan([Fault::ReplyLost]);
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    assert_eq!(room.state().await, LockState::Free);
}

#[tokio::test]
async fn a_write_that_may_yet_arrive_stays_unknown_and_is_one_lease_with_the_next() {
    let room = Room::new();
    for before in ["nothing", "a free record"] {
        let request = room.request();
        room.texts.plan([Fault::Delayed]);
        let error = room.provider.attempt(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{before}");
        assert_eq!(error.lock(), Some("job"));
        // Repeated, the attempt wins. The delayed copy then finds another version.
        let lease = room.provider.attempt(&request).await.unwrap().acquired();
        let text = room.texts.text(&room.job);
        room.texts.deliver();
        assert_eq!(room.texts.text(&room.job), text, "{before}");
        assert_eq!(room.unlock(&lease.unwrap()).await, Unlock::Unlocked);
    }
}

#[tokio::test]
async fn a_write_that_arrives_late_is_found_by_the_same_attempt() {
    let room = Room::new();
    let request = room.request();
    room.texts.plan([Fault::Delayed]);
    assert!(room.provider.attempt(&request).await.is_err());
    room.texts.deliver();
    assert_eq!(room.skip().await, SkipReason::Held);
    let lease = room.provider.attempt(&request).await.unwrap().acquired();
    assert_eq!(room.unlock(&lease.unwrap()).await, Unlock::Unlocked);
}

#[tokio::test]
async fn a_lost_write_that_another_owner_overtook_reports_the_current_holder() {
    let room = Room::new();
    let theirs = room.acquire().await;
    assert_eq!(room.unlock(&theirs).await, Unlock::Unlocked);
    let ours = room.request();
    // Our write is on its way when another owner takes the lock.
    room.texts.plan([Fault::Delayed]);
    assert!(room.provider.attempt(&ours).await.is_err());
    let theirs = room.acquire().await;
    room.texts.deliver();
    let Attempt::Skipped(skip) = room.provider.attempt(&ours).await.unwrap() else {
        panic!("the lock is held");
    };
    assert_eq!(skip.owner.as_deref(), Some(theirs.owner().as_str()));
}

#[tokio::test]
async fn an_unlock_whose_answer_was_lost_is_unknown_once_the_lock_is_anothers() {
    let room = Room::new();
    let lease = room.acquire().await;
    room.texts.plan([Fault::ReplyLostThenTaken]);
    let request = UnlockRequest::new();
    let error = room.provider.unlock(&lease, &request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(room.unlock(&lease).await, Unlock::Lost);
    assert_eq!(room.state().await, LockState::Held);
}

#[tokio::test]
async fn a_forced_unlock_whose_answer_was_lost_forces_no_other_owner_out() {
    let room = Room::new();
    let _lease = room.acquire().await;
    room.texts.plan([Fault::ReplyLostThenTaken]);
    let request = ForceUnlockRequest::new(room.job.clone());
    let error = admin::force_unlock(&room.provider, &request)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(room.state().await, LockState::Held);
}

#[tokio::test]
async fn lost_races_are_bounded() {
    let room = Room::new();
    room.texts.plan([Fault::Raced; 3]);
    let lease = room.acquire().await;
    room.texts.plan([Fault::Raced; 4]);
    let error = room
        .provider
        .unlock(&lease, &UnlockRequest::new())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    room.texts.plan([Fault::Raced; 9]);
    assert_eq!(room.skip().await, SkipReason::Contended);
    // The second unlock first tries the version that its lease carries.
    assert_eq!(room.texts.calls().1, 4 + 4 + 2 + 4);
}

#[tokio::test]
async fn a_held_lock_costs_one_read_and_a_lease_ends_by_its_version() {
    let room = Room::new();
    let lease = room.acquire().await;
    assert_eq!(room.texts.calls(), (1, 1));
    assert_eq!(room.skip().await, SkipReason::Held);
    assert_eq!(room.texts.calls(), (1, 0));
    let longer = ExtendRequest::new(AT_MOST);
    let extended = room.provider.extend(&lease, &longer).await.unwrap();
    assert_eq!(room.texts.calls(), (0, 1));
    let Extension::Extended(extended) = extended else {
        panic!("{extended:?}");
    };
    assert_eq!(room.unlock(&extended).await, Unlock::Unlocked);
    assert_eq!(room.texts.calls(), (0, 1));
    // The lease from before the extension carries an older version, so the unlock has to read.
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    assert_eq!(room.texts.calls(), (1, 1));
}

#[tokio::test]
async fn a_version_that_repeats_ends_no_other_owners_lease() {
    let room = Room::over(Texts::new().with_repeated_versions());
    let stale = room.acquire().await;
    room.texts.remove(&room.job);
    let held = room.acquire().await;
    assert_eq!(room.unlock(&stale).await, Unlock::Lost);
    assert_eq!(room.state().await, LockState::Held);
    assert_eq!(room.unlock(&held).await, Unlock::Unlocked);
}

#[tokio::test]
async fn leases_of_others_are_over_when_every_tolerated_clock_says_so() {
    let room = Room::new();
    assert_eq!(
        room.provider.capabilities().clock,
        ClockSource::Clients {
            tolerated_skew: DEFAULT_TOLERATED_SKEW
        }
    );
    let lease = room.acquire().await;
    room.clock.advance(AT_MOST);
    // For its holder the lease has expired, for all others it has not yet.
    assert_eq!(room.unlock(&lease).await, Unlock::Lost);
    assert_eq!(room.skip().await, SkipReason::Held);
    room.clock
        .advance(DEFAULT_TOLERATED_SKEW - Duration::from_millis(1));
    assert_eq!(room.skip().await, SkipReason::Held);
    room.clock.advance(Duration::from_millis(1));
    let lease = room.acquire().await;
    // An unlocked lock is free at once.
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    let _ = room.acquire().await;
}

#[tokio::test]
async fn a_record_of_shedlock_is_given_the_same_tolerance() {
    let room = Room::new();
    let now = room.clock.system_time();
    let mut java = Record::until(now + AT_MOST);
    java.owner = "java-host".to_owned();
    room.texts.overwrite(&room.job, java.to_text());
    room.clock.advance(AT_MOST);
    assert_eq!(room.skip().await, SkipReason::Held);
    room.clock.advance(DEFAULT_TOLERATED_SKEW);
    let _ = room.acquire().await;
}

#[tokio::test]
async fn data_that_is_not_a_lock_is_an_error_of_every_call_and_is_kept() {
    let room = Room::new();
    room.texts.overwrite(&room.job, "{\"mine\": 1}".to_owned());
    let error = room.provider.attempt(&room.request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let error = room.provider.inspect(&room.job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(room.texts.text(&room.job).unwrap(), "{\"mine\": 1}");
}

#[tokio::test]
async fn tokens_are_the_stores_revisions_where_it_has_them() {
    let room = Room::over(Texts::new().with_revisions());
    let first = room.acquire().await;
    assert_eq!(first.fencing_token(), Some(1));
    let longer = ExtendRequest::new(AT_MOST);
    let extended = room.provider.extend(&first, &longer).await.unwrap();
    let Extension::Extended(first) = extended else {
        panic!("{extended:?}");
    };
    assert_eq!(first.fencing_token(), Some(1));
    assert_eq!(room.unlock(&first).await, Unlock::Unlocked);
    let shown = room.provider.inspect(&room.job).await.unwrap().unwrap();
    assert_eq!(shown.fencing_token, Some(1));
    assert_eq!(room.acquire().await.fencing_token(), Some(4));
}

/// Each call is boxed, and its future is moved into the box.
#[test]
fn the_layers_of_a_provider_do_not_multiply_the_size_of_a_call() {
    let room = Room::new();
    let request = room.request();
    let budget = Budget::new(Arc::clone(SystemClock::shared()), request.timeout);
    let of_store = size_of_val(&room.provider.backend().attempt(&request, &budget));
    let of_provider = size_of_val(&*room.provider.attempt(&request));
    assert!(of_provider < 3 * of_store, "{of_store} {of_provider}");
}

/// Two hours after its last use.
async fn idle(room: &Room) -> PruneRequest {
    let lease = room.acquire().await;
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    room.clock.advance(2 * HOUR);
    PruneRequest::new(room.job.clone(), HOUR)
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_removal_whose_answer_was_lost_is_found_by_reading_back() {
    let room = Room::new();
    let prune = idle(&room).await;
    room.texts.plan([Fault::ReplyLost]);
    let pruned = admin::prune(&room.provider, &prune).await.unwrap();
    assert!(matches!(pruned, Pruned::Removed(_)), "{pruned:?}");
    assert!(room.texts.text(&room.job).is_none());
    let again = admin::prune(&room.provider, &prune).await.unwrap();
    assert!(matches!(again, Pruned::NoRecord), "{again:?}");
}

#[tokio::test]
async fn a_removal_that_may_still_arrive_is_unknown_and_can_be_repeated() {
    let room = Room::new();
    let prune = idle(&room).await;
    room.texts.plan([Fault::RequestLost]);
    let error = admin::prune(&room.provider, &prune).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(room.texts.text(&room.job).is_some());
    let pruned = admin::prune(&room.provider, &prune).await.unwrap();
    assert!(matches!(pruned, Pruned::Removed(_)), "{pruned:?}");
}

#[tokio::test]
async fn a_removal_that_lost_its_race_looks_again() {
    let room = Room::new();
    let prune = idle(&room).await;
    room.texts.plan([Fault::Raced, Fault::None]);
    let pruned = admin::prune(&room.provider, &prune).await.unwrap();
    assert!(matches!(pruned, Pruned::Removed(_)), "{pruned:?}");
}

/// The record of a withdrawn attempt keeps copies of that attempt out, and contains no time.
#[tokio::test]
async fn the_record_of_a_withdrawn_attempt_is_kept() {
    let room = Room::new();
    let attempt = room.request();
    assert!(!room.provider.withdraw(&attempt).await.unwrap());
    room.clock.advance(2 * HOUR);
    let prune = PruneRequest::new(room.job.clone(), HOUR);
    let pruned = admin::prune(&room.provider, &prune).await.unwrap();
    let is_kept =
        matches!(&pruned, Pruned::Kept { reason, .. } if *reason == KeepReason::AgeUnknown);
    assert!(is_kept, "{pruned:?}");
    // A use gives it an age.
    let prune = idle(&room).await;
    let pruned = admin::prune(&room.provider, &prune).await.unwrap();
    assert!(matches!(pruned, Pruned::Removed(_)), "{pruned:?}");
}

//! Copies of a request that reach the store late.

#![allow(
    clippy::unwrap_used,
    reason = "the lint knows test functions, but not the helpers of test targets"
)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Fault, Texts};
use shedlock_core::{
    Attempt, AttemptRequest, Clock, ErrorKind, ExtendRequest, Extension, Lease, LockName,
    LockProvider, LockState, ManualClock, Owner, SkipReason, Slot, Unlock, UnlockRequest,
};
use shedlock_provider::{DEFAULT_TOLERATED_SKEW, Record, StoreProvider, Versioned};

const AT_MOST: Duration = Duration::from_secs(60);

struct Room {
    texts: Texts,
    clock: ManualClock,
    provider: StoreProvider<Versioned<Texts>>,
    job: LockName,
}

/// What the store contains when the attempt is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    Unlocked,
    Expired,
    ShedLock,
    OwnExpired,
}

impl Before {
    const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Unlocked,
        Self::Expired,
        Self::ShedLock,
        Self::OwnExpired,
    ];
}

impl Room {
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

    /// One room over each kind of store.
    fn each() -> impl Iterator<Item = Self> {
        let kinds = [
            Texts::new(),
            Texts::new().with_revisions(),
            Texts::new().keeping_equal(),
            Texts::new().with_repeated_versions(),
        ];
        kinds.into_iter().map(Self::over)
    }

    fn request(&self) -> AttemptRequest {
        AttemptRequest::new(self.job.clone(), Owner::generate(), AT_MOST)
    }

    async fn attempt(&self, request: &AttemptRequest) -> Lease {
        let attempt = self.provider.attempt(request).await.unwrap();
        attempt.acquired().expect("the lock is free")
    }

    async fn unlock(&self, lease: &Lease) -> Unlock {
        let request = UnlockRequest::new();
        self.provider.unlock(lease, &request).await.unwrap()
    }

    async fn state(&self) -> LockState {
        let record = self.provider.inspect(&self.job).await.unwrap();
        record.map_or(LockState::Free, |record| record.state)
    }

    async fn withdraw(&self, request: &AttemptRequest) -> bool {
        self.provider.withdraw(request).await.unwrap()
    }

    /// Puts the store into this state, with the lock free for the attempt.
    async fn prepare(&self, before: Before, request: &AttemptRequest) {
        match before {
            Before::Nothing => self.texts.remove(&self.job),
            Before::Unlocked => {
                let lease = self.attempt(&self.request()).await;
                assert_eq!(self.unlock(&lease).await, Unlock::Unlocked);
            }
            Before::Expired => {
                let _ = self.attempt(&self.request()).await;
                self.clock.advance(AT_MOST + DEFAULT_TOLERATED_SKEW);
            }
            Before::ShedLock => {
                let mut record = Record::until(self.clock.system_time());
                record.owner = "java-host".to_owned();
                self.texts.overwrite(&self.job, record.to_text());
                self.clock.advance(DEFAULT_TOLERATED_SKEW);
            }
            // For all other owners it has not expired yet.
            Before::OwnExpired => {
                let _ = self.attempt(request).await;
                self.clock.advance(AT_MOST);
            }
        }
    }

    /// Sends an attempt that reaches the store only when it is delivered.
    async fn send_late(&self, request: &AttemptRequest) {
        self.texts.plan([Fault::Delayed]);
        let error = self.provider.attempt(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    }
}

#[tokio::test]
async fn a_late_copy_of_an_attempt_takes_no_lock_after_it_was_withdrawn() {
    for room in Room::each() {
        for before in Before::ALL {
            let request = room.request();
            room.prepare(before, &request).await;
            room.send_late(&request).await;
            let was_named = room.withdraw(&request).await;
            assert_eq!(was_named, before == Before::OwnExpired, "{before:?}");
            let withdrawn = room.texts.text(&room.job);
            room.texts.deliver();
            assert_eq!(room.texts.text(&room.job), withdrawn, "{before:?}");
            room.clock.advance(DEFAULT_TOLERATED_SKEW);
            assert_eq!(room.state().await, LockState::Free, "{before:?}");
            let lease = room.attempt(&room.request()).await;
            assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
        }
    }
}

#[tokio::test]
async fn a_copy_that_arrives_while_its_attempt_is_withdrawn_is_ended() {
    for room in Room::each() {
        for before in Before::ALL {
            let request = room.request();
            room.prepare(before, &request).await;
            room.send_late(&request).await;
            room.texts.plan([Fault::Overtaken]);
            assert!(room.withdraw(&request).await, "{before:?}");
            assert_eq!(room.state().await, LockState::Free, "{before:?}");
            assert!(!room.withdraw(&request).await, "{before:?}");
        }
    }
}

#[tokio::test]
async fn a_withdrawal_whose_own_write_is_late_is_unknown_and_is_repeated() {
    for room in Room::each() {
        for before in Before::ALL {
            let request = room.request();
            room.prepare(before, &request).await;
            room.send_late(&request).await;
            room.texts.plan([Fault::Delayed]);
            let error = room.provider.withdraw(&request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{before:?}");
            let was_named = room.withdraw(&request).await;
            assert_eq!(was_named, before == Before::OwnExpired, "{before:?}");
            let withdrawn = room.texts.text(&room.job);
            room.texts.deliver();
            assert_eq!(room.texts.text(&room.job), withdrawn, "{before:?}");
            room.clock.advance(DEFAULT_TOLERATED_SKEW);
            assert_eq!(room.state().await, LockState::Free, "{before:?}");
        }
    }
}

/// Only its version changes: the last owner, the token and the slot stay.
#[tokio::test]
async fn a_withdrawal_keeps_what_a_free_record_says() {
    for room in Room::each() {
        let slot = Slot::at(room.clock.system_time()).unwrap();
        let lease = room.attempt(&room.request().with_slot(slot)).await;
        assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
        let before = room.provider.inspect(&room.job).await.unwrap().unwrap();
        for _ in 0..3 {
            assert!(!room.withdraw(&room.request()).await);
        }
        let after = room.provider.inspect(&room.job).await.unwrap().unwrap();
        assert_eq!(after.owner, before.owner);
        assert_eq!(after.locked_at, before.locked_at);
        assert_eq!(after.fencing_token, before.fencing_token);
        assert_eq!(after.last_slot, Some(slot));
        assert!(after.locked_until <= before.locked_until, "{after:?}");
        // The previous owner's repeated unlock still succeeds.
        assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
        let next = room.attempt(&room.request()).await;
        assert!(next.fencing_token() > lease.fencing_token());
    }
}

#[tokio::test]
async fn a_record_that_a_withdrawal_makes_is_free_at_once_for_every_clock() {
    for room in Room::each() {
        let request = room.request();
        assert!(!room.withdraw(&request).await);
        let text = room.texts.text(&room.job).unwrap();
        let owner = &request.owner;
        assert_eq!(
            text,
            format!("shedlock 1\nuntil 0\nowner {owner} unlocked\n")
        );
        let record = room.provider.inspect(&room.job).await.unwrap().unwrap();
        // As if the lock had never been acquired.
        assert_eq!(record.fencing_token, None);
        assert_eq!((record.locked_at, record.last_slot), (None, None));
        // A repeated withdrawal by the same owner finds its own record and writes nothing.
        let _ = room.texts.calls();
        assert!(!room.withdraw(&request).await);
        assert_eq!(room.texts.calls(), (1, 0));
        assert!(room.attempt(&room.request()).await.fencing_token() > Some(0));
    }
}

/// NATS would treat a message without any of our words as an acquisition by ShedLock.
#[tokio::test]
async fn a_withdrawal_marks_a_record_that_says_nothing() {
    let room = Room::over(Texts::new());
    let request = room.request();
    for until in [0, 7] {
        let text = format!("shedlock 1\nuntil {until}\ntoken 3\n");
        room.texts.overwrite(&room.job, text);
        assert!(!room.withdraw(&request).await);
        let (until, owner) = (if until == 0 { 1 } else { until - 1 }, &request.owner);
        assert_eq!(
            room.texts.text(&room.job).unwrap(),
            format!("shedlock 1\nuntil {until}\ntoken 3\nowner {owner} unlocked\n")
        );
    }
}

#[tokio::test]
async fn a_withdrawal_leaves_a_lock_that_another_owner_holds() {
    for room in Room::each() {
        let held = room.attempt(&room.request()).await;
        let text = room.texts.text(&room.job);
        let _ = room.texts.calls();
        assert!(!room.withdraw(&room.request()).await);
        assert_eq!(room.texts.calls(), (1, 0));
        assert_eq!(room.texts.text(&room.job), text);
        assert_eq!(room.unlock(&held).await, Unlock::Unlocked);
    }
}

#[tokio::test]
async fn a_withdrawal_that_loses_each_race_can_be_repeated() {
    let room = Room::over(Texts::new());
    let lease = room.attempt(&room.request()).await;
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    room.texts.plan([Fault::Raced; 4]);
    let request = room.request();
    let error = room.provider.withdraw(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!room.withdraw(&request).await);
}

#[tokio::test]
async fn an_attempt_that_finds_its_own_unlock_takes_no_lock() {
    for room in Room::each() {
        let request = room.request();
        let lease = room.attempt(&request).await;
        assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
        let text = room.texts.text(&room.job);
        let error = room.provider.attempt(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost);
        assert_eq!(error.lock(), Some("job"));
        assert_eq!(room.texts.text(&room.job), text);
    }
}

/// At-least keeps the lock taken for every owner, including the one that unlocked.
#[tokio::test]
async fn an_attempt_that_finds_its_own_at_least_is_skipped() {
    let room = Room::over(Texts::new());
    let request = room.request().with_lock_at_least_for(AT_MOST);
    let lease = room.attempt(&request).await;
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    let Attempt::Skipped(skip) = room.provider.attempt(&request).await.unwrap() else {
        panic!("at-least keeps the lock");
    };
    assert_eq!(skip.reason, SkipReason::AtLeast);
}

#[tokio::test]
async fn an_extension_keeps_the_later_end() {
    for room in Room::each() {
        let lease = room.attempt(&room.request()).await;
        let end = lease.locked_until();
        let shorter = ExtendRequest::new(AT_MOST / 2);
        // First with the version that the lease carries, then with a read.
        for remembers in [true, false] {
            let lease = if remembers {
                lease.clone()
            } else {
                lease.clone().with_state(Arc::new(()))
            };
            let extension = room.provider.extend(&lease, &shorter).await.unwrap();
            let Extension::Extended(extended) = extension else {
                panic!("{extension:?}");
            };
            assert_eq!(extended.locked_until(), end);
            let record = room.provider.inspect(&room.job).await.unwrap().unwrap();
            assert_eq!(record.locked_until, end);
        }
        room.clock.advance(AT_MOST - Duration::from_millis(1));
        assert_eq!(room.state().await, LockState::Held);
    }
}

#[tokio::test]
async fn a_late_extension_cuts_no_later_one_short() {
    for room in Room::each() {
        let lease = room.attempt(&room.request()).await;
        room.clock.advance(AT_MOST / 2);
        room.texts.plan([Fault::Delayed]);
        let short = ExtendRequest::new(AT_MOST);
        let error = room.provider.extend(&lease, &short).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        let long = ExtendRequest::new(2 * AT_MOST);
        let extension = room.provider.extend(&lease, &long).await.unwrap();
        let Extension::Extended(extended) = extension else {
            panic!("{extension:?}");
        };
        room.texts.deliver();
        let record = room.provider.inspect(&room.job).await.unwrap().unwrap();
        assert_eq!(record.locked_until, extended.locked_until());
        assert_eq!(room.unlock(&extended).await, Unlock::Unlocked);
    }
}

#[tokio::test]
async fn an_attempt_that_may_have_lost_its_race_to_itself_is_unknown() {
    let room = Room::over(Texts::new());
    room.texts.plan([Fault::SentTwice]);
    let request = AttemptRequest::new(room.job.clone(), Owner::generate(), AT_MOST);
    let error = room.provider.attempt(&request).await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::OutcomeUnknown,
        "it holds the lock: {error}"
    );
    let again = room.provider.attempt(&request).await.unwrap();
    assert!(again.acquired().is_some());
}

//! Hosts whose clocks differ by the tolerated skew.

#![allow(
    clippy::unwrap_used,
    reason = "the lint knows test functions, but not the helpers of test targets"
)]

mod common;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::Texts;
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Clock, ForceUnlockRequest, ForcedUnlock, Lease, LockName,
    LockProvider, ManualClock, Moment, Owner, Unlock, UnlockRequest, admin,
};
use shedlock_provider::{DEFAULT_TOLERATED_SKEW as SKEW, StoreProvider, Versioned};

const MINUTE: Duration = Duration::from_secs(60);
const BLINK: Duration = Duration::from_millis(2);

/// The same clock on a host whose clock is ahead.
#[derive(Debug)]
struct Ahead(ManualClock, Duration);

impl Clock for Ahead {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn system_time(&self) -> SystemTime {
        self.0.system_time() + self.1
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        self.0.sleep_until(moment)
    }
}

/// Two hosts. One is ahead of the other by the tolerated skew.
fn hosts(clock: &ManualClock) -> [StoreProvider<Versioned<Texts>>; 2] {
    let texts = Texts::new();
    [Duration::ZERO, SKEW].map(|ahead| {
        let clock = Ahead(clock.clone(), ahead);
        Versioned::new(texts.clone())
            .with_clock(Arc::new(clock))
            .provider()
    })
}

fn request() -> AttemptRequest {
    AttemptRequest::new(LockName::new("job").unwrap(), Owner::generate(), MINUTE)
}

async fn attempt(host: &StoreProvider<Versioned<Texts>>) -> Option<Lease> {
    match host.attempt(&request()).await.unwrap() {
        Attempt::Acquired(lease) => Some(lease),
        _ => None,
    }
}

async fn unlock(host: &StoreProvider<Versioned<Texts>>, lease: &Lease) {
    let unlocked = host.unlock(lease, &UnlockRequest::new()).await.unwrap();
    assert_eq!(unlocked, Unlock::Unlocked);
}

#[tokio::test]
async fn an_at_least_below_the_period_swallows_no_tick() {
    let clock = ManualClock::new();
    let [behind, ahead] = hosts(&clock);
    for host in [&behind, &behind, &ahead] {
        // What users without slots configure: a little less than the period.
        let request = request().with_lock_at_least_for(MINUTE - SKEW / 2);
        let tick = host.attempt(&request).await.unwrap();
        clock.advance(BLINK);
        unlock(host, &tick.acquired().expect("the tick runs")).await;
        clock.advance(MINUTE - BLINK);
    }
}

#[tokio::test]
async fn an_unlocked_lock_is_free_at_once_for_a_host_that_is_behind() {
    let clock = ManualClock::new();
    let [behind, ahead] = hosts(&clock);
    for _ in 0..2 {
        let lease = attempt(&ahead).await.expect("the lock is free");
        clock.advance(BLINK);
        unlock(&ahead, &lease).await;
        let lease = attempt(&behind).await.expect("the lock was unlocked");
        unlock(&behind, &lease).await;
    }
}

#[tokio::test]
async fn a_forced_out_lock_is_free_at_once_for_a_host_that_is_behind() {
    let clock = ManualClock::new();
    let [behind, ahead] = hosts(&clock);
    let lease = attempt(&behind).await.expect("the lock is free");
    let force = ForceUnlockRequest::new(lease.name().clone());
    let freed = admin::force_unlock(&ahead, &force).await.unwrap();
    assert!(matches!(freed, ForcedUnlock::Freed(_)), "{freed:?}");
    assert!(attempt(&behind).await.is_some(), "the lock was freed");
}

/// Other hosts can only detect that the owner gave the lease up if the record no longer names a
/// holder.
#[tokio::test]
async fn a_withdrawn_lease_that_had_expired_keeps_the_lock_from_no_host() {
    let clock = ManualClock::new();
    let [behind, ahead] = hosts(&clock);
    let request = request();
    let attempted = ahead.attempt(&request).await.unwrap();
    assert!(attempted.acquired().is_some(), "the lock is free");
    clock.advance(MINUTE);
    let is_withdrawn = ahead.withdraw(&request).await.unwrap();
    assert!(is_withdrawn, "the record still names its owner");
    for host in [&ahead, &behind] {
        let lease = attempt(host).await.expect("its owner gave it up");
        unlock(host, &lease).await;
    }
}

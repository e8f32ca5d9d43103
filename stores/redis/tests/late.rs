//! Requests that were given up and reach the server later: an attempt takes the lock for no owner that has ended, and
//! an extension shortens no lease.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::time::Duration;

use redis::Client;
use redis::aio::MultiplexedConnection;
use shedlock_conformance::proxy::{Delivery, Proxy, Strike, Trap, contains};
use shedlock_conformance::support::{address, unique};
use shedlock_core::{
    Attempt, AttemptRequest, Clock as _, Error, ErrorKind, ExtendRequest, Extension, Lease,
    LockName, LockProvider, LockState, Moment, Owner, Slot, SystemClock, Unlock, UnlockRequest,
};
use shedlock_redis::RedisProvider;
use shedlock_rig::wait::{answered, sleep};

const MINUTE: Duration = Duration::from_secs(60);

/// How long an attempt may take, and how long its copy is on its way.
const TIMEOUT: Duration = Duration::from_millis(600);
const LATE: Duration = Duration::from_millis(1_500);

/// Two providers, one connected through a proxy and one directly.
struct Line {
    proxy: Proxy,
    through: RedisProvider,
    direct: RedisProvider,
    environment: String,
}

impl Line {
    async fn new() -> Self {
        let server = common::server("redis");
        let proxy = Proxy::start(address(&server, 6379).unwrap()).await.unwrap();
        let environment = unique("late");
        let open = async |url: &str| {
            let url = format!("{url}?environment={environment}");
            RedisProvider::connect(&url).await.unwrap()
        };
        let through = open(&format!("redis://{}", proxy.addr())).await;
        let direct = open(server.trim_end_matches('/')).await;
        Self {
            proxy,
            through,
            direct,
            environment,
        }
    }

    /// Sends a call whose request is withheld, and gives it up.
    async fn held_up<T>(&self, owner: &Owner, call: impl Future<Output = T>) -> Copy {
        let owner = contains(owner.as_str().as_bytes());
        let trap = self.proxy.on_request(owner, 1, Strike::WithholdRequest);
        let answer = trap.give_up(Duration::from_millis(50), call).await;
        assert!(answer.is_none() && trap.has_struck(), "it was answered");
        Copy {
            trap: trap.clone(),
            due: SystemClock.now() + LATE,
        }
    }

    async fn lost_attempt(&self, request: &AttemptRequest) -> Copy {
        let call = self.through.attempt(request);
        self.held_up(&request.owner, call).await
    }

    async fn is_free(&self) {
        let record = self.direct.inspect(&job()).await.unwrap().unwrap();
        assert_eq!(record.state, LockState::Free, "{record:?}");
    }
}

/// A request that was given up and is still on its way.
struct Copy {
    trap: Trap,
    due: Moment,
}

impl Copy {
    /// Waits until the server has replied to it.
    async fn arrives(self) {
        SystemClock.sleep_until(self.due).await;
        assert_eq!(self.trap.deliver().await, Delivery::Answered);
    }
}

fn job() -> LockName {
    LockName::new("job").unwrap()
}

fn request() -> AttemptRequest {
    AttemptRequest::new(job(), Owner::generate(), MINUTE).with_timeout(TIMEOUT)
}

/// Repeats an attempt that arrived after its timeout, because the machine is busy.
async fn attempted(provider: &RedisProvider, request: &AttemptRequest) -> Attempt {
    let attempt = async || provider.attempt(request).await;
    answered("the attempt is in time", Error::is_retryable, attempt).await
}

async fn take(provider: &RedisProvider, request: &AttemptRequest) -> Lease {
    let attempt = attempted(provider, request).await;
    attempt.acquired().expect("the lock should be free")
}

async fn give_back(provider: &RedisProvider, lease: &Lease) {
    let unlocked = provider.unlock(lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
}

/// If the copy took the lock, no process would unlock it before its end.
#[tokio::test]
async fn a_copy_that_arrives_after_its_retry_was_unlocked_takes_nothing() {
    let line = Line::new().await;
    let request = request();
    let copy = line.lost_attempt(&request).await;
    let lease = take(&line.through, &request).await;
    give_back(&line.through, &lease).await;
    copy.arrives().await;
    line.is_free().await;
}

/// By then the record contains the other owner, so only the lateness reveals the copy.
#[tokio::test]
async fn a_copy_that_arrives_after_another_owner_came_and_went_takes_nothing() {
    let line = Line::new().await;
    let request = request();
    let copy = line.lost_attempt(&request).await;
    let lease = take(&line.through, &request).await;
    give_back(&line.through, &lease).await;
    let other = take(&line.direct, &self::request()).await;
    give_back(&line.direct, &other).await;
    copy.arrives().await;
    line.is_free().await;
    let next = take(&line.direct, &self::request()).await;
    assert!(next.fencing_token() > other.fencing_token());
}

/// Its slot is not used up either. Otherwise no run would ever take place for it.
#[tokio::test]
async fn a_copy_that_arrives_after_its_retry_was_skipped_takes_neither_lock_nor_slot() {
    let line = Line::new().await;
    let other = take(&line.direct, &request()).await;
    let slot = Slot::at(other.acquired_at().unwrap()).unwrap();
    let request = request().with_slot(slot);
    let copy = line.lost_attempt(&request).await;
    let retry = attempted(&line.through, &request).await;
    assert!(matches!(retry, Attempt::Skipped(_)), "{retry:?}");
    give_back(&line.direct, &other).await;
    copy.arrives().await;
    line.is_free().await;
    let lease = take(&line.direct, &self::request().with_slot(slot)).await;
    give_back(&line.direct, &lease).await;
}

/// The final withdrawal is sent after the attempt's timeout has passed.
#[tokio::test]
async fn a_copy_that_arrives_after_the_final_withdrawal_takes_nothing() {
    let line = Line::new().await;
    give_back(&line.direct, &take(&line.direct, &request()).await).await;
    let request = request();
    let copy = line.lost_attempt(&request).await;
    sleep(TIMEOUT).await;
    assert!(!line.direct.withdraw(&request).await.unwrap());
    copy.arrives().await;
    line.is_free().await;
}

/// Even if it arrives in time.
#[tokio::test]
async fn an_attempt_that_was_unlocked_is_not_granted_again() {
    let line = Line::new().await;
    let request = request().with_timeout(MINUTE);
    let lease = take(&line.through, &request).await;
    give_back(&line.through, &lease).await;
    let error = line.through.attempt(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    line.is_free().await;
    let withdrawn = self::request();
    let _ = take(&line.through, &withdrawn).await;
    assert!(line.direct.withdraw(&withdrawn).await.unwrap());
    let error = line.through.attempt(&withdrawn).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
}

/// A held lock is still skipped, and no attempt of a provider that has not observed the server's time yet is lost.
#[tokio::test]
async fn the_first_attempt_of_a_provider_is_judged_by_the_servers_time() {
    let client = Client::open(common::server("redis")).unwrap();
    let environment = unique("first");
    let open = || RedisProvider::builder(client.clone()).environment(environment.clone());
    let attempt = async || {
        let request = request().with_timeout(MINUTE);
        open().build().unwrap().attempt(&request).await.unwrap()
    };
    let lease = attempt().await.acquired();
    let lease = lease.expect("the lock should be free");
    let skipped = attempt().await;
    assert!(matches!(skipped, Attempt::Skipped(_)), "{skipped:?}");
    give_back(&open().build().unwrap(), &lease).await;
}

#[tokio::test]
async fn an_extension_that_arrives_late_does_not_shorten_a_later_one() {
    let line = Line::new().await;
    let lease = take(&line.through, &request()).await;
    let short = ExtendRequest::new(Duration::from_secs(1));
    let call = line.through.extend(&lease, &short);
    let copy = line.held_up(lease.owner(), call).await;
    let long = line
        .direct
        .extend(&lease, &ExtendRequest::new(10 * MINUTE))
        .await;
    let Extension::Extended(long) = long.unwrap() else {
        panic!("the lease runs");
    };
    copy.arrives().await;
    let record = line.direct.inspect(&job()).await.unwrap().unwrap();
    assert_eq!(record.locked_until, long.locked_until());
    sleep(Duration::from_secs(1)).await;
    let other = attempted(&line.direct, &request()).await;
    assert!(matches!(other, Attempt::Skipped(_)), "{other:?}");
}

/// By the key itself, to the millisecond, and also if the record next to it was deleted.
#[tokio::test]
async fn the_key_never_ends_earlier_than_it_did() {
    let line = Line::new().await;
    let client = Client::open(common::server("redis")).unwrap();
    let mut admin = common::connection(&client).await.unwrap();
    let lease = take(&line.through, &request()).await;
    let ends = async |admin: &mut MultiplexedConnection, words: &[&str]| -> i64 {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).query_async(admin).await.unwrap()
    };
    let lock = format!("job-lock:{}:job", line.environment);
    let beside = format!("shedlock-rs:{{{lock}}}");
    let before = ends(&mut admin, &["PEXPIRETIME", &lock]).await;
    for deletes in [false, true] {
        if deletes {
            ends(&mut admin, &["DEL", &beside]).await;
        }
        let shorter = ExtendRequest::new(Duration::from_secs(1));
        let extended = line.direct.extend(&lease, &shorter).await.unwrap();
        let Extension::Extended(extended) = extended else {
            panic!("the lease runs");
        };
        let after = ends(&mut admin, &["PEXPIRETIME", &lock]).await;
        assert!((before..=before + 1).contains(&after), "{before} {after}");
        let until = extended.locked_until().unwrap();
        let until = until.duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(i64::try_from(until.as_millis()).unwrap(), after);
    }
}

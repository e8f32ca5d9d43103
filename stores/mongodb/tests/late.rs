//! Requests that were given up and reach the server later: an attempt takes the lock for no owner that has ended, and
//! an extension shortens no lease.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::time::Duration;

use common::{DATABASE, client, server, url};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Client, Collection};
use shedlock_conformance::proxy::{Delivery, Fault, Proxy, Strike, Trap, contains};
use shedlock_conformance::support::{address, unique};
use shedlock_core::{
    Attempt, AttemptRequest, Clock as _, Error, ErrorKind, ExtendRequest, Extension,
    ForceUnlockRequest, Lease, LockName, LockProvider, LockState, Moment, Owner, SkipReason, Slot,
    SystemClock, Unlock, UnlockRequest, admin,
};
use shedlock_mongodb::{MongoProvider, TimeMode};
use shedlock_provider::ROUNDS;
use shedlock_rig::wait::answered;

const MINUTE: Duration = Duration::from_secs(60);

/// How long an attempt may take, and how long its copy is on its way.
const TIMEOUT: Duration = Duration::from_millis(1_000);
const LATE: Duration = Duration::from_millis(2_500);

/// Matches a findAndModify that creates a document: its flag `upsert` is true.
const CREATES: &[u8] = b"upsert\0\x01";

/// Two providers, one connected through a proxy and one directly, over a separate collection.
struct Line {
    proxy: Proxy,
    through: MongoProvider,
    direct: MongoProvider,
    collection: Collection<Document>,
}

impl Line {
    /// Creates a document that was locked before, so that the server's time is known.
    async fn new(time: TimeMode) -> Self {
        let line = Self::without_document(time).await;
        let lease = take(&line.through, &request()).await;
        give_back(&line.through, &lease).await;
        line
    }

    async fn without_document(time: TimeMode) -> Self {
        let store = address(&server(), 27017).unwrap();
        let proxy = Proxy::start(store).await.unwrap();
        let name = unique("late");
        let open = |client: &Client| {
            let builder = MongoProvider::builder(client.database(DATABASE)).collection(&name);
            builder
                .time(time)
                .response_timeout(MINUTE / 3)
                .build()
                .unwrap()
        };
        let proxied = url(&format!("mongodb://{}", proxy.addr()), "");
        let proxied = client(&proxied).await.unwrap();
        let straight = client(&server()).await.unwrap();
        let line = Self {
            through: open(&proxied),
            direct: open(&straight),
            collection: straight.database(DATABASE).collection(&name),
            proxy,
        };
        // Connects first, so that a call is sent at once.
        line.through.inspect(&job()).await.unwrap();
        line
    }

    /// Sends a call whose request is withheld, and gives it up.
    async fn held_up<T>(&self, bytes: &[u8], call: impl Future<Output = T>) -> Copy {
        let withhold = Strike::WithholdRequest;
        let trap = self.proxy.on_request(contains(bytes), 1, withhold);
        let answer = trap.give_up(Duration::from_millis(50), call).await;
        assert!(answer.is_none() && trap.has_struck(), "it was answered");
        Copy {
            trap: trap.clone(),
            due: SystemClock.now() + LATE,
        }
    }

    async fn lost_attempt(&self, request: &AttemptRequest) -> Copy {
        let call = self.through.attempt(request);
        self.held_up(request.owner.as_str().as_bytes(), call).await
    }

    async fn is_free(&self) {
        let record = self.direct.inspect(&job()).await.unwrap().unwrap();
        assert_eq!(record.state, LockState::Free, "{record:?}");
    }

    async fn close(self) {
        self.collection.drop().await.unwrap();
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

const MODES: [TimeMode; 2] = [TimeMode::Store, TimeMode::client()];

fn job() -> LockName {
    LockName::new("job").unwrap()
}

fn request() -> AttemptRequest {
    AttemptRequest::new(job(), Owner::generate(), MINUTE).with_timeout(TIMEOUT)
}

/// Repeats an attempt that arrived after its timeout, because the machine is busy.
async fn attempted(provider: &MongoProvider, request: &AttemptRequest) -> Attempt {
    let attempt = async || provider.attempt(request).await;
    answered("the attempt is in time", Error::is_retryable, attempt).await
}

async fn take(provider: &MongoProvider, request: &AttemptRequest) -> Lease {
    let attempt = attempted(provider, request).await;
    attempt.acquired().expect("the lock should be free")
}

async fn give_back(provider: &MongoProvider, lease: &Lease) {
    let unlocked = provider.unlock(lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
}

#[tokio::test]
async fn a_copy_that_arrives_after_its_retry_was_unlocked_takes_nothing() {
    for time in MODES {
        let line = Line::new(time).await;
        let request = request();
        let copy = line.lost_attempt(&request).await;
        let lease = take(&line.through, &request).await;
        give_back(&line.through, &lease).await;
        copy.arrives().await;
        line.is_free().await;
        line.close().await;
    }
}

/// By then the document contains the other owner, so only the lateness reveals the copy.
#[tokio::test]
async fn a_copy_that_arrives_after_another_owner_came_and_went_takes_nothing() {
    for time in MODES {
        let line = Line::new(time).await;
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
        line.close().await;
    }
}

/// Its slot is not used up either. Otherwise no run would ever take place for it.
#[tokio::test]
async fn a_copy_that_arrives_after_its_retry_was_skipped_takes_neither_lock_nor_slot() {
    for time in MODES {
        let line = Line::new(time).await;
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
        line.close().await;
    }
}

/// With the clients' clocks, the copy is judged by the instant that it carries, at which the lock was free. The
/// withdrawal has moved the end since.
#[tokio::test]
async fn a_copy_that_arrives_after_the_final_withdrawal_takes_nothing() {
    for time in MODES {
        let line = Line::new(time).await;
        let before = line.direct.inspect(&job()).await.unwrap().unwrap();
        let request = request();
        let copy = line.lost_attempt(&request).await;
        SystemClock.sleep_until(SystemClock.now() + TIMEOUT).await;
        assert!(!line.direct.withdraw(&request).await.unwrap());
        copy.arrives().await;
        line.is_free().await;
        // The document still contains the previous owner.
        let after = line.direct.inspect(&job()).await.unwrap().unwrap();
        assert_eq!(
            (after.owner, after.locked_at),
            (before.owner, before.locked_at)
        );
        line.close().await;
    }
}

/// A name without a document: the late request creates one that is free, for ShedLock too.
#[tokio::test]
async fn a_document_that_is_made_late_is_free() {
    for time in MODES {
        let line = Line::without_document(time).await;
        let request = request();
        let call = line.through.attempt(&request);
        let copy = line.held_up(CREATES, call).await;
        assert!(!line.direct.withdraw(&request).await.unwrap());
        assert_eq!(line.direct.inspect(&job()).await.unwrap(), None);
        copy.arrives().await;
        line.is_free().await;
        let shedlocks =
            doc! { "_id": "job", "lockUntil": { "$lte": mongodb::bson::DateTime::now() } };
        let found = line.collection.find_one(shedlocks).await.unwrap().unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["_id", "lockUntil"]);
        let lease = take(&line.through, &self::request()).await;
        give_back(&line.through, &lease).await;
        line.close().await;
    }
}

/// If the driver's monitor of the server gets no reply, the driver gives up the calls that are in progress, and reports
/// that their connections were closed.
#[tokio::test]
async fn a_call_that_the_drivers_monitor_gives_up_may_have_been_executed() {
    let line = Line::new(TimeMode::Store).await;
    let options = "directConnection=true&serverMonitoringMode=poll&connectTimeoutMS=500\
                   &heartbeatFrequencyMS=500";
    let through = url(&format!("mongodb://{}", line.proxy.addr()), options);
    let watching = Client::with_uri_str(through).await.unwrap();
    let builder = MongoProvider::builder(watching.database(DATABASE));
    let builder = builder.collection(line.collection.name());
    let provider = builder.response_timeout(MINUTE / 3).build().unwrap();
    provider.inspect(&job()).await.unwrap();
    let request = request().with_timeout(MINUTE / 3);
    let owner = request.owner.as_str();
    let unanswered = line
        .proxy
        .on_request(contains(owner), 1, Strike::SwallowReply);
    let silence = async {
        unanswered.struck().await;
        line.proxy.set(Fault::Swallow).await.unwrap();
    };
    let (attempt, ()) = tokio::join!(provider.attempt(&request), silence);
    let error = attempt.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error:?}");
    let record = line.direct.inspect(&job()).await.unwrap().unwrap();
    assert_eq!(record.owner.as_deref(), Some(owner), "it was executed");
    line.close().await;
}

/// In each round another client creates the document just before this one, and removes it before the next look.
#[tokio::test]
async fn a_document_that_comes_and_goes_is_a_lost_race_not_a_conflict() {
    let line = Line::without_document(TimeMode::Store).await;
    let request = request().with_timeout(MINUTE);
    let withheld = |bytes| {
        let withhold = Strike::WithholdRequest;
        line.proxy.on_request(contains(bytes), 1, withhold)
    };
    let others = async {
        let mut creation = withheld(CREATES);
        for round in 1..=ROUNDS {
            creation.struck().await;
            let others = doc! { "_id": "job", "lockUntil": mongodb::bson::DateTime::now() };
            line.collection.insert_one(others).await.unwrap();
            if round == ROUNDS {
                creation.deliver().await;
                return;
            }
            let look = withheld(request.owner.as_str().as_bytes());
            creation.deliver().await;
            look.struck().await;
            line.collection.delete_one(doc! {}).await.unwrap();
            creation = withheld(CREATES);
            look.deliver().await;
        }
    };
    let (attempt, ()) = tokio::join!(line.through.attempt(&request), others);
    let Attempt::Skipped(skip) = attempt.unwrap() else {
        panic!("every race was lost");
    };
    assert_eq!(skip.reason, SkipReason::Contended);
    line.close().await;
}

/// Even if it arrives in time.
#[tokio::test]
async fn an_attempt_that_was_unlocked_is_not_granted_again() {
    for time in MODES {
        let line = Line::new(time).await;
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
        line.close().await;
    }
}

/// A held lock is still skipped, and no attempt of a provider that has not observed the server's time yet is lost.
#[tokio::test]
async fn the_first_attempt_of_a_provider_is_judged_by_the_servers_time() {
    let line = Line::new(TimeMode::Store).await;
    let open = || {
        MongoProvider::builder(line.collection.clone())
            .build()
            .unwrap()
    };
    let attempt = async || {
        let request = request().with_timeout(MINUTE);
        open().attempt(&request).await.unwrap()
    };
    let lease = attempt().await.acquired();
    let lease = lease.expect("the lock should be free");
    let skipped = attempt().await;
    assert!(matches!(skipped, Attempt::Skipped(_)), "{skipped:?}");
    give_back(&open(), &lease).await;
    line.close().await;
}

/// Its reply contains the time at which the lease was won, which is not the server's current time. If it were used as
/// such, the next attempt would carry a limit that has already passed, and its rejection would be treated as a held
/// lock.
#[tokio::test]
async fn an_attempt_that_is_asked_again_late_does_not_have_the_next_one_skipped() {
    let line = Line::new(TimeMode::Store).await;
    let request = request();
    let _ = take(&line.direct, &request).await;
    SystemClock
        .sleep_until(SystemClock.now() + 2 * TIMEOUT)
        .await;
    let lease = take(&line.direct, &request).await;
    give_back(&line.direct, &lease).await;
    let next = take(&line.direct, &self::request()).await;
    give_back(&line.direct, &next).await;
    line.close().await;
}

#[tokio::test]
async fn an_extension_that_arrives_late_does_not_shorten_a_later_one() {
    for time in MODES {
        let line = Line::new(time).await;
        let lease = take(&line.through, &request()).await;
        let short = ExtendRequest::new(Duration::from_secs(1));
        let call = line.through.extend(&lease, &short);
        let owner = lease.owner().as_str().as_bytes();
        let copy = line.held_up(owner, call).await;
        let long = ExtendRequest::new(10 * MINUTE);
        let long = line.direct.extend(&lease, &long).await.unwrap();
        let Extension::Extended(long) = long else {
            panic!("the lease runs: {long:?}");
        };
        copy.arrives().await;
        let record = line.direct.inspect(&job()).await.unwrap().unwrap();
        assert_eq!(record.locked_until, long.locked_until());
        let again = line.direct.extend(&lease, &short).await.unwrap();
        let Extension::Extended(again) = again else {
            panic!("the lease runs: {again:?}");
        };
        assert_eq!(again.locked_until(), long.locked_until());
        line.close().await;
    }
}

/// An operator frees a lock of ShedLock's. Before the request arrives, the same host takes the lock again.
#[tokio::test]
async fn a_forced_unlock_that_arrives_late_frees_no_later_lease_of_the_same_host() {
    let line = Line::without_document(TimeMode::Store).await;
    let now = DateTime::now().timestamp_millis();
    let [earlier, later] = [60_000, 120_000].map(|millis| DateTime::from_millis(now + millis));
    let lease = doc! { "_id": "job", "lockUntil": earlier, "lockedBy": "java-host" };
    line.collection.insert_one(lease).await.unwrap();
    let request = ForceUnlockRequest::new(job());
    let freed = admin::force_unlock(&line.through, &request);
    let copy = line.held_up(b"findAndModify", freed).await;
    let again = doc! { "$set": { "lockUntil": later } };
    let query = doc! { "_id": "job" };
    line.collection.update_one(query, again).await.unwrap();
    assert_eq!(copy.trap.deliver().await, Delivery::Answered);
    let record = line.direct.inspect(&job()).await.unwrap().unwrap();
    assert_eq!(record.state, LockState::Taken, "{record:?}");
    line.close().await;
}

//! Requests that reach the record long after they were sent.

use std::time::Duration;

use shedlock_conformance::proxy::{Fault, Proxy, Strike, contains};
use shedlock_core::{
    AttemptRequest, ErrorKind, ExtendRequest, Extension, Lease, LockProvider as _, LockState,
    PauseRequest, ResumeRequest, admin,
};
use shedlock_sqlx::PostgresProvider;
use sqlx::{Postgres, Transaction};

use crate::common::{address, with_option};
use crate::room::{Room, free, name, request, take};
use shedlock_rig::wait::{found_async, sleep};

/// The timeout of the attempts in these tests.
const TIMEOUT: Duration = Duration::from_secs(3);

/// What the transaction does for which an attempt waits.
#[derive(Clone, Copy, Debug)]
enum InTheWay {
    /// It only locks the record.
    Locks,
    /// It changes the record, and commits.
    Writes,
    /// It changes the record, and rolls back.
    TakesBack,
    /// It creates the record, and rolls back.
    Makes,
}

impl Room {
    /// Starts a transaction that holds the record of this lock, or its name.
    async fn keep(&self, way: InTheWay) -> Transaction<'static, Postgres> {
        let mut transaction = self.admin.begin().await.unwrap();
        let text = match way {
            InTheWay::Locks => "SELECT * FROM shedlock FOR UPDATE",
            InTheWay::Writes | InTheWay::TakesBack => "UPDATE shedlock SET locked_by = locked_by",
            InTheWay::Makes => {
                "INSERT INTO shedlock VALUES ('job', 'epoch'::timestamp, 'epoch'::timestamp, 'x')"
            }
        };
        sqlx::raw_sql(text)
            .execute(&mut *transaction)
            .await
            .unwrap();
        transaction
    }

    /// Waits until this many sessions wait for a transaction.
    async fn waiting(&self, sessions: i64) {
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
            self.schema
        );
        found_async(&format!("{sessions} sessions wait"), async || {
            (self.number(&count).await == sessions).then_some(())
        })
        .await;
    }

    async fn through_proxy(&self) -> (PostgresProvider, Proxy) {
        let store = address(&self.url, 5432).unwrap();
        let proxy = Proxy::start(store).await.unwrap();
        let mut url = url::Url::parse(&self.url).unwrap();
        url.set_ip_host(proxy.addr().ip()).unwrap();
        url.set_port(Some(proxy.addr().port())).unwrap();
        let url = with_option(url.as_str(), "max_connections", "1");
        (PostgresProvider::connect(&url).await.unwrap(), proxy)
    }

    async fn state(&self) -> Option<LockState> {
        let record = self.provider().await.inspect(&name("job")).await.unwrap();
        record.map(|record| record.state)
    }
}

/// Sends an attempt and gives it up while it waits on the server for a transaction. The transaction
/// ends only after the attempt's timeout.
async fn abandoned(room: &Room, options: &str, way: InTheWay) -> AttemptRequest {
    let url = format!("{}&{options}", room.url);
    let provider = PostgresProvider::connect(&url).await.unwrap();
    if !matches!(way, InTheWay::Makes) {
        free(&provider, &take(&provider, "job").await).await;
    }
    let transaction = room.keep(way).await;
    let attempt = request("job").with_timeout(TIMEOUT);
    tokio::select! {
        answer = provider.attempt(&attempt) => panic!("the record is locked: {answer:?}"),
        () = room.waiting(1) => {}
    }
    sleep(TIMEOUT).await;
    match way {
        InTheWay::Writes => transaction.commit().await.unwrap(),
        _ => transaction.rollback().await.unwrap(),
    }
    room.waiting(0).await;
    attempt
}

async fn takes_no_lock(options: &str) {
    use InTheWay::{Locks, Makes, TakesBack, Writes};
    for way in [Locks, Writes, TakesBack, Makes] {
        let room = Room::migrated().await;
        let attempt = abandoned(&room, options, way).await;
        let state = room.state().await;
        let is_free = state.is_none_or(|state| state == LockState::Free);
        assert!(is_free, "{way:?}: {attempt:?} took the lock: {state:?}");
        free(
            &room.provider().await,
            &take(&room.provider().await, "job").await,
        )
        .await;
    }
}

#[tokio::test]
async fn a_late_copy_of_an_attempt_takes_no_lock() {
    takes_no_lock("").await;
}

#[tokio::test]
async fn a_late_copy_takes_no_lock_where_clients_clocks_rule() {
    takes_no_lock("time=client").await;
}

#[tokio::test]
async fn a_late_copy_takes_no_lock_without_prepared_statements() {
    takes_no_lock("prepared=false").await;
}

/// The first look at the table has already returned the server's time.
#[tokio::test]
async fn a_first_attempt_is_sent_once() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    free(&provider, &take(&provider, "job").await).await;
    let (provider, proxy) = room.through_proxy().await;
    let attempt = request("job");
    let sent = proxy.count(contains(attempt.owner.as_str()));
    let lease = provider.attempt(&attempt).await.unwrap();
    assert_eq!(sent.seen(), 1);
    free(&provider, &lease.acquired().unwrap()).await;
}

#[tokio::test]
async fn an_attempt_that_waits_less_than_its_timeout_takes_the_lock() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    free(&provider, &take(&provider, "job").await).await;
    let transaction = room.keep(InTheWay::Locks).await;
    let attempt = request("job");
    let (answer, ()) = futures_util::join!(provider.attempt(&attempt), async {
        room.waiting(1).await;
        transaction.rollback().await.unwrap();
    });
    let lease = answer.unwrap().acquired().unwrap();
    free(&provider, &lease).await;
}

/// The commit of an attempt takes long (here because of a trigger; in practice because a disk
/// stalls or a standby is missing). No other session sees the attempt yet.
async fn outlasts(room: &Room) {
    room.run(
        "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF NEW.lock_until > timezone('utc', clock_timestamp()) THEN PERFORM pg_sleep(5); END IF; \
         RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER stall AFTER INSERT OR UPDATE ON shedlock \
         DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stall()",
    )
    .await;
    let provider = room.provider().await;
    let attempt = request("job").with_timeout(TIMEOUT);
    tokio::select! {
        answer = provider.attempt(&attempt) => panic!("the commit should stall: {answer:?}"),
        () = sleep(TIMEOUT + Duration::from_millis(100)) => {}
    }
    let withdrawn = provider.withdraw(&attempt).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(room.state().await, Some(LockState::Free), "{withdrawn}");
    assert!(withdrawn);
    assert!(!provider.withdraw(&attempt).await.unwrap());
    let error = provider.attempt(&attempt).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}

#[tokio::test]
async fn a_withdrawal_outlasts_a_commit_that_stalls() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    free(&provider, &take(&provider, "job").await).await;
    outlasts(&room).await;
}

#[tokio::test]
async fn a_withdrawal_outlasts_an_insert_whose_commit_stalls() {
    outlasts(&Room::migrated().await).await;
}

#[tokio::test]
async fn a_withdrawal_of_nothing_leaves_the_record_of_another_name_alone() {
    let room = Room::empty().await;
    room.run(
        "CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', \
         deterministic = false)",
    )
    .await;
    room.run(&format!(
        "CREATE TABLE shedlock ({})",
        crate::room::SHEDLOCKS.replace("VARCHAR(64)", "VARCHAR(64) COLLATE anycase")
    ))
    .await;
    let provider = room.provider().await;
    free(&provider, &take(&provider, "Job").await).await;
    let before = provider.inspect(&name("Job")).await.unwrap().unwrap();
    assert!(!provider.withdraw(&request("job")).await.unwrap());
    assert!(!provider.withdraw(&request(&"n".repeat(65))).await.unwrap());
    let after = provider.inspect(&name("Job")).await.unwrap().unwrap();
    assert_eq!(after.locked_until, before.locked_until);
    assert_eq!(room.number("SELECT count(*) FROM shedlock").await, 1);
}

#[tokio::test]
async fn an_attempt_that_has_ended_takes_no_lock() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    let attempt = request("job");
    let lease = provider.attempt(&attempt).await.unwrap();
    free(&provider, &lease.acquired().unwrap()).await;
    let error = provider.attempt(&attempt).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert_eq!(room.state().await, Some(LockState::Free));
    free(&provider, &take(&provider, "job").await).await;
}

async fn extended(provider: &PostgresProvider, lease: &Lease, seconds: u64) -> Lease {
    let request = ExtendRequest::new(Duration::from_secs(seconds));
    match provider.extend(lease, &request).await.unwrap() {
        Extension::Extended(lease) => lease,
        other => panic!("the lease is ours: {other:?}"),
    }
}

#[tokio::test]
async fn a_late_extension_does_not_cut_a_later_one_short() {
    for columns in ["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP(0)"] {
        let room = Room::with(&crate::room::SHEDLOCKS.replace("TIMESTAMP", columns)).await;
        let (slow, proxy) = room.through_proxy().await;
        let direct = room.provider().await;
        let lease = take(&slow, "job").await;
        let delay = Fault::Delay {
            to_store: Duration::from_millis(300),
            to_client: Duration::ZERO,
        };
        proxy.set(delay).await.unwrap();
        let (late, longer) =
            futures_util::join!(extended(&slow, &lease, 90), extended(&direct, &lease, 600));
        let end = longer.locked_until().unwrap();
        let record = direct.inspect(&name("job")).await.unwrap().unwrap();
        assert_eq!(record.locked_until, Some(end), "{columns}");
        assert_eq!(late.locked_until(), Some(end), "{columns}");
    }
}

/// Another owner takes the lock between two copies of a resumption, so the second one finds no pause.
#[tokio::test]
async fn a_resumption_that_was_overtaken_after_a_lost_reply_is_unknown() {
    let room = Room::migrated().await;
    let (slow, proxy) = room.through_proxy().await;
    let direct = room.provider().await;
    admin::pause(&direct, &PauseRequest::new(name("job"), "operator-1"))
        .await
        .unwrap();
    // The statement that changes the record. The one that reads it contains only its name.
    let trap = proxy.on_request(contains("operator-1"), 1, Strike::SwallowReply);
    let resume = ResumeRequest::new(name("job"));
    let resumed = admin::resume(&slow, &resume);
    let overtakes = async {
        let taken = found_async("the pause ends", async || {
            let attempt = direct.attempt(&request("job")).await.unwrap();
            attempt.acquired()
        });
        let taken = taken.await;
        proxy.cut_all();
        taken
    };
    let (resumed, taken) = futures_util::join!(resumed, overtakes);
    assert!(trap.has_struck());
    let error = resumed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error:?}");
    free(&direct, &taken).await;
}

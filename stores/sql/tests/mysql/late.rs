//! Requests that reach the record long after they were sent.

use std::time::Duration;

use shedlock_conformance::proxy::{Fault, Proxy, contains};
use shedlock_core::{
    AttemptRequest, ErrorKind, ExtendRequest, Extension, Lease, LockProvider as _, LockState,
};
use shedlock_sqlx::MySqlProvider;
use sqlx::{AssertSqlSafe, Executor as _, MySql, Transaction};

use crate::common::{address, with_option};
use crate::room::{Room, SHEDLOCKS, free, record, request, take};
use shedlock_rig::wait::{found_async, sleep};

/// The timeout of the attempts in these tests.
const TIMEOUT: Duration = Duration::from_secs(3);

impl Room {
    async fn keep(&self, text: &'static str) -> Transaction<'static, MySql> {
        let mut transaction = self.admin.begin().await.unwrap();
        transaction.execute(text).await.unwrap();
        transaction
    }

    /// Waits until this many statements that match `like` wait for a transaction.
    async fn waiting(&self, like: &str, statements: i64) {
        let database = self.url.rsplit('/').next().unwrap();
        let count = format!(
            "SELECT COUNT(*) FROM information_schema.processlist \
             WHERE db = '{database}' AND info LIKE '{like}' AND id <> CONNECTION_ID()"
        );
        found_async(&format!("{statements} statements wait"), async || {
            (self.number(&count).await == statements).then_some(())
        })
        .await;
    }

    async fn through(&self, proxy: &Proxy) -> MySqlProvider {
        let mut url = url::Url::parse(&self.url).unwrap();
        url.set_host(Some(&proxy.addr().ip().to_string())).unwrap();
        url.set_port(Some(proxy.addr().port())).unwrap();
        let url = with_option(url.as_str(), "max_connections", "1");
        let url = with_option(&url, "ssl-mode", "disabled");
        MySqlProvider::connect(&url).await.unwrap()
    }
}

const LOCK: &str = "SELECT * FROM shedlock FOR UPDATE";
const WRITE: &str = "UPDATE shedlock SET locked_by = CONCAT(locked_by, '.')";
const MAKE: &str = "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
                    VALUES ('job', '2001-01-01', '2001-01-01', 'x')";

const UPDATE: &str = "%UPDATE %SET %";
const INSERT: &str = "INSERT %";

/// Sends the attempt, and gives it up once it waits on the server.
async fn abandon(room: &Room, provider: &MySqlProvider, attempt: &AttemptRequest) {
    tokio::select! {
        answer = provider.attempt(attempt) => panic!("the record is locked: {answer:?}"),
        () = room.waiting(UPDATE, 1) => {}
    }
}

/// A transaction lets an attempt continue only after its timeout, when its sender has given up.
async fn takes_no_lock(server: &str, table: Option<&str>, option: (&str, &str)) {
    for (text, commits) in [(LOCK, false), (WRITE, true), (WRITE, false)] {
        let room = match table {
            Some(table) => {
                let room = Room::empty(server).await;
                room.run(table).await;
                room
            }
            None => Room::migrated(server).await,
        };
        let url = with_option(&room.url, option.0, option.1);
        let provider = MySqlProvider::connect(&url).await.unwrap();
        free(&provider, &take(&provider, "job").await).await;
        let transaction = room.keep(text).await;
        let attempt = request("job").with_timeout(TIMEOUT);
        abandon(&room, &provider, &attempt).await;
        sleep(TIMEOUT).await;
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        room.waiting(UPDATE, 0).await;
        sleep(Duration::from_millis(200)).await;
        let found = record(&provider, "job").await;
        assert_eq!(found.state, LockState::Free, "{text}: {attempt:?}");
        free(&provider, &take(&provider, "job").await).await;
    }
}

pub(crate) async fn a_late_copy_of_an_attempt_takes_no_lock(server: &str) {
    takes_no_lock(server, None, ("max_connections", "4")).await;
    let datetimes = SHEDLOCKS.replace("TIMESTAMP(3)", "DATETIME(6)");
    let datetimes = datetimes.replace("CURRENT_DATETIME(6)", "CURRENT_TIMESTAMP(6)");
    let datetimes = datetimes.replace("CURRENT_TIMESTAMP(3)", "CURRENT_TIMESTAMP(6)");
    takes_no_lock(server, Some(&datetimes), ("prepared", "false")).await;
}

pub(crate) async fn a_late_copy_takes_no_lock_where_clients_clocks_rule(server: &str) {
    takes_no_lock(server, None, ("time", "client")).await;
}

pub(crate) async fn a_late_copy_takes_no_lock_in_a_zone_of_javas(server: &str) {
    takes_no_lock(server, None, ("shared_session_zone", "+05:30")).await;
}

/// An insert checks whether it is late before it waits for another insert. A withdrawal waits after
/// that insert.
pub(crate) async fn a_withdrawal_waits_for_an_insert_under_way(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider().await;
    let pool = room.pool("+00:00", "").await;
    let transaction = room.keep(MAKE).await;
    let attempt = request("job").with_timeout(TIMEOUT);
    let copy = format!(
        "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES \
         ('job', UTC_TIMESTAMP(3) + INTERVAL 1 HOUR, UTC_TIMESTAMP(3), '{}')",
        &attempt.owner
    );
    let withdrawn = async {
        room.waiting(INSERT, 1).await;
        provider.withdraw(&attempt).await.unwrap()
    };
    let copy = sqlx::raw_sql(AssertSqlSafe(copy)).execute(&pool);
    let (written, withdrawn, ()) = futures_util::join!(copy, withdrawn, async {
        room.waiting(INSERT, 1).await;
        room.waiting(UPDATE, 1).await;
        transaction.rollback().await.unwrap();
    });
    // Either order is possible: the copy is withdrawn, or it finds the record that the withdrawal
    // created.
    assert_eq!(withdrawn, written.is_ok(), "{written:?}");
    assert_eq!(record(&provider, "job").await.state, LockState::Free);
}

/// The first look at the table has already returned the server's time.
pub(crate) async fn a_first_attempt_is_sent_once(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider().await;
    free(&provider, &take(&provider, "job").await).await;
    let proxy = Proxy::start(address(&room.url, 3306).unwrap())
        .await
        .unwrap();
    let provider = room.through(&proxy).await;
    let attempt = request("job");
    let sent = proxy.count(contains(attempt.owner.as_str()));
    let lease = provider.attempt(&attempt).await.unwrap();
    assert_eq!(sent.seen(), 1);
    free(&provider, &lease.acquired().unwrap()).await;
}

pub(crate) async fn an_attempt_that_has_ended_takes_no_lock(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider().await;
    let attempt = request("job");
    let lease = provider.attempt(&attempt).await.unwrap();
    free(&provider, &lease.acquired().unwrap()).await;
    let error = provider.attempt(&attempt).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert_eq!(record(&provider, "job").await.state, LockState::Free);
    free(&provider, &take(&provider, "job").await).await;
}

async fn extended(provider: &MySqlProvider, lease: &Lease, seconds: u64) -> Lease {
    let request = ExtendRequest::new(Duration::from_secs(seconds));
    match provider.extend(lease, &request).await.unwrap() {
        Extension::Extended(lease) => lease,
        other => panic!("the lease is ours: {other:?}"),
    }
}

pub(crate) async fn a_late_extension_does_not_cut_a_later_one_short(server: &str) {
    for columns in ["TIMESTAMP(3)", "TIMESTAMP(6)", "DATETIME(6)", "DATETIME"] {
        let room = Room::empty(server).await;
        let table = SHEDLOCKS.replace(" DEFAULT CURRENT_TIMESTAMP(3)", "");
        let table = table.replacen(
            "TIMESTAMP(3) NOT NULL",
            "X NOT NULL DEFAULT '2001-01-01'",
            2,
        );
        room.run(&table.replace('X', columns)).await;
        let proxy = Proxy::start(address(&room.url, 3306).unwrap())
            .await
            .unwrap();
        let (slow, direct) = (room.through(&proxy).await, room.provider().await);
        let lease = take(&slow, "job").await;
        let delay = Fault::Delay {
            to_store: Duration::from_millis(300),
            to_client: Duration::ZERO,
        };
        proxy.set(delay).await.unwrap();
        let longer = async {
            let _ = extended(&direct, &lease, 8_000).await;
            record(&direct, "job").await.locked_until
        };
        let (_, end) = futures_util::join!(extended(&slow, &lease, 5_000), longer);
        let found = record(&direct, "job").await;
        assert_eq!(found.locked_until, end, "{columns}");
        let left = end.unwrap().duration_since(found.read_at.unwrap()).unwrap();
        assert!(left > Duration::from_secs(7_900), "{columns}: {found:?}");
    }
}

/// A server does not count rows that a statement leaves unchanged as affected, unless the client
/// requests the number of rows found.
pub(crate) async fn an_extension_that_changes_nothing_is_not_lost(server: &str) {
    let room = Room::migrated(server).await;
    let pool = room.pool("+00:00", "").await;
    let pooled = MySqlProvider::builder(pool).build().unwrap();
    let own = room.provider().await;
    let lease = take(&own, "job").await;
    let before = record(&own, "job").await;
    for provider in [&own, &pooled] {
        let _ = extended(provider, &lease, 90).await;
        let after = record(provider, "job").await;
        assert_eq!(after.locked_until, before.locked_until);
    }
    // An extension to a later end still works.
    let _ = extended(&own, &lease, 9_000).await;
    assert!(record(&own, "job").await.locked_until > before.locked_until);
}

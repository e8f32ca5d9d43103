//! What the laws do not say, over PostgreSQL: ShedLock's tables and statements, odd set-ups,
//! failures of servers.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::time::{Duration, SystemTime};

use common::{server, server_if_any, unique, wait, with_option};
use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, ExtendRequest, Extension, ForceUnlock,
    ForceUnlockRequest, Lease, LockName, LockProvider, LockState, Owner, Skip, SkipReason, Slot,
    Unlock, UnlockRequest,
};
use shedlock_sql::PostgresProvider;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool, Row as _};

/// As ShedLock's documentation has it.
const SHEDLOCKS: &str = "name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, \
    locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name)";

/// A schema of its own, and a way to it as its owner.
struct Room {
    schema: String,
    url: String,
    admin: PgPool,
}

impl Room {
    async fn empty() -> Self {
        let server = server("SHEDLOCK_TEST_POSTGRES_URL");
        let schema = unique("room");
        let options: PgConnectOptions = server.parse().unwrap();
        let admin = PgPoolOptions::new()
            .max_connections(2)
            .connect_with(options.options([("search_path", &schema)]))
            .await
            .unwrap();
        let room = Self {
            url: with_option(&server, "schema", &schema),
            schema,
            admin,
        };
        room.run(&format!("CREATE SCHEMA {}", room.schema)).await;
        room
    }

    async fn with(columns: &str) -> Self {
        let room = Self::empty().await;
        room.run(&format!("CREATE TABLE shedlock ({columns})"))
            .await;
        room
    }

    async fn migrated() -> Self {
        let room = Self::empty().await;
        let changes = room.provider().await.migrate().await.unwrap().changes;
        assert_eq!(changes.len(), 1, "{changes:?}");
        room
    }

    async fn provider(&self) -> PostgresProvider {
        PostgresProvider::connect(&self.url).await.unwrap()
    }

    async fn run(&self, text: &str) -> u64 {
        sqlx::raw_sql(AssertSqlSafe(text))
            .execute(&self.admin)
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .rows_affected()
    }

    async fn number(&self, text: &str) -> i64 {
        sqlx::raw_sql(AssertSqlSafe(text))
            .fetch_one(&self.admin)
            .await
            .unwrap()
            .get(0)
    }

    /// The user's own pool with these settings for each session.
    async fn pool(&self, size: u32, settings: &[(&str, &str)]) -> PgPool {
        let options: PgConnectOptions = server("SHEDLOCK_TEST_POSTGRES_URL").parse().unwrap();
        PgPoolOptions::new()
            .max_connections(size)
            .connect_with(options.options(settings.iter().copied()))
            .await
            .unwrap()
    }

    async fn provider_over(&self, settings: &[(&str, &str)]) -> PostgresProvider {
        PostgresProvider::builder(self.pool(4, settings).await)
            .schema(&self.schema)
            .build()
            .unwrap()
    }
}

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

fn request(lock: &str) -> AttemptRequest {
    AttemptRequest::new(name(lock), Owner::generate(), Duration::from_secs(60))
}

async fn take(provider: &dyn LockProvider, lock: &str) -> Lease {
    match provider.attempt(&request(lock)).await.unwrap() {
        Attempt::Acquired(lease) => lease,
        other => panic!("{lock} should be free: {other:?}"),
    }
}

/// Takes the lock and leaves it held.
async fn hold(provider: &dyn LockProvider, lock: &str) {
    let _ = take(provider, lock).await;
}

/// Makes the table.
async fn migrate(provider: &dyn LockProvider) {
    let _ = provider.migrate().await.unwrap();
}

async fn skip(provider: &dyn LockProvider, request: &AttemptRequest) -> Skip {
    match provider.attempt(request).await.unwrap() {
        Attempt::Skipped(skip) => skip,
        other => panic!("should be skipped: {other:?}"),
    }
}

async fn free(provider: &dyn LockProvider, lease: &Lease) {
    let answer = provider.unlock(lease, &UnlockRequest::new()).await.unwrap();
    assert_eq!(answer, Unlock::Unlocked);
}

async fn refusal(provider: &dyn LockProvider, kind: ErrorKind) -> Error {
    let error = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    error
}

/// The statements that ShedLock 7.9.0 sends in db-time mode, by their effect (wire format 3.5).
struct Java<'a> {
    room: &'a Room,
    host: &'static str,
}

impl Java<'_> {
    const NOW: &'static str = "timezone('utc', CURRENT_TIMESTAMP)";

    async fn insert(&self, lock: &str, seconds: f64) -> bool {
        let (now, host) = (Self::NOW, self.host);
        self.room
            .run(&format!(
                "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) \
                 VALUES('{lock}', {now} + make_interval(secs => {seconds}), {now}, '{host}') \
                 ON CONFLICT (name) DO UPDATE SET lock_until = {now} + \
                 make_interval(secs => {seconds}), locked_at = {now}, locked_by = '{host}' \
                 WHERE shedlock.lock_until <= {now}"
            ))
            .await
            > 0
    }

    async fn update(&self, lock: &str, seconds: f64) -> bool {
        let (now, host) = (Self::NOW, self.host);
        self.room
            .run(&format!(
                "UPDATE shedlock SET lock_until = {now} + make_interval(secs => {seconds}), \
                 locked_at = {now}, locked_by = '{host}' \
                 WHERE name = '{lock}' AND lock_until <= {now}"
            ))
            .await
            > 0
    }

    async fn extend(&self, lock: &str, seconds: f64) -> bool {
        let (now, host) = (Self::NOW, self.host);
        self.room
            .run(&format!(
                "UPDATE shedlock SET lock_until = {now} + make_interval(secs => {seconds}) \
                 WHERE name = '{lock}' AND locked_by = '{host}' AND lock_until > {now}"
            ))
            .await
            > 0
    }

    async fn unlock(&self, lock: &str) {
        let (now, host) = (Self::NOW, self.host);
        self.room
            .run(&format!(
                "UPDATE shedlock SET lock_until = CASE WHEN {now} < locked_at + \
                 make_interval(secs => 0) THEN locked_at ELSE {now} END \
                 WHERE name = '{lock}' AND locked_by = '{host}'"
            ))
            .await;
    }
}

/// Both directions, on this room's table.
async fn share_with_java(room: &Room) {
    let provider = room.provider().await;
    let java = Java {
        room,
        host: "web-3",
    };
    assert!(java.insert("job", 60.0).await, "Java inserts");
    let answer = skip(&provider, &request("job")).await;
    assert_eq!(answer.reason, SkipReason::Held);
    assert_eq!(answer.owner.as_deref(), Some("web-3"));
    assert!(java.extend("job", 120.0).await);
    java.unlock("job").await;

    let lease = take(&provider, "job").await;
    assert!(!java.insert("job", 60.0).await, "held by us: no insert");
    assert!(!java.update("job", 60.0).await, "held by us: no update");
    assert!(!java.extend("job", 60.0).await, "not Java's");
    java.unlock("job").await;
    assert!(
        !java.update("job", 60.0).await,
        "Java's unlock frees ours not"
    );
    free(&provider, &lease).await;

    assert!(java.update("job", 60.0).await, "free again");
    let stale = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(stale.unwrap(), Unlock::Lost);
    assert!(
        !java.update("job", 60.0).await,
        "a stale unlock frees not Java's"
    );
}

#[tokio::test]
async fn a_table_that_shedlock_made_works_unaltered() {
    let room = Room::with(SHEDLOCKS).await;
    share_with_java(&room).await;
    let provider = room.provider().await;
    let lease = take(&provider, "other").await;
    assert_eq!(lease.fencing_token(), None);
    let slot = Slot::at(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    let error = provider
        .attempt(&request("slotted").with_slot(slot))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("shedlock migrate"), "{error}");
    assert!(!provider.capabilities().slots);
    assert!(!provider.capabilities().fencing);
}

#[tokio::test]
async fn a_table_that_was_migrated_still_takes_shedlocks_statements() {
    let room = Room::with(SHEDLOCKS).await;
    let before = room.provider().await;
    hold(&before, "old").await;
    let migration = room.provider().await.migrate().await.unwrap();
    assert_eq!(migration.changes.len(), 2, "{migration:?}");
    let again = room.provider().await.migrate().await.unwrap();
    assert!(again.changes.is_empty(), "{again:?}");
    share_with_java(&room).await;

    // A provider that knew the table as it was sees the columns when it needs them.
    let slot = Slot::at(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    let attempt = before.attempt(&request("slotted").with_slot(slot)).await;
    let lease = attempt.unwrap().acquired().unwrap();
    assert!(lease.fencing_token().is_some());
}

#[tokio::test]
async fn columns_that_vanish_are_missed_without_harm() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    let lease = take(&provider, "job").await;
    assert!(lease.fencing_token().is_some());
    room.run("ALTER TABLE shedlock DROP COLUMN shedlock_fencing_token")
        .await;
    free(&provider, &lease).await;
    assert_eq!(take(&provider, "job").await.fencing_token(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_migrate_at_once() {
    for columns in [None, Some(SHEDLOCKS)] {
        let room = match columns {
            Some(columns) => Room::with(columns).await,
            None => Room::empty().await,
        };
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let provider = room.provider().await;
            tasks.push(tokio::spawn(async move { provider.migrate().await }));
        }
        let mut changes = Vec::new();
        for task in tasks {
            changes.extend(task.await.unwrap().unwrap().changes);
        }
        let expected = if columns.is_some() { 2 } else { 1 };
        assert_eq!(changes.len(), expected, "each is made once: {changes:?}");
    }
}

#[tokio::test]
async fn the_sessions_zone_changes_nothing() {
    for columns in [
        SHEDLOCKS.to_owned(),
        SHEDLOCKS.replace("TIMESTAMP", "TIMESTAMPTZ"),
    ] {
        let room = Room::with(&columns).await;
        let east = room.provider_over(&[("TimeZone", "Asia/Kolkata")]).await;
        let west = room
            .provider_over(&[("TimeZone", "America/St_Johns")])
            .await;
        let lease = take(&east, "job").await;
        assert_eq!(skip(&west, &request("job")).await.reason, SkipReason::Held);
        let record = west.inspect(&name("job")).await.unwrap().unwrap();
        assert_eq!(record.locked_until, lease.locked_until());
        let read_at = record.read_at.unwrap();
        let left = record
            .locked_until
            .unwrap()
            .duration_since(read_at)
            .unwrap();
        assert!((50..=60).contains(&left.as_secs()), "{left:?}");
        free(&west, &lease).await;
        free(&east, &take(&east, "job").await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serializable_transactions_make_no_errors() {
    let room = Room::migrated().await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let provider = room
            .provider_over(&[("default_transaction_isolation", "serializable")])
            .await;
        tasks.push(tokio::spawn(async move {
            let mut won = 0;
            for _ in 0..50 {
                if let Attempt::Acquired(lease) = provider.attempt(&request("job")).await.unwrap() {
                    won += 1;
                    free(&provider, &lease).await;
                }
            }
            won
        }));
    }
    let mut won = 0;
    for task in tasks {
        won += task.await.unwrap();
    }
    assert!(won > 0);
}

#[tokio::test]
async fn tables_and_columns_may_have_other_names() {
    let room = Room::empty().await;
    let url = format!(
        "{}&table=\"Job-Locks\"&name_column=Lock_Name&lock_until_column=\"Until\"&\
         locked_at_column=since&locked_by_column=holder",
        room.url
    );
    let provider = PostgresProvider::connect(&url).await.unwrap();
    migrate(&provider).await;
    let lease = take(&provider, "job").await;
    let found = room
        .number("SELECT count(*) FROM \"Job-Locks\" WHERE lock_name = 'job' AND \"Until\" > since")
        .await;
    assert_eq!(found, 1);
    free(&provider, &lease).await;
}

#[tokio::test]
async fn a_plain_name_is_folded_as_shedlocks_is() {
    let room = Room::with(SHEDLOCKS).await;
    let folded = with_option(&room.url, "table", "shedLock");
    let provider = PostgresProvider::connect(&folded).await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
}

/// Others write to the same server meanwhile; between two readings nobody may, sometimes.
#[tokio::test]
async fn an_attempt_on_a_held_lock_writes_no_wal() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    hold(&provider, "job").await;
    let wal = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let mut least = i64::MAX;
    for _ in 0..300 {
        let before = room.number(wal).await;
        let answer = skip(&provider, &request("job")).await;
        assert_eq!(answer.reason, SkipReason::Held);
        least = least.min(room.number(wal).await - before);
        if least == 0 {
            return;
        }
    }
    panic!("a lost attempt wrote at least {least} bytes");
}

#[tokio::test]
async fn tables_that_cannot_serve_are_refused_with_their_own_words() {
    let cases = [
        (
            SHEDLOCKS.replace(", PRIMARY KEY (name)", ""),
            "neither primary key nor unique",
        ),
        (
            SHEDLOCKS.replace("VARCHAR(64)", "CHAR(64)"),
            "varchar or text is needed",
        ),
        (
            SHEDLOCKS.replace("lock_until TIMESTAMP", "lock_until DATE"),
            "timestamp or timestamptz",
        ),
        (
            SHEDLOCKS.replace("locked_by", "owner"),
            "no column \"locked_by\"",
        ),
        (
            format!("{SHEDLOCKS}, team INT NOT NULL"),
            "column \"team\" that must be filled",
        ),
        (
            SHEDLOCKS.replace("PRIMARY KEY (name)", "PRIMARY KEY (name, locked_by)"),
            "neither primary key nor unique",
        ),
    ];
    for (columns, words) in cases {
        let room = Room::with(&columns).await;
        let provider = room.provider_over(&[]).await;
        let error = refusal(&provider, ErrorKind::Configuration).await;
        assert!(error.to_string().contains(words), "{columns}: {error}");
        assert_eq!(
            provider.check().await.unwrap_err().kind(),
            ErrorKind::Configuration
        );
    }
}

#[tokio::test]
async fn a_missing_table_is_told_with_what_makes_it() {
    let room = Room::empty().await;
    let provider = room.provider().await;
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(error.to_string().contains("shedlock migrate"), "{error}");
    assert!(error.to_string().contains("CREATE TABLE"), "{error}");
    migrate(&provider).await;
    hold(&provider, "job").await;
    room.run("DROP TABLE shedlock").await;
    refusal(&provider, ErrorKind::Configuration).await;
    migrate(&provider).await;
    hold(&provider, "job").await;
}

#[tokio::test]
async fn a_constraint_is_named_and_never_taken_for_a_held_lock() {
    let room = Room::with(&format!(
        "{SHEDLOCKS}, CONSTRAINT short CHECK (length(name) < 2)"
    ))
    .await;
    let provider = room.provider().await;
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(error.to_string().contains("\"short\""), "{error}");

    let room = Room::with(&format!("{SHEDLOCKS}, CONSTRAINT one UNIQUE (locked_at)")).await;
    room.run("ALTER TABLE shedlock ALTER locked_at SET DEFAULT '2020-01-01'")
        .await;
    room.run(
        "CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN NEW.locked_at = '2020-01-01'; RETURN NEW; END $$; \
         CREATE TRIGGER same BEFORE INSERT ON shedlock FOR EACH ROW EXECUTE FUNCTION same()",
    )
    .await;
    let provider = room.provider().await;
    hold(&provider, "first").await;
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(error.to_string().contains("\"one\""), "{error}");
}

#[tokio::test]
async fn names_that_a_collation_takes_for_the_same_never_share_a_record() {
    let room = Room::empty().await;
    room.run(
        "CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', \
         deterministic = false)",
    )
    .await;
    let columns = SHEDLOCKS.replace("VARCHAR(64)", "VARCHAR(64) COLLATE anycase");
    room.run(&format!("CREATE TABLE shedlock ({columns})"))
        .await;
    let provider = room.provider().await;
    let lease = take(&provider, "Job").await;
    let error = refusal(&provider, ErrorKind::Conflict).await;
    assert!(error.to_string().contains("\"Job\""), "{error}");
    assert!(provider.inspect(&name("job")).await.unwrap().is_none());
    free(&provider, &lease).await;
    refusal(&provider, ErrorKind::Conflict).await;
    free(&provider, &take(&provider, "Job").await).await;
}

#[tokio::test]
async fn a_missing_privilege_is_told() {
    let room = Room::migrated().await;
    let role = unique("role");
    room.run(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {} TO {role}; \
         GRANT SELECT ON shedlock TO {role}",
        room.schema
    ))
    .await;
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_username(&role).unwrap();
    let provider = PostgresProvider::connect(url.as_str()).await.unwrap();
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(error.to_string().contains("privilege"), "{error}");
    room.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_told() {
    let room = Room::migrated().await;
    let provider = room
        .provider_over(&[("default_transaction_read_only", "on")])
        .await;
    let error = refusal(&provider, ErrorKind::Unavailable).await;
    assert!(error.to_string().contains("standby"), "{error}");
    assert!(provider.inspect(&name("job")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_told_without_secrets() {
    let kind = |url: &'static str| async move {
        let error = PostgresProvider::connect(url).await.unwrap_err();
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        error.kind()
    };
    let closed = "postgres://me:secret@127.0.0.1:1/db";
    assert_eq!(kind(closed).await, ErrorKind::Unavailable);
    let unknown = "postgres://me:secret@127.0.0.1:1/db?tabel=x";
    assert_eq!(kind(unknown).await, ErrorKind::InvalidInput);
    let option = "postgres://me:secret@127.0.0.1:1/db?sslmode=perhaps";
    assert_eq!(kind(option).await, ErrorKind::InvalidInput);
    let other = common::with_database(&server("SHEDLOCK_TEST_POSTGRES_URL"), "no_such_db");
    let error = PostgresProvider::connect(&other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let provider = room_with_secret().await;
    assert!(!format!("{provider:?}").contains("hunter2"), "{provider:?}");
}

async fn room_with_secret() -> PostgresProvider {
    // The server trusts everybody on loopback; the password is for us to hide.
    let mut url = url::Url::parse(&server("SHEDLOCK_TEST_POSTGRES_URL")).unwrap();
    url.set_password(Some("hunter2")).unwrap();
    PostgresProvider::connect(url.as_str()).await.unwrap()
}

#[tokio::test]
async fn a_name_that_does_not_fit_is_refused_before_anything_is_written() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    let fits = "é".repeat(64);
    free(&provider, &take(&provider, &fits).await).await;
    let error = provider
        .attempt(&request(&"n".repeat(65)))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("65"), "{error}");
    let forever = AttemptRequest::new(name("job"), Owner::generate(), Duration::MAX);
    let error = provider.attempt(&forever).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn connections_that_break_between_calls_are_not_noticed() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    let kill = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE pid <> pg_backend_pid() AND query LIKE '%{}%'",
        room.schema
    );
    let lease = take(&provider, "job").await;
    assert!(room.number(&kill).await > 0);
    let extend = ExtendRequest::new(Duration::from_secs(60));
    let Extension::Extended(lease) = provider.extend(&lease, &extend).await.unwrap() else {
        panic!("the lease is ours still");
    };
    assert!(room.number(&kill).await > 0);
    free(&provider, &lease).await;
    assert!(room.number(&kill).await > 0);
    let lease = take(&provider, "job").await;
    assert!(room.number(&kill).await > 0);
    let record = provider.inspect(&name("job")).await.unwrap().unwrap();
    assert_eq!(record.state, LockState::Held);
    assert_eq!(record.owner.as_deref(), Some(lease.owner().as_str()));
}

#[tokio::test]
async fn a_record_that_a_transaction_keeps_locked_makes_nobody_wait_long() {
    let room = Room::migrated().await;
    let url = with_option(&room.url, "options", "-c lock_timeout=300ms");
    let provider = PostgresProvider::connect(&url).await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
    let mut transaction = room.admin.begin().await.unwrap();
    sqlx::raw_sql("SELECT * FROM shedlock FOR UPDATE")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let error = refusal(&provider, ErrorKind::Unavailable).await;
    assert!(error.to_string().contains("long transactions"), "{error}");
    transaction.rollback().await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
}

#[tokio::test]
async fn an_abandoned_attempt_is_in_nobodys_way() {
    let room = Room::migrated().await;
    let url = with_option(&room.url, "max_connections", "1");
    let provider = PostgresProvider::connect(&url).await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
    let mut transaction = room.admin.begin().await.unwrap();
    sqlx::raw_sql("SELECT * FROM shedlock FOR UPDATE")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let abandoned = request("job");
    tokio::select! {
        answer = provider.attempt(&abandoned) => panic!("the record is locked: {answer:?}"),
        () = wait(Duration::from_millis(200)) => {}
    }
    // The one connection is free again, although its statement waits on the server still.
    free(&provider, &take(&provider, "other").await).await;
    transaction.rollback().await.unwrap();
}

/// Each session of the pool meets another server connection, and none keeps a statement.
#[tokio::test(flavor = "multi_thread")]
async fn pgbouncer_in_transaction_pooling_serves() {
    let Some(bouncer) = server_if_any("SHEDLOCK_TEST_PGBOUNCER") else {
        // Said by xtask, which looked for it.
        return;
    };
    let room = Room::migrated().await;
    let url = format!(
        "{}&prepared=false",
        with_option(&bouncer, "schema", &room.schema)
    );
    let mut tasks = Vec::new();
    for worker in 0..8 {
        let provider = PostgresProvider::connect(&url).await.unwrap();
        tasks.push(tokio::spawn(async move {
            for turn in 0..20 {
                let lock = format!("it's \\ {worker} :name $1 ?");
                let lease = take(&provider, &lock).await;
                assert_eq!(lease.name().as_str(), lock);
                assert!(lease.fencing_token().is_some(), "turn {turn}");
                assert_eq!(
                    skip(&provider, &request(&lock)).await.reason,
                    SkipReason::Held
                );
                free(&provider, &lease).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(room.number("SELECT count(*) FROM shedlock").await, 8);
}

#[tokio::test]
async fn shedlocks_lock_can_be_freed_by_force() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    let java = Java {
        room: &room,
        host: "web-3",
    };
    assert!(java.insert("job", 60.0).await);
    let other = ForceUnlockRequest::new(name("job")).expecting_owner("web-4");
    let answer = provider.force_unlock(&other).await.unwrap();
    assert!(matches!(answer, ForceUnlock::OwnerDiffers(_)), "{answer:?}");
    let right = ForceUnlockRequest::new(name("job")).expecting_owner("web-3");
    let ForceUnlock::Freed(before) = provider.force_unlock(&right).await.unwrap() else {
        panic!("Java's lock is freed");
    };
    assert_eq!(before.owner.as_deref(), Some("web-3"));
    assert!(!java.extend("job", 60.0).await, "no longer Java's");
    hold(&provider, "job").await;
}

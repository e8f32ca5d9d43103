//! Tables and sessions of all kinds.

use crate::common::with_option;
use crate::room::{Room, SHEDLOCKS, free, hold, migrate, name, refusal, request, skip, take};
use shedlock_core::{
    Attempt, ErrorKind, Finding, Level, LockProvider, PauseRequest, SkipReason, admin,
};
use shedlock_sqlx::PostgresProvider;
use shedlock_tokio_postgres::TokioPostgresProvider;

#[tokio::test]
async fn dropped_columns_are_noticed_without_harm() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    let lease = take(&provider, "job").await;
    assert!(lease.fencing_token().is_some());
    room.run(
        "ALTER TABLE shedlock DROP COLUMN shedlock_fencing_token, DROP COLUMN shedlock_slot, \
         DROP COLUMN shedlock_slot_done, DROP COLUMN shedlock_slot_attempts, \
         DROP COLUMN shedlock_skip_from, DROP COLUMN shedlock_skip_until",
    )
    .await;
    free(&provider, &lease).await;
    assert_eq!(take(&provider, "job").await.fencing_token(), None);
}

#[tokio::test]
async fn a_table_with_some_of_our_columns_is_refused_until_a_migration_has_added_the_others() {
    let room = Room::migrated().await;
    let known = room.provider().await;
    hold(&known, "held").await;
    room.run("ALTER TABLE shedlock DROP COLUMN shedlock_slot_done")
        .await;
    for provider in [known, room.provider().await] {
        let error = refusal(&provider, ErrorKind::Configuration).await;
        let says = "has some of shedlock's columns but lacks shedlock_slot_done; add them with \
                    `migrate()`";
        assert!(error.to_string().contains(says), "{error}");
    }
    migrate(&room.provider().await).await;
    let provider = room.provider().await;
    assert!(take(&provider, "job").await.fencing_token().is_some());
}

/// A bare table has no place for the slots that a pause skips.
#[tokio::test]
async fn a_bare_table_can_be_paused_before_anything_else() {
    let room = Room::with(SHEDLOCKS).await;
    let provider = room.provider_over(&[]).await;
    let pause = PauseRequest::new(name("job"), "ops");
    let _ = admin::pause(&provider, &pause).await.unwrap();
    assert_eq!(
        skip(&provider, &request("job")).await.reason,
        SkipReason::Paused
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_can_run_concurrently() {
    for (columns, made) in [(None, 1), (Some(SHEDLOCKS), 2)] {
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
        assert_eq!(changes.len(), made, "each is made once: {changes:?}");
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

/// Other tests write to the same server. At least one pair of readings must have no write in
/// between.
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
            "neither primary key nor unique, so two processes could both insert the lock; add a primary \
             key on it",
        ),
        (
            SHEDLOCKS.replace("VARCHAR(64)", "CHAR(64)"),
            "; change it to varchar or text",
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
            "required column \"team\" that shedlock does not set; give it a default or allow null",
        ),
        (
            SHEDLOCKS.replace("PRIMARY KEY (name)", "PRIMARY KEY (name, locked_by)"),
            "neither primary key nor unique, so two processes could both insert the lock; add a primary \
             key on it",
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

/// Tools that quote names in upper case create such tables.
#[tokio::test]
async fn columns_are_spelled_as_the_catalogue_has_them() {
    let room = Room::with(
        "\"NAME\" VARCHAR(64) NOT NULL PRIMARY KEY, \"LOCK_UNTIL\" TIMESTAMP NOT NULL, \
         \"LOCKED_AT\" TIMESTAMP NOT NULL, \"LOCKED_BY\" VARCHAR(255) NOT NULL",
    )
    .await;
    for migrated in [false, true] {
        let providers: [Box<dyn LockProvider>; 2] = [
            Box::new(room.provider().await),
            Box::new(TokioPostgresProvider::connect(&room.url).await.unwrap()),
        ];
        for provider in &providers {
            let lease = take(&**provider, "job").await;
            assert_eq!(lease.fencing_token().is_some(), migrated);
            free(&**provider, &lease).await;
            let findings = provider.diagnose().await.unwrap();
            let is_wrong = |it: &&Finding| it.level == Level::Error;
            assert_eq!(findings.iter().find(is_wrong), None);
        }
        migrate(&*providers[0]).await;
    }
}

#[tokio::test]
async fn columns_that_differ_in_case_alone_are_refused_before_the_table_is_altered() {
    let room = Room::with(&SHEDLOCKS.replace(
        "locked_by VARCHAR(255) NOT NULL",
        "\"Locked_By\" VARCHAR(255) NOT NULL, \"LOCKED_BY\" VARCHAR(255)",
    ))
    .await;
    let provider = room.provider_over(&[]).await;
    let error = refusal(&provider, ErrorKind::Configuration).await;
    let options = "locked_by_column=%22Locked_By%22 or locked_by_column=%22LOCKED_BY%22";
    assert!(error.to_string().contains(options), "{error}");
    let migration = provider.migrate().await.unwrap_err();
    assert_eq!(
        (migration.what(), migration.advice()),
        (error.what(), error.advice())
    );
    let of_room = "FROM information_schema.columns WHERE table_schema = current_schema()";
    assert_eq!(room.number(&format!("SELECT count(*) {of_room}")).await, 5);
    let url = format!("{}&locked_by_column=%22Locked_By%22", room.url);
    let provider = PostgresProvider::connect(&url).await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
}

/// Names are listed in the order of their bytes. Without an index in this order, each page would read and sort all of them.
#[tokio::test]
async fn a_page_of_names_is_read_from_an_index() {
    for columns in [None, Some(SHEDLOCKS)] {
        let room = match columns {
            Some(columns) => Room::with(columns).await,
            None => Room::empty().await,
        };
        let provider = room.provider().await;
        migrate(&provider).await;
        assert_eq!(provider.migrate().await.unwrap().changes.len(), 0);
        let table = format!("{}.shedlock", room.schema);
        let fill = format!(
            "INSERT INTO {table} (name, lock_until, locked_at, locked_by) \
             SELECT 'x-' || i, now(), now(), 'x' FROM generate_series(1, 20000) i; ANALYZE {table}"
        );
        room.run(&fill).await;
        let page = format!(
            "EXPLAIN SELECT name FROM {table} WHERE name COLLATE \"C\" > 'x-5' \
             ORDER BY name COLLATE \"C\" LIMIT 1000"
        );
        let plan: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(page))
            .fetch_all(&room.admin)
            .await
            .unwrap();
        let plan = plan.join("\n");
        assert!(plan.contains("Index") && !plan.contains("Sort"), "{plan}");
        let mut request = shedlock_core::ListRequest::new();
        let mut count = 0;
        loop {
            let page = provider.list(&request).await.unwrap();
            count += page.len();
            match page.last() {
                Some(last) if page.len() >= request.limit() => {
                    request = request.with_after(last.name.clone());
                }
                _ => break,
            }
        }
        assert_eq!(count, 20_000);
    }
}

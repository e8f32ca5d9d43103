//! Sessions of all kinds: zones, character sets, modes.

use std::time::Duration;

use shedlock_core::{Clock as _, ErrorKind, LockProvider, SystemClock};
use shedlock_sqlx::MySqlProvider;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlPool, Row as _};

use shedlock_diesel_async::diesel_async::SimpleAsyncConnection as _;

use crate::diesel_pools;
use crate::room::{HOUR, Room, close, free, record, refused, skip, take};

pub(crate) async fn sessions_in_different_zones_agree(server: &str) {
    let room = Room::migrated(server).await;
    let mut providers = vec![room.provider().await];
    for zone in ["+05:30", "-08:00", "+13:00", "SYSTEM"] {
        providers.push(
            MySqlProvider::builder(room.pool(zone, "").await)
                .build()
                .unwrap(),
        );
    }
    for (i, holder) in providers.iter().enumerate() {
        let name = format!("job {i}");
        // Covers both the insert and the update of a record.
        for _ in 0..2 {
            let lease = take(holder, &name).await;
            let now = SystemClock.system_time();
            for other in &providers {
                skip(other, &name).await;
                let seen = record(other, &name).await;
                close(seen.locked_at, now, Duration::from_secs(60));
                close(seen.locked_until, now + HOUR, Duration::from_secs(60));
                close(seen.read_at, now, Duration::from_secs(60));
            }
            free(holder, &lease).await;
        }
    }
}

pub(crate) async fn the_zone_of_the_session_stays_as_it_was(server: &str) {
    let room = Room::migrated(server).await;
    let pool = room.pool("+05:30", "").await;
    take(
        &MySqlProvider::builder(pool.clone()).build().unwrap(),
        "job",
    )
    .await;
    let zone: String = sqlx::query_scalar("SELECT @@time_zone")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(zone, "+05:30");
}

pub(crate) async fn a_zone_that_the_server_does_not_know_is_refused(server: &str) {
    let room = Room::migrated(server).await;
    let pool = room.pool("+00:00", "").await;
    let provider = MySqlProvider::builder(pool)
        .shared_session_zone("Atlantis/Poseidonis")
        .build()
        .unwrap();
    let error = refused(&provider, "job").await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("shared_session_zone"), "{error}");
    assert_eq!(room.rows().await, 0);
    let provider = MySqlProvider::builder(room.admin.clone()).shared_session_zone("half past");
    assert_eq!(
        provider.build().unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

pub(crate) async fn sessions_without_autocommit_are_refused(server: &str) {
    let room = Room::migrated(server).await;
    let provider = MySqlProvider::builder(room.pool("+00:00", "SET autocommit = 0").await)
        .build()
        .unwrap();
    let error = refused(&provider, "job").await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("autocommit"), "{error}");
    let whole = format!("{error:#}");
    assert!(whole.ends_with(&error.to_string()), "{whole}");
    assert_eq!(room.rows().await, 0);
}

/// The provider's own sessions do not depend on the server's setting.
pub(crate) async fn own_sessions_switch_autocommit_on(server: &str) {
    let room = Room::migrated(server).await;
    let plain = crate::common::with_option(&room.url, "prepared", "false");
    let plain = MySqlProvider::connect(&plain).await.unwrap();
    for provider in [room.provider().await, plain] {
        let lease = take(&provider, "job").await;
        assert_eq!(room.rows().await, 1);
        free(&provider, &lease).await;
    }
}

/// Over a pool, texts are literals that name their character set.
pub(crate) async fn a_session_of_another_charset_stores_the_same_name(server: &str) {
    let room = Room::migrated(server).await;
    let options: MySqlConnectOptions = room.url.parse().unwrap();
    let pool = room.pool_with(options.charset("latin1"), "").await;
    let provider = MySqlProvider::builder(pool).build().unwrap();
    let lease = take(&provider, "plain").await;
    free(&provider, &lease).await;
    take(&provider, "naïve").await;
    skip(&room.provider().await, "naïve").await;
    assert_eq!(room.rows().await, 2);
}

pub(crate) async fn every_sql_mode_will_do(server: &str) {
    let room = Room::migrated(server).await;
    for setup in [
        "SET sql_mode = ''",
        "SET sql_mode = 'ANSI,TRADITIONAL'",
        "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE'",
        "SET sql_safe_updates = 1",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ] {
        let provider = MySqlProvider::builder(room.pool("+02:00", setup).await)
            .build()
            .unwrap();
        for _ in 0..2 {
            let lease = take(&provider, "job").await;
            skip(&provider, "job").await;
            free(&provider, &lease).await;
        }
        let listed = provider.list(&shedlock_core::ListRequest::new()).await;
        assert!(!listed.unwrap().is_empty(), "{setup}");
    }
}

pub(crate) async fn serializable_sessions_contend_without_errors(server: &str) {
    let room = Room::migrated(server).await;
    let setup = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE";
    let provider = MySqlProvider::builder(room.pool("+00:00", setup).await)
        .build()
        .unwrap();
    for round in 0..10 {
        let name = format!("job {round}");
        let attempts = (0..16).map(|_| {
            let provider = provider.clone();
            let request = crate::room::request(&name);
            async move { provider.attempt(&request).await.unwrap().acquired() }
        });
        let winners = futures_util::future::join_all(attempts).await;
        assert_eq!(winners.iter().flatten().count(), 1, "{round}");
    }
}

/// As where an application changes to the database of a tenant and does not change back.
pub(crate) async fn connections_to_different_databases_use_one_table(server: &str) {
    let rooms = [Room::migrated(server).await, Room::migrated(server).await];
    let entering = rooms.each_ref().map(|room| {
        let url = url::Url::parse(&room.url).unwrap();
        format!("USE {}", url.path().trim_start_matches('/'))
    });
    let pool = MySqlPoolOptions::new().max_connections(2);
    let pool = pool.connect(&rooms[0].url).await.unwrap();
    let mut both = [pool.acquire().await.unwrap(), pool.acquire().await.unwrap()];
    for (text, connection) in entering.iter().zip(&mut both) {
        let text = AssertSqlSafe(text.clone());
        sqlx::raw_sql(text)
            .execute(&mut **connection)
            .await
            .unwrap();
    }
    let provider = MySqlProvider::new(pool.clone());
    both_use_one_table(&provider, both, async || pool.acquire().await.unwrap()).await;

    for room in &rooms {
        room.run("DELETE FROM shedlock").await;
    }
    let pool = diesel_pools::mysql::deadpool(&rooms[0].url).unwrap();
    let mut both = [pool.get().await.unwrap(), pool.get().await.unwrap()];
    for (text, connection) in entering.iter().zip(&mut both) {
        connection.batch_execute(text).await.unwrap();
    }
    let provider = shedlock_diesel_async::MySqlProvider::new(pool.clone());
    both_use_one_table(&provider, both, async || pool.get().await.unwrap()).await;
}

/// Both connections of a pool are idle one after the other, while the other one is in use.
async fn both_use_one_table<C>(
    provider: &dyn LockProvider,
    [first, second]: [C; 2],
    lend: impl AsyncFn() -> C,
) {
    drop(first);
    take(provider, "job").await;
    let _first = lend().await;
    drop(second);
    let answer = provider.attempt(&crate::room::request("job")).await;
    assert!(answer.unwrap().acquired().is_none());
}

/// Whether a transaction of this pool's only connection sees what another one has committed since its first read: what
/// its own isolation level, READ COMMITTED, shows, and REPEATABLE READ hides.
async fn reads_what_is_committed(room: &Room, pool: &MySqlPool) -> bool {
    let count = "SELECT COUNT(*) FROM things";
    let mut connection = pool.acquire().await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    let mut read = async || {
        let row = transaction.fetch_one(count).await.unwrap();
        row.get::<i64, _>(0)
    };
    let before = read().await;
    room.run("INSERT INTO things VALUES (1)").await;
    let after = read().await;
    transaction.rollback().await.unwrap();
    after > before
}

/// Whatever was sent in it.
pub(crate) async fn the_isolation_level_of_a_session_stays_as_it_was(server: &str) {
    let room = Room::migrated(server).await;
    room.run("CREATE TABLE things (id INT) ENGINE = InnoDB")
        .await;
    let random = crate::common::unique("u");
    let user = format!("u{}", &random[random.len() - 16..]);
    let database = url::Url::parse(&room.url).unwrap();
    let database = database.path().trim_start_matches('/');
    for text in [
        format!("CREATE USER {user}"),
        format!("GRANT SELECT ON {database}.* TO {user}"),
    ] {
        room.run(&text).await;
    }
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_username(&user).unwrap();
    url.set_password(None).unwrap();
    let pool = MySqlPoolOptions::new()
        .max_connections(1)
        .after_connect(|connection, _| {
            Box::pin(async move {
                let set = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
                connection.execute(set).await.map(drop)
            })
        });
    let pool = pool.connect(url.as_str()).await.unwrap();
    let provider = MySqlProvider::new(pool.clone());
    assert!(reads_what_is_committed(&room, &pool).await);
    provider.check().await.unwrap();
    assert!(
        reads_what_is_committed(&room, &pool).await,
        "a look at the table"
    );
    let error = refused(&provider, "job").await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(
        reads_what_is_committed(&room, &pool).await,
        "what is refused"
    );
    let name = shedlock_core::LockName::new("job").unwrap();
    assert!(provider.inspect(&name).await.unwrap().is_none());
    assert!(reads_what_is_committed(&room, &pool).await, "a read");
}

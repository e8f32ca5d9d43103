//! PgBouncer, which shares the server's sessions between its clients.

use std::sync::Arc;

use crate::common::{server_if_any, unique, with_database, with_option};
use crate::room::{Room, free, migrate, name, request, skip, take};
use shedlock_core::{Error, ErrorKind, ListRequest, LockProvider, SkipReason};
use shedlock_rig::OwnServer;
use shedlock_rig::given::needs_store;
use shedlock_sqlx::PostgresProvider;
use shedlock_tokio_postgres::TokioPostgresProvider;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection, PgPool, Row as _};

/// A PgBouncer that nothing else uses, with the settings that a test needs.
pub(crate) struct Bouncer {
    server: OwnServer,
    url: String,
}

impl Bouncer {
    /// Returns `None` if the machine has none. xtask, which looked for it, has reported this.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Option<Self> {
        needs_store("postgres");
        let server = OwnServer::start_with_companions("postgres", &[]).unwrap();
        let url = server.companion("pgbouncer")?.to_owned();
        let bouncer = Self { server, url };
        for (setting, value) in settings {
            bouncer.set(setting, value).await;
        }
        Some(bouncer)
    }

    /// Changes a setting, as an administrator does.
    pub(crate) async fn set(&self, setting: &str, value: &str) {
        let mut console = session(&with_database(&self.url, "pgbouncer")).await;
        let text = AssertSqlSafe(format!("SET {setting} = '{value}'"));
        sqlx::raw_sql(text).execute(&mut console).await.unwrap();
    }

    /// The URL of a new database with a lock table. Each database has sessions of its own.
    pub(crate) async fn database(&self) -> String {
        let name = unique("bounced");
        let mut admin = session(self.server.url()).await;
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&mut admin).await.unwrap();
        let direct = with_database(self.server.url(), &name);
        migrate(&PostgresProvider::connect(&direct).await.unwrap()).await;
        with_database(&self.url, &name)
    }
}

async fn session(url: &str) -> PgConnection {
    options(url).connect().await.unwrap()
}

/// PgBouncer rejects sqlx's `extra_float_digits` unless it is configured to ignore it.
pub(crate) fn options(url: &str) -> PgConnectOptions {
    let options: PgConnectOptions = url.parse().unwrap();
    options.extra_float_digits(None)
}

/// How many statements have been prepared and kept in the `sessions` sessions of this PgBouncer's database.
async fn kept(url: &str, sessions: usize) -> i64 {
    let mut clients = Vec::new();
    let mut pids = Vec::new();
    let mut kept = 0;
    for _ in 0..sessions {
        let mut client = session(url).await;
        // A session is held for as long as its transaction is open.
        let text = "BEGIN; SELECT pg_backend_pid()::bigint, \
                    (SELECT count(*) FROM pg_prepared_statements)";
        let row = sqlx::raw_sql(text).fetch_one(&mut client).await.unwrap();
        pids.push(row.get::<i64, _>(0));
        kept += row.get::<i64, _>(1);
        clients.push(client);
    }
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(
        pids.len(),
        sessions,
        "each transaction holds its own session"
    );
    kept
}

type Shared = Arc<dyn LockProvider>;

/// A provider of each client library, with default settings.
async fn each(url: &str) -> [Shared; 2] {
    [
        Arc::new(PostgresProvider::connect(url).await.unwrap()),
        Arc::new(TokioPostgresProvider::connect(url).await.unwrap()),
    ]
}

async fn serves(provider: &dyn LockProvider, lock: &str) {
    let lease = take(provider, lock).await;
    assert_eq!(lease.name().as_str(), lock);
    assert!(lease.fencing_token().is_some());
    let skipped = skip(provider, &request(lock)).await;
    assert_eq!(skipped.reason, SkipReason::Held);
    free(provider, &lease).await;
}

/// With PgBouncer's default settings, and with those that administrators set for drivers. No session has two
/// statements of one name, because none has any.
#[tokio::test(flavor = "multi_thread")]
async fn pgbouncer_is_recognized_whatever_its_settings() {
    let dropped = ("ignore_startup_parameters", "extra_float_digits,options");
    let settings: [&[(&str, &str)]; 4] = [
        &[],
        &[("ignore_startup_parameters", "extra_float_digits")],
        &[dropped],
        &[dropped, ("server_reset_query_always", "1")],
    ];
    for settings in settings {
        let Some(bouncer) = Bouncer::with(settings).await else {
            return;
        };
        bouncer.set("default_pool_size", "1").await;
        let url = bouncer.database().await;
        for provider in each(&url).await {
            for turn in 0..3 {
                serves(&*provider, &format!("job-{turn}")).await;
            }
        }
        assert_eq!(kept(&url, 1).await, 0, "{settings:?}");
    }
}

/// A session belongs to one client, and is reset before the next one gets it.
#[tokio::test(flavor = "multi_thread")]
async fn pgbouncer_in_session_pooling_serves() {
    let Some(bouncer) = Bouncer::with(&[("pool_mode", "session")]).await else {
        return;
    };
    let url = bouncer.database().await;
    for provider in each(&url).await {
        serves(&*provider, "job").await;
    }
    for provider in each(&with_option(&url, "prepared", "true")).await {
        serves(&*provider, "job").await;
    }
}

/// The settings of a session that other clients get next.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_insists_on_preparing_leaves_its_settings_in_no_shared_session() {
    let dropped = ("ignore_startup_parameters", "extra_float_digits,options");
    for settings in [&[][..], &[dropped]] {
        let Some(bouncer) = Bouncer::with(settings).await else {
            return;
        };
        bouncer.set("default_pool_size", "1").await;
        let url = bouncer.database().await;
        let mut client = session(&url).await;
        let mut settings = async || {
            let text = "SELECT concat_ws(' ', current_setting('enable_seqscan'), current_setting('jit'), \
                        current_setting('lock_timeout'))";
            let row = sqlx::raw_sql(text).fetch_one(&mut client).await.unwrap();
            row.get::<String, _>(0)
        };
        let before = settings().await;
        for provider in each(&with_option(&url, "prepared", "true")).await {
            // Whether the session keeps a statement depends on PgBouncer's version.
            let _ = provider.attempt(&request("job")).await;
            assert_eq!(settings().await, before);
        }
    }
}

/// Providers that send their statements in different orders, over two sessions. If each numbered its prepared
/// statements, an attempt of one could run as the listing of another.
#[tokio::test(flavor = "multi_thread")]
async fn providers_behind_one_small_pool_never_run_each_others_statements() {
    let Some(bouncer) = Bouncer::with(&[("default_pool_size", "2")]).await else {
        return;
    };
    let url = bouncer.database().await;
    let mut tasks = Vec::new();
    for worker in 0..6 {
        let [by_sqlx, by_tokio] = each(&url).await;
        let provider = if worker % 2 == 0 { by_sqlx } else { by_tokio };
        tasks.push(tokio::spawn(async move {
            let lock = format!("job-{worker}");
            for turn in 0..20 {
                match (worker + turn) % 3 {
                    0 => assert!(provider.list(&ListRequest::new()).await.is_ok()),
                    1 => assert!(provider.inspect(&name(&lock)).await.is_ok()),
                    _ => {}
                }
                let lease = take(&*provider, &lock).await;
                let seen = provider.inspect(&name(&lock)).await.unwrap().unwrap();
                assert_eq!(seen.name.as_str(), lock);
                assert_eq!(seen.owner.as_deref(), Some(lease.owner().as_str()));
                assert_eq!(seen.fencing_token, lease.fencing_token());
                free(&*provider, &lease).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(kept(&url, 2).await, 0);
}

/// The error of a provider that meets another one's statements. PgBouncer closes the server's session, and the
/// statements with it, when a client leaves at the wrong moment: then the next provider meets those of this one.
async fn refused(connect: impl AsyncFn() -> PostgresProvider) -> Error {
    let mut all = Vec::new();
    loop {
        let provider = connect().await;
        let lock = format!("refused-{}", all.len());
        let attempt = provider.attempt(&request(&lock)).await;
        all.push(provider);
        match attempt {
            Err(error) => return error,
            Ok(attempt) => assert!(all.len() < 5, "{attempt:?}"),
        }
    }
}

/// Statements over a pool leave nothing in its sessions.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_prepares_nothing_behind_pgbouncer() {
    let Some(bouncer) = Bouncer::with(&[("default_pool_size", "1")]).await else {
        return;
    };
    let url = bouncer.database().await;
    // A second connection of a pool would meet the statements of the first one.
    let pool = || async {
        let pool = PgPoolOptions::new().max_connections(1);
        let pool: PgPool = pool.connect_with(options(&url)).await.unwrap();
        pool
    };
    // sqlx sends `extra_float_digits` unless an option prevents it.
    let default = PgPoolOptions::new().connect_lazy(&url).unwrap();
    let default = PostgresProvider::builder(default).build().unwrap();
    let error = default.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    let remedy = "PgBouncer: ignore_startup_parameters";
    assert!(error.to_string().contains(remedy), "{error}");
    let first = PostgresProvider::builder(pool().await).build().unwrap();
    serves(&first, "job").await;
    let second = PostgresProvider::builder(pool().await).build().unwrap();
    serves(&second, "job").await;
    // If prepared statements are required by option, the error says so too.
    let url = with_option(&url, "prepared", "true");
    let insists = async || PostgresProvider::connect(&url).await.unwrap();
    let error = refused(insists).await;
    assert!(
        error
            .to_string()
            .contains("set prepared=false in the store's URL"),
        "{error}"
    );
}

/// The error of a connection to this URL, as people read it.
async fn refusal<P: std::fmt::Debug>(
    connect: impl AsyncFn(&str) -> Result<P, Error>,
    url: &str,
    kind: ErrorKind,
) -> String {
    let error = connect(url).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:#}");
    format!("{error:#}")
}

/// The errors of both client libraries. After a failed login PgBouncer lets the next client of the same database wait
/// for a while, so each library gets another URL.
async fn refusals(url: impl Fn() -> String, kind: ErrorKind) -> [(String, String); 2] {
    let (one, other) = (url(), url());
    let by_sqlx = refusal(PostgresProvider::connect, &one, kind).await;
    let by_tokio = refusal(TokioPostgresProvider::connect, &other, kind).await;
    [(one, by_sqlx), (other, by_tokio)]
}

/// PgBouncer has the same code for a wrong URL as for a server that is down.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_user_or_database_behind_pgbouncer_is_named_in_the_error() {
    let Some(bouncer) = server_if_any("pgbouncer") else {
        return;
    };
    let missing = || with_database(&bouncer, &unique("missing"));
    for (url, error) in refusals(missing, ErrorKind::Configuration).await {
        let (_, database) = url.rsplit_once('/').unwrap();
        let says = format!(
            "the server rejected the connection: database \"{database}\" does not exist; check \
             the database in the URL"
        );
        assert!(error.ends_with(&says), "{error}");
    }
    let mut stranger = url::Url::parse(&bouncer).unwrap();
    stranger.set_username("stranger").unwrap();
    let stranger = || stranger.to_string();
    for (_, error) in refusals(stranger, ErrorKind::Configuration).await {
        let says = "the server rejected the connection: \"trust\" authentication failed; check the \
                    user and the password in the URL";
        assert!(error.ends_with(says), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pgbouncer_that_has_too_many_clients_can_be_tried_again() {
    let Some(bouncer) = Bouncer::with(&[("max_client_conn", "1")]).await else {
        return;
    };
    let url = bouncer.database().await;
    let client = session(&url).await;
    let says = "cannot connect: no more connections allowed (max_client_conn); nothing was \
                written; check that the server is up and has connections to spare, and that the \
                URL points to it, then retry";
    for (_, error) in refusals(|| url.clone(), ErrorKind::Unavailable).await {
        assert!(error.ends_with(says), "{error}");
    }
    drop(client);
}

/// Each session of the pool gets a different server connection, and none keeps a statement.
#[tokio::test(flavor = "multi_thread")]
async fn names_with_special_characters_pass_through_pgbouncer() {
    let Some(bouncer) = server_if_any("pgbouncer") else {
        // xtask, which looked for it, has reported this.
        return;
    };
    let room = Room::migrated().await;
    let url = with_option(&bouncer, "schema", &room.schema);
    let mut tasks = Vec::new();
    for worker in 0..8 {
        let provider = PostgresProvider::connect(&url).await.unwrap();
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                serves(&provider, &format!("it's \\ {worker} :name $1 ?")).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(room.number("SELECT count(*) FROM shedlock").await, 8);
}

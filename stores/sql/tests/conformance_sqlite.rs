//! The laws over SQLite: tables as ShedLock's users create them and as we do, both clocks.

#[path = "common/left_open.rs"]
mod left_open;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use shedlock_conformance::{
    BoxError, Cost, Harness, JavaRecord, LeftOpen, Namespace, OptionalAction, Provider, Runner,
    Scope, StoreProfile, Tag, Verdict, Work, action,
};
use shedlock_core::{BoxFuture, Clock, LockName};
use shedlock_sqlx::{SqliteProvider, TimeMode};
use shedlock_torture::TortureNamespace;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Row as _, SqlitePool};
use tempfile::TempDir;

fn main() -> ExitCode {
    shedlock_rig::given::needs_store("sqlite");
    let variant = |name, ddl, options, scope| {
        Arc::new(Sqlite {
            name,
            ddl,
            options,
            scope,
        }) as Arc<dyn Harness>
    };
    let harnesses = [
        variant("sqlite", None, "", Scope::Whole),
        // No columns for tokens and slots.
        variant(
            "sqlite-as-shedlocks-users-make-it",
            Some(SHEDLOCKS),
            "",
            Scope::About(&[Tag::Declared, Tag::Record]),
        ),
        // Another clock judges.
        variant(
            "sqlite-client-time",
            None,
            "time=client",
            Scope::About(&[Tag::Time]),
        ),
        // Connections that come back inside transactions.
        variant(
            "sqlite-pool",
            None,
            "by=pool",
            Scope::About(&[Tag::Processes]),
        ),
    ];
    // The torture's own store has no pauses, so the judge shows here that it detects wrong ones.
    shedlock_torture::tortured::<File>(Runner::new(harnesses).laws())
        .cases(|harness| match harness.name() {
            "sqlite" => Ok(shedlock_torture::wrong_pauses::<File>()),
            _ => Ok(Vec::new()),
        })
        .run_after(race())
}

/// Raw connections race for one row, as attempts do. They wait for each other's file locks, which
/// takes time.
async fn race() -> Verdict {
    let folder = tempfile::tempdir()?;
    let connect = SqliteConnectOptions::new()
        .filename(folder.path().join("race.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Off);
    let pool = SqlitePoolOptions::new().max_connections(8);
    let pool = pool.connect_with(connect).await?;
    sqlx::raw_sql("CREATE TABLE race (round INTEGER); INSERT INTO race VALUES (0)")
        .execute(&pool)
        .await?;
    let clients = vec![pool.clone(); CLIENTS];
    let verdict = contention::judge(ROUNDS / 3, &clients, |pool, round| {
        let update = sqlx::query("UPDATE race SET round = ? WHERE round = ?");
        let update = update.bind(round).bind(round - 1);
        async move { Ok(update.execute(&pool).await?.rows_affected() == 1) }
    });
    let verdict = verdict.await;
    pool.close().await;
    verdict
}

/// The table from ShedLock's documentation for other databases. SQLite treats its types as numeric.
const SHEDLOCKS: &str = "CREATE TABLE IF NOT EXISTS shedlock (name VARCHAR(64) NOT NULL, \
    lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL, \
    locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))";

/// One kind of table; by default the one that the provider creates.
struct Sqlite {
    name: &'static str,
    ddl: Option<&'static str>,
    options: &'static str,
    scope: Scope,
}

impl Harness for Sqlite {
    fn name(&self) -> &str {
        self.name
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            let folder = tempfile::tempdir()?;
            let path = folder.path().join("locks.db");
            let connect = SqliteConnectOptions::new()
                .filename(&path)
                .create_if_missing(true);
            let mut url = format!("sqlite:{}", path.display());
            if !self.options.is_empty() {
                url = format!("{url}?{}", self.options);
            }
            let space = File {
                admin: SqlitePoolOptions::new()
                    .max_connections(1)
                    .connect_with(connect)
                    .await?,
                path,
                url,
                ddl: self.ddl,
                client_time: self.options.contains("time=client"),
                _folder: folder,
            };
            space.create().await?;
            Ok(Arc::new(space) as Arc<dyn Namespace>)
        })
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    /// No other case has the file open anyway. The store cannot be stopped, because there is no
    /// server.
    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        (self.name == "sqlite").then(|| self.namespace())
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(connect(spec.to_owned()))
    }

    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        if self.name != "sqlite" {
            return None;
        }
        let sheet = StoreProfile::new("SQLite", "tests/profiles/sqlite.json")
            .says("law01", "this host")
            .says("law12", "–")
            .says("hosts", "no")
            .says("tested_on", "3.51");
        action(async { Ok(sheet) })
    }

    /// One more statement for an attempt, which reads before it writes.
    fn cost(&self) -> Cost {
        Cost {
            won: 2,
            ..Cost::default()
        }
    }
}

/// A file with a table.
struct File {
    admin: SqlitePool,
    path: PathBuf,
    url: String,
    ddl: Option<&'static str>,
    client_time: bool,
    _folder: TempDir,
}

impl File {
    async fn create(&self) -> Result<(), BoxError> {
        if let Some(ddl) = self.ddl {
            sqlx::raw_sql(ddl).execute(&self.admin).await?;
        } else {
            // Opening the file creates the table.
            connect(self.url.clone()).await?;
        }
        Ok(())
    }

    fn time(&self) -> TimeMode {
        if self.client_time {
            TimeMode::client()
        } else {
            TimeMode::Store
        }
    }

    async fn pool(&self, size: u32) -> Result<SqlitePool, BoxError> {
        let connect = SqliteConnectOptions::new().filename(&self.path);
        Ok(SqlitePoolOptions::new()
            .max_connections(size)
            .connect_with(connect)
            .await?)
    }
}

impl Namespace for File {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(connect(self.url.clone()))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            self.admin.close().await;
            Ok(())
        })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            sqlx::query("DELETE FROM shedlock WHERE name = ?")
                .bind(name.as_str())
                .execute(&self.admin)
                .await?;
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            sqlx::raw_sql("DROP TABLE IF EXISTS shedlock")
                .execute(&self.admin)
                .await?;
            Ok(())
        })
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(self.create())
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async {
            let text = "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
                        VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE \
                        SET lock_until = excluded.lock_until, locked_at = excluded.locked_at, \
                        locked_by = excluded.locked_by";
            sqlx::query(AssertSqlSafe(text))
                .bind(name.as_str())
                .bind(millis(record.lock_until)?)
                .bind(millis(record.locked_at)?)
                .bind(&record.locked_by)
                .execute(&self.admin)
                .await?;
            Ok(())
        })
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async {
            let row =
                sqlx::query("SELECT locked_by, locked_at, lock_until FROM shedlock WHERE name = ?")
                    .bind(name.as_str())
                    .fetch_optional(&self.admin)
                    .await?;
            row.map(|row| {
                Ok(JavaRecord {
                    locked_by: row.try_get(0)?,
                    locked_at: instant(row.try_get_unchecked(1)?),
                    lock_until: instant(row.try_get_unchecked(2)?),
                })
            })
            .transpose()
        })
    }

    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        action(async {
            let provider = SqliteProvider::builder(self.pool(2).await?)
                .time(self.time())
                .clock(clock)
                .build()?;
            Ok(Arc::new(provider) as Provider)
        })
    }

    fn child_spec(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn inside_rolled_back_transaction(&self, work: Work) -> OptionalAction<'_, ()> {
        action(async {
            let pool = self.pool(2).await?;
            let provider = SqliteProvider::builder(pool.clone())
                .time(self.time())
                .build()?;
            let transaction = pool.begin().await?;
            work(Arc::new(provider)).await;
            transaction.rollback().await?;
            Ok(())
        })
    }

    fn left_open(&self) -> OptionalAction<'_, LeftOpen> {
        // Without WAL, a reader that was left keeps everyone from writing.
        if self.ddl.is_some() {
            return None;
        }
        action(async {
            let connect = SqliteConnectOptions::new().filename(&self.path);
            left_open::left_open!(SqlitePoolOptions, connect, IN_TRANSACTION, |pool| {
                SqliteProvider::builder(pool).time(self.time()).build()
            })
        })
    }
}

impl TortureNamespace for File {
    fn store_version(&self) -> OptionalAction<'_, String> {
        action(async {
            let version = sqlx::query_scalar("SELECT 'SQLite ' || sqlite_version()");
            Ok(version.fetch_one(&self.admin).await?)
        })
    }
}

/// What the application has left in a connection.
const IN_TRANSACTION: [&str; 2] = ["BEGIN", "SELECT name FROM shedlock LIMIT 1"];

/// The option `by` belongs to the harness: over a pool whose connections come back inside transactions.
async fn connect(url: String) -> Result<Provider, BoxError> {
    if let Some(url) = url.strip_suffix("?by=pool") {
        // Creates the table.
        SqliteProvider::connect(url).await?;
        let connect: SqliteConnectOptions = url.parse()?;
        let pool = left_open::careless!(SqlitePoolOptions, IN_TRANSACTION);
        let pool = pool.connect_lazy_with(connect.busy_timeout(Duration::from_secs(5)));
        return Ok(Arc::new(SqliteProvider::builder(pool).build()?));
    }
    Ok(Arc::new(SqliteProvider::connect(&url).await?))
}

fn millis(instant: SystemTime) -> Result<i64, BoxError> {
    Ok(i64::try_from(
        instant.duration_since(UNIX_EPOCH)?.as_millis(),
    )?)
}

fn instant(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis.unsigned_abs())
}

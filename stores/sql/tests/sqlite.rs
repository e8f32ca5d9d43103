//! Tests beyond the laws, over SQLite: files and folders, other writers, unusual tables.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::Warnings;
use shedlock_conformance::support::assert_value_outlives_client;
use shedlock_core::{
    Actor, Attempt, AttemptRequest, AuditRecord, Error, ErrorKind, ExtendRequest, Extension,
    JOURNAL_VERSION, JobsRequest, JournalEntry, Lease, ListRequest, LockName, LockProvider,
    LockState, Owner, Retention, RunEnd, RunOutcome, RunRecord, RunsRequest, SETTINGS, SkipReason,
    Unlock, UnlockRequest,
};
use shedlock_sqlx::SqliteProvider;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _, SqliteConnection};
use tempfile::TempDir;

fn request(lock: &str) -> AttemptRequest {
    let name = LockName::new(lock).unwrap();
    AttemptRequest::new(name, Owner::generate(), Duration::from_secs(60))
}

async fn take(provider: &SqliteProvider, lock: &str) -> Lease {
    match provider.attempt(&request(lock)).await.unwrap() {
        Attempt::Acquired(lease) => lease,
        other => panic!("{lock} should be free: {other:?}"),
    }
}

async fn is_held(provider: &SqliteProvider, lock: &str) -> bool {
    match provider.attempt(&request(lock)).await.unwrap() {
        Attempt::Skipped(skip) => skip.reason == SkipReason::Held,
        _ => false,
    }
}

async fn free(provider: &SqliteProvider, lease: &Lease) {
    let answer = provider.unlock(lease, &UnlockRequest::new()).await.unwrap();
    assert_eq!(answer, Unlock::Unlocked);
}

async fn connect(path: &Path, options: &str) -> Result<SqliteProvider, Error> {
    SqliteProvider::connect(&format!("sqlite:{}?{options}", path.display())).await
}

async fn refusal(path: &Path, options: &str, kind: ErrorKind) -> String {
    let error = connect(path, options).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    format!("{error:#}")
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    (folder, path)
}

async fn open(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new();
    let options = options.filename(path).create_if_missing(true);
    options.connect().await.unwrap()
}

async fn run(connection: &mut SqliteConnection, text: &str) {
    sqlx::raw_sql(AssertSqlSafe(text))
        .execute(connection)
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"));
}

const SHEDLOCKS: &str = "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL PRIMARY KEY, \
    lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL, \
    locked_by VARCHAR(255) NOT NULL)";

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(unix)]
#[tokio::test]
async fn a_missing_file_is_created_for_its_user_only() {
    let (folder, _) = folder();
    let path = folder.path().join("state/deep/locks.db");
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    let lease = take(&provider, "job").await;
    assert!(lease.fencing_token().is_some());
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&folder.path().join("state")), 0o700);
    assert_eq!(mode(&folder.path().join("state/deep")), 0o700);
    assert_eq!(mode(&folder.path().join("state/deep/locks.db-wal")), 0o600);

    let other = connect(&path, "").await.unwrap();
    assert!(is_held(&other, "job").await);
    free(&other, &lease).await;
}

#[tokio::test]
async fn paths_are_used_as_they_are_and_urls_are_decoded() {
    let (folder, _) = folder();
    let odd = folder.path().join("my locks?&%#.db");
    let by_path = shedlock_sqlx::open_sqlite(&odd).await.unwrap();
    let lease = take(&by_path, "job").await;
    let encoded = folder.path().join("my%20locks%3F%26%25%23.db");
    let by_url = connect(&encoded, "table=shedlock").await.unwrap();
    assert!(is_held(&by_url, "job").await);
    let url = format!("sqlite://{}", encoded.display());
    let with_slashes = SqliteProvider::connect(&url).await.unwrap();
    assert!(is_held(&with_slashes, "job").await);
    free(&by_path, &lease).await;
}

#[tokio::test]
async fn the_first_migration_reports_what_connecting_has_created() {
    let (_folder, path) = folder();
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    let changes = provider.migrate().await.unwrap().changes;
    let says = format!("created table \"shedlock\" in the new file {path:?}");
    assert_eq!(changes, [says]);
    assert!(provider.migrate().await.unwrap().changes.is_empty());
}

#[tokio::test]
async fn only_a_file_that_connecting_has_created_is_called_new() {
    let (_folder, path) = folder();
    fs::write(&path, "").unwrap();
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    let changes = provider.migrate().await.unwrap().changes;
    assert_eq!(changes, [format!("created table \"shedlock\" in {path:?}")]);
    // An empty file gets the same journal mode as a new one.
    assert!(path.with_extension("db-wal").exists());
}

#[tokio::test]
async fn create_false_creates_no_file_no_folder_and_no_table() {
    let (folder, path) = folder();
    for missing in [path.clone(), folder.path().join("missing/locks.db")] {
        let words = refusal(&missing, "create=false", ErrorKind::Configuration).await;
        assert!(words.contains("no such file"), "{words}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(&path, "").unwrap();
    let url = format!("sqlite:{}?create=false", path.display());
    let provider = SqliteProvider::connect(&url).await.unwrap();
    let error = provider.list(&ListRequest::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:#}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    assert_eq!(provider.migrate().await.unwrap().changes.len(), 1);
}

/// Another path would be another set of locks. Not even root may write here.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_may_not_be_written_is_refused_without_advising_another_path() {
    let words = refusal(Path::new("/sys/locks.db"), "", ErrorKind::Configuration).await;
    let says = "file \"/sys/locks.db\" cannot be opened for writing: Permission denied (os error \
                13); run as a user who may write to the file and its directory, or grant this user \
                that right, but do not just use another file: its locks would not be shared with the \
                users of this one";
    assert!(words.ends_with(says), "{words}");
    for missing in ["/sys/state/locks.db", "/sys/state/deep/locks.db"] {
        let missing = Path::new(missing);
        let words = refusal(missing, "", ErrorKind::Configuration).await;
        let directory = missing.parent().unwrap();
        let says = format!(
            "cannot create the directory {directory:?}: Operation not permitted (os error 1); \
             create it for this user, or let this user write to \"/sys\", but do not just use another \
             file: its locks would not be shared with the users of this one"
        );
        assert!(words.ends_with(&says), "{words}");
    }
    // No right would help there.
    let words = refusal(
        Path::new("/proc/state/locks.db"),
        "",
        ErrorKind::Configuration,
    )
    .await;
    let says = "cannot create the directory \"/proc/state\": No such file or directory (os error 2); \
                check that directories can be created there";
    assert!(words.ends_with(says), "{words}");
}

/// The number of POSIX locks that this process has on the file.
#[cfg(target_os = "linux")]
fn locks_on(path: &Path) -> usize {
    use std::os::unix::fs::MetadataExt as _;
    let (process, file) = (std::process::id(), fs::metadata(path).unwrap().ino());
    let listed = fs::read_to_string("/proc/locks").unwrap();
    let ours = listed.lines().filter(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.contains(&&*process.to_string())
            && words.iter().any(|word| word.ends_with(&format!(":{file}")))
    });
    ours.count()
}

/// Closing any descriptor of a file releases the process's locks on it. Without them, another process that closes the
/// file removes the write-ahead log that this process still writes to.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connecting_again_leaves_the_locks_of_open_connections() {
    let (_folder, path) = folder();
    let first = connect(&path, "").await.unwrap();
    let _lease = take(&first, "a").await;
    assert_eq!(locks_on(&path), 1);
    let second = connect(&path, "").await.unwrap();
    assert_eq!(locks_on(&path), 1);
    assert!(is_held(&second, "a").await);
    // An application's own connection is a neighbour too.
    let (_folder, path) = folder();
    let mut application = open(&path).await;
    run(
        &mut application,
        "PRAGMA journal_mode = WAL; CREATE TABLE payments (id)",
    )
    .await;
    assert_eq!(locks_on(&path), 1);
    connect(&path, "").await.unwrap();
    assert_eq!(locks_on(&path), 1);
}

#[tokio::test]
async fn what_cannot_hold_locks_is_refused_with_its_path() {
    let (folder, path) = folder();
    let words = refusal(&path, "create=false", ErrorKind::Configuration).await;
    assert!(
        words.contains("locks.db") && words.contains("create=false"),
        "{words}"
    );
    let words = refusal(folder.path(), "", ErrorKind::Configuration).await;
    assert!(words.contains("it is a directory"), "{words}");
    fs::write(
        &path,
        "this is no database, although it is long enough to be looked at",
    )
    .unwrap();
    let words = refusal(&path, "", ErrorKind::Configuration).await;
    assert!(words.contains("it is not a SQLite database"), "{words}");
    let below = path.join("locks.db");
    let words = refusal(&below, "", ErrorKind::Configuration).await;
    assert!(words.contains("locks.db"), "{words}");
    if cfg!(target_os = "linux") {
        let words = refusal(Path::new("/proc/locks.db"), "", ErrorKind::Configuration).await;
        assert!(words.contains("/proc"), "{words}");
    }
}

#[tokio::test]
async fn a_url_is_read_strictly() {
    for url in ["sqlite::memory:", "sqlite:", "sqlite://"] {
        let error = SqliteProvider::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}: {error}");
    }
    let (_folder, path) = folder();
    for option in [
        "mode=ro",
        "creat=true",
        "create=yes",
        "busy_timeout=5",
        "time=java",
    ] {
        refusal(&path, option, ErrorKind::InvalidInput).await;
    }
    assert!(!path.exists(), "nothing is made for a wrong URL");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_can_be_created_concurrently() {
    for _ in 0..5 {
        let (_folder, path) = folder();
        let mut tasks = Vec::new();
        for _ in 0..12 {
            let path = path.clone();
            tasks.push(tokio::spawn(async move {
                let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
                matches!(
                    provider.attempt(&request("job")).await.unwrap(),
                    Attempt::Acquired(_)
                )
            }));
        }
        let mut winners = 0;
        for task in tasks {
            winners += usize::from(task.await.unwrap());
        }
        assert_eq!(winners, 1);
        let mut connection = open(&path).await;
        let row = sqlx::query("PRAGMA journal_mode")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(row.get::<String, _>(0), "wal");
    }
}

#[tokio::test]
async fn a_file_that_is_there_stays_as_it_is() {
    let (_folder, path) = folder();
    let mut connection = open(&path).await;
    run(&mut connection, "PRAGMA journal_mode = DELETE").await;
    run(&mut connection, SHEDLOCKS).await;
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    let lease = take(&provider, "job").await;
    assert_eq!(
        lease.fencing_token(),
        None,
        "columns are for migrate to add"
    );
    free(&provider, &lease).await;
    let row = sqlx::query("PRAGMA journal_mode")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(row.get::<String, _>(0), "delete");
    assert_eq!(provider.migrate().await.unwrap().changes.len(), 6);
    assert!(take(&provider, "job").await.fencing_token().is_some());
}

/// A migration that ended half way: SQLite adds one column at a time.
#[tokio::test]
async fn a_table_with_some_of_our_columns_is_refused_until_a_migration_has_added_the_others() {
    let (_folder, path) = folder();
    let mut connection = open(&path).await;
    run(&mut connection, SHEDLOCKS).await;
    let added = "ALTER TABLE shedlock ADD COLUMN shedlock_fencing_token bigint NULL";
    run(&mut connection, added).await;
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    let error = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:#}");
    let says = "table \"shedlock\" has some of shedlock's columns but lacks shedlock_slot, \
                shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until; \
                add them with `migrate()`";
    assert!(error.to_string().contains(says), "{error:#}");
    let found = provider.diagnose().await.unwrap();
    assert_eq!((found[0].check, found.len()), ("setup", 1), "{found:?}");
    assert_eq!(provider.plan_migration().await.unwrap().len(), 5);
    assert_eq!(provider.migrate().await.unwrap().changes.len(), 5);
    assert!(take(&provider, "job").await.fencing_token().is_some());
}

#[tokio::test]
async fn an_attempt_on_a_held_lock_waits_for_no_writer_and_writes_nothing() {
    let (_folder, path) = folder();
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    let lease = take(&provider, "job").await;
    let mut writer = open(&path).await;
    run(&mut writer, "BEGIN IMMEDIATE").await;
    let journal = path.with_extension("db-wal");
    let before = fs::metadata(&journal).unwrap().len();
    let other = connect(&path, "busy_timeout=1ms").await.unwrap();
    assert!(is_held(&other, "job").await);
    assert_eq!(fs::metadata(&journal).unwrap().len(), before);

    // A free lock needs the file's write lock, and the error reports this.
    let error = other.attempt(&request("free")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("busy_timeout"), "{error}");
    run(&mut writer, "ROLLBACK").await;
    free(&other, &take(&other, "free").await).await;
    free(&provider, &lease).await;
}

#[tokio::test]
async fn a_call_that_waits_behind_another_one_can_be_retried() {
    let (_folder, path) = folder();
    let options = "connect_timeout=1s&busy_timeout=4s";
    let provider = connect(&path, options).await.unwrap();
    let mut writer = open(&path).await;
    run(&mut writer, "BEGIN IMMEDIATE").await;
    let requests = [request("first"), request("second")];
    let (first, second) = tokio::join!(
        provider.attempt(&requests[0]),
        provider.attempt(&requests[1])
    );
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains("retry later"), "{error}");
    }
    run(&mut writer, "ROLLBACK").await;
    free(&provider, &take(&provider, "second").await).await;
}

#[tokio::test]
async fn a_record_of_another_kind_is_reported_never_compared() {
    let (_folder, path) = folder();
    let mut connection = open(&path).await;
    run(&mut connection, SHEDLOCKS).await;
    run(
        &mut connection,
        "INSERT INTO shedlock VALUES ('job', '2020-01-01 00:00:00.000', 0, 'web-3')",
    )
    .await;
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    let error = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
}

#[tokio::test]
async fn names_that_a_collation_takes_for_the_same_never_share_a_record() {
    let (_folder, path) = folder();
    let mut connection = open(&path).await;
    let table = SHEDLOCKS.replace("VARCHAR(64)", "VARCHAR(64) COLLATE NOCASE");
    run(&mut connection, &table).await;
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    let lease = take(&provider, "Job").await;
    let error = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    free(&provider, &lease).await;
    free(&provider, &take(&provider, "Job").await).await;
}

#[tokio::test]
async fn tables_that_cannot_serve_are_refused_with_their_own_words() {
    let cases = [
        (
            SHEDLOCKS.replace(" PRIMARY KEY", ""),
            "neither primary key nor unique",
        ),
        (
            SHEDLOCKS.replace("lock_until TIMESTAMP", "lock_until TEXT"),
            "integer or timestamp",
        ),
        (
            SHEDLOCKS.replace("VARCHAR(64)", "NUMERIC"),
            "varchar or text",
        ),
        (
            SHEDLOCKS.replace("locked_by ", "owner "),
            "no column \"locked_by\"; if the columns have other names, set them (like \
             ?locked_by_column=NAME); otherwise choose another table (?table=NAME) and create it with \
             `migrate()`",
        ),
        (
            SHEDLOCKS.replace("locked_by ", "team INT NOT NULL, locked_by "),
            "required column",
        ),
    ];
    for (table, words) in cases {
        let (_folder, path) = folder();
        run(&mut open(&path).await, &table).await;
        let error = refusal(&path, "", ErrorKind::Configuration).await;
        assert!(error.contains(words), "{table}: {error}");
    }
}

#[tokio::test]
async fn a_column_that_was_renamed_is_reported() {
    let (_folder, path) = folder();
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
    let mut connection = open(&path).await;
    run(
        &mut connection,
        "ALTER TABLE shedlock RENAME COLUMN lock_until TO until",
    )
    .await;
    let error = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
    run(
        &mut connection,
        "ALTER TABLE shedlock RENAME COLUMN until TO lock_until",
    )
    .await;
    free(&provider, &take(&provider, "job").await).await;
}

/// An attempt is given up while it waits for another writer. That writer ends only after the
/// attempt's timeout.
async fn takes_no_lock(options: &str) {
    let (_folder, path) = folder();
    let provider = connect(&path, options).await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
    let mut writer = open(&path).await;
    run(&mut writer, "BEGIN IMMEDIATE").await;
    let timeout = Duration::from_millis(300);
    let attempt = request("job").with_timeout(timeout);
    tokio::select! {
        answer = provider.attempt(&attempt) => panic!("the file is locked: {answer:?}"),
        () = shedlock_rig::wait::sleep(timeout + timeout / 2) => {}
    }
    run(&mut writer, "ROLLBACK").await;
    // The waiting attempt polls every tenth of a second.
    shedlock_rig::wait::sleep(3 * timeout).await;
    let record = provider.inspect(&attempt.name).await.unwrap().unwrap();
    assert_eq!(record.state, LockState::Free, "{options}: {attempt:?}");
    free(&provider, &take(&provider, "job").await).await;
}

#[tokio::test]
async fn a_late_copy_of_an_attempt_takes_no_lock() {
    takes_no_lock("").await;
    takes_no_lock("time=client").await;
}

#[tokio::test]
async fn an_attempt_that_has_ended_takes_no_lock() {
    let (_folder, path) = folder();
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    let attempt = request("job");
    let lease = provider.attempt(&attempt).await.unwrap();
    free(&provider, &lease.acquired().unwrap()).await;
    let error = provider.attempt(&attempt).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    free(&provider, &take(&provider, "job").await).await;
}

#[tokio::test]
async fn a_late_extension_does_not_cut_a_later_one_short() {
    let (_folder, path) = folder();
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    let lease = take(&provider, "job").await;
    let mut end = None;
    for seconds in [600, 90] {
        let request = ExtendRequest::new(Duration::from_secs(seconds));
        let Extension::Extended(lease) = provider.extend(&lease, &request).await.unwrap() else {
            panic!("the lease is ours");
        };
        assert_eq!(
            lease.locked_until(),
            *end.get_or_insert(lease.locked_until())
        );
    }
    let record = provider.inspect(lease.name()).await.unwrap().unwrap();
    assert_eq!(Some(record.locked_until), end);
}

/// A user's pool over this file, whose connections have these settings.
async fn over(path: &Path, journal: SqliteJournalMode, sync: SqliteSynchronous) -> SqliteProvider {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(journal)
        .synchronous(sync);
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect_with(options).await.unwrap();
    let provider = SqliteProvider::builder(pool).build().unwrap();
    let _ = provider.migrate().await.unwrap();
    provider
}

#[tokio::test]
async fn a_pool_that_does_not_wait_for_the_disk_is_not_durable_and_warned_of_once() {
    use SqliteJournalMode as Journal;
    use SqliteSynchronous as Sync;
    for (journal, sync, is_durable) in [
        (Journal::Wal, Sync::Full, true),
        (Journal::Wal, Sync::Extra, true),
        (Journal::Wal, Sync::Normal, false),
        (Journal::Wal, Sync::Off, false),
        (Journal::Delete, Sync::Full, true),
        (Journal::Delete, Sync::Normal, true),
        (Journal::Delete, Sync::Off, false),
        (Journal::Memory, Sync::Full, false),
        (Journal::Off, Sync::Full, false),
    ] {
        let (_folder, path) = folder();
        let warnings = Warnings::collect();
        let provider = over(&path, journal, sync).await;
        provider.check().await.unwrap();
        provider.check().await.unwrap();
        free(&provider, &take(&provider, "job").await).await;
        let set = format!("{journal:?} {sync:?}");
        assert_eq!(provider.capabilities().durable, is_durable, "{set}");
        let logged = warnings.with(SETTINGS);
        assert_eq!(logged.len(), usize::from(!is_durable), "{set}: {logged:?}");
    }
    let (_folder, path) = folder();
    let own = connect(&path, "").await.unwrap();
    assert!(own.capabilities().durable);
}

/// A listing continues past them. Otherwise the caller would treat a short page as the last one.
#[tokio::test]
async fn records_that_cannot_be_read_break_no_list() {
    let (_folder, path) = folder();
    let mut connection = open(&path).await;
    run(&mut connection, SHEDLOCKS).await;
    let provider = shedlock_sqlx::open_sqlite(&path).await.unwrap();
    for name in ["a", "z"] {
        free(&provider, &take(&provider, name).await).await;
    }
    run(
        &mut connection,
        "INSERT INTO shedlock VALUES ('b', '2020-01-01 00:00:00.000', 0, 'web-3'), \
         ('c', 9223372036854775807, 0, 'web-3'), ('d', 0, 1.5, 'web-3'), ('', 0, 0, 'web-3')",
    )
    .await;
    for limit in [1, 2, 3, 100] {
        let mut names = Vec::new();
        let mut page = ListRequest::new().with_limit(limit);
        loop {
            let listed = provider.list(&page).await.unwrap();
            let Some(last) = listed.last() else {
                break;
            };
            page = ListRequest::new()
                .with_limit(limit)
                .with_after(last.name.clone());
            names.extend(listed.iter().map(|record| record.name.to_string()));
        }
        assert_eq!(names, ["a", "z"], "in pages of {limit}");
    }
}

#[tokio::test]
async fn the_journal() {
    let (_folder, path) = folder();
    let provider = connect(&path, "").await.unwrap();
    shedlock_conformance::journal::check(provider.journal().unwrap()).await;
    // It is there for the next process, and is no list of locks.
    let provider = connect(&path, "").await.unwrap();
    let journal = provider.journal().unwrap();
    assert_eq!(journal.version().await.unwrap(), Some(JOURNAL_VERSION));
    assert_eq!(provider.list(&ListRequest::new()).await.unwrap(), []);
    provider.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_a_journal() {
    let (_folder, path) = folder();
    let mut journals = Vec::new();
    for _ in 0..4 {
        let provider = connect(&path, "").await.unwrap();
        journals.push(provider.journal().unwrap());
    }
    shedlock_conformance::journal::contended(&journals).await;
}

#[tokio::test]
async fn without_a_journal_its_errors_say_how_to_create_one() {
    let (_folder, path) = folder();
    let provider = connect(&path, "").await.unwrap();
    let journal = provider.journal().unwrap();
    assert_eq!(journal.version().await.unwrap(), None);
    let error = journal.jobs(&JobsRequest::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("`migrate()`"), "{error}");
    let audit = AuditRecord::new(
        SystemTime::UNIX_EPOCH,
        1,
        Actor::Claimed("a".into()),
        "b",
        "c",
    );
    let error = journal
        .record(&[JournalEntry::Audit(audit)])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
}

#[tokio::test]
async fn a_hundred_thousand_runs_leave_the_configured_rows() {
    let (_folder, path) = folder();
    // A call may take twice as long as that: the disk may be busy, which is not the subject.
    let journal = connect(&path, "busy_timeout=5m")
        .await
        .unwrap()
        .journal()
        .unwrap();
    journal.migrate().await.unwrap();
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let retention = Retention::default();
    for batch in 0..100_u64 {
        let runs = (0..1_000_u64).map(|number| {
            let started = start + Duration::from_secs(batch * 1_000 + number);
            let owner = format!("host/{batch}/{number}");
            let mut run = RunRecord::new("report", "report", owner, started);
            run.end = Some(RunEnd::new(
                Duration::from_secs(1),
                RunOutcome::Succeeded,
                None,
            ));
            JournalEntry::run(run, None)
        });
        journal.record(&runs.collect::<Vec<_>>()).await.unwrap();
        journal.prune("report", &retention).await.unwrap();
    }
    let all = RunsRequest::new().with_limit(10_000);
    let left = journal.runs(&all).await.unwrap();
    assert_eq!(left.len(), retention.runs_per_job);
    assert_eq!(left[0].started, start + Duration::from_secs(99_999));
}

/// As when a shutdown closes the pool first and then waits for the tasks.
#[tokio::test]
async fn a_closed_pool_is_no_failure_that_passes() {
    let (_folder, path) = folder();
    drop(connect(&path, "").await.unwrap().migrate().await);
    let options = SqliteConnectOptions::new().filename(&path);
    let pool = SqlitePoolOptions::new()
        .connect_with(options)
        .await
        .unwrap();
    let provider = SqliteProvider::builder(pool.clone()).build().unwrap();
    provider.migrate().await.unwrap();
    assert_value_outlives_client(Arc::new(provider), async { pool.close().await }).await;
}

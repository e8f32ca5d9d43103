//! The journal: on Redis and Valkey, behind sentinels and in a cluster.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Arc;

use common::clustered::Clustered;
use common::own::Own;
use common::watched::Watched;
use redis::{Client, cmd};
use shedlock_conformance::journal;
use shedlock_conformance::support::unique;
use shedlock_core::{
    Attempt, AttemptRequest, ErrorKind, JobsRequest, Journal, JournalEntry, ListRequest, LockName,
    LockProvider, Owner, RunEnd, RunOutcome, RunRecord, RunsRequest,
};
use shedlock_redis::RedisProvider;
use shedlock_rig::given::program;

/// A provider over an environment of its own.
async fn provider(server: &str) -> RedisProvider {
    let url = format!("{server}?environment={}", unique("journal"));
    RedisProvider::connect(&url).await.unwrap()
}

async fn own(settings: &[&str]) -> Own {
    let program = program("redis-server", "redis");
    Own::start(program, settings).await.unwrap()
}

async fn keeps_a_journal(server: &str) {
    let first = provider(server).await;
    journal::check(first.journal().unwrap()).await;
    assert_eq!(first.list(&ListRequest::new()).await.unwrap(), []);
    nothing_else_is_left(server).await;
    let url = format!("{server}?environment={}", unique("shared"));
    let mut journals = Vec::new();
    for _ in 0..4 {
        let provider = RedisProvider::connect(&url).await.unwrap();
        journals.push(provider.journal().unwrap());
    }
    journal::contended(&journals).await;
}

/// Pruning leaves nothing behind in any key.
async fn nothing_else_is_left(server: &str) {
    let environment = unique("kept");
    let url = format!("{server}?environment={environment}");
    let provider = RedisProvider::connect(&url).await.unwrap();
    journal::retained(provider.journal().unwrap(), 100_000).await;
    let client = Client::open(server).unwrap();
    let mut admin = common::connection(&client).await.unwrap();
    let mut size = async |command: &str, key: &str| -> usize {
        let mut size = cmd(command);
        size.arg(format!(
            "shedlock-rs:journal:{{job-lock:{environment}}}:{key}"
        ));
        size.query_async(&mut admin).await.unwrap()
    };
    assert_eq!(
        (size("ZCARD", "jobs").await, size("HLEN", "job").await),
        (1, 1)
    );
    for key in ["runs", "runs-of-job", "runs-of-name"] {
        assert_eq!(size("ZCARD", key).await, 50, "{key}");
    }
    assert_eq!(size("HLEN", "run").await, 50);
    assert_eq!(size("ZCARD", "open").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_keeps_a_journal() {
    keeps_a_journal(&common::server("redis")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn valkey_keeps_a_journal() {
    keeps_a_journal(&common::server("valkey")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_a_journal_in_one_slot() {
    let cluster = Clustered::start().await.unwrap();
    // Braces in an environment do not spread its keys over the cluster.
    for environment in ["default", "%7Da", "a%7Bb%7Dc"] {
        let url = format!("{}?environment={environment}", cluster.url());
        let provider = RedisProvider::connect(&url).await.unwrap();
        journal::check(provider.journal().unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_behind_sentinels() {
    let watched = Watched::start(1).await.unwrap();
    let provider = RedisProvider::connect(&watched.url()).await.unwrap();
    journal::check(provider.journal().unwrap()).await;
}

/// The wire format: it must not change.
#[tokio::test]
async fn its_keys_are_as_documented() {
    let server = own(&[]).await;
    let provider = RedisProvider::connect(&server.url()).await.unwrap();
    let journal = provider.journal().unwrap();
    let _ = journal.migrate().await.unwrap();
    let mut admin = common::connection(&server.admin().unwrap()).await.unwrap();
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_micros(0x60a_24181_e407b);
    let run = RunRecord::new("mail", "mail-1", "web-3/1/ab", at);
    let id = run.id.as_str().to_owned();
    let entry = JournalEntry::run(run, None);
    journal.record(&[entry]).await.unwrap();
    let key = |suffix: &str| format!("shedlock-rs:journal:{{job-lock:default}}:{suffix}");
    let version: String = cmd("GET")
        .arg(key("version"))
        .query_async(&mut admin)
        .await
        .unwrap();
    assert_eq!(version, "1");
    for (set, member) in [
        ("jobs", "mail".to_owned()),
        ("runs", id.clone()),
        ("runs-of-job", format!("mail\n{id}")),
        ("runs-of-name", format!("mail-1\n{id}")),
        ("open", id.clone()),
    ] {
        let mut all = cmd("ZRANGE");
        all.arg(key(set)).arg(0).arg(-1).arg("WITHSCORES");
        let found: Vec<String> = all.query_async(&mut admin).await.unwrap();
        assert_eq!(found, [member, "0".to_owned()], "{set}");
    }
    let micros = 0x60a_24181_e407b_u64;
    let mut get = cmd("HGET");
    let value: String = get
        .arg(key("run"))
        .arg(&id)
        .query_async(&mut admin)
        .await
        .unwrap();
    assert_eq!(
        value,
        format!("- {micros} - - - - - -\nmail\nmail-1\nweb-3/1/ab\n")
    );
    let mut get = cmd("HGET");
    let value: String = get
        .arg(key("job"))
        .arg("mail")
        .query_async(&mut admin)
        .await
        .unwrap();
    let (_, rest) = value.split_once(' ').unwrap();
    assert_eq!(
        rest,
        format!("- {micros} - - - - - - - - - - - - - - - - - -\n\n\n\nmail-1\nweb-3/1/ab\n\n")
    );
}

/// A server that evicts keys can drop any part of the journal. What is recorded again is there again.
#[tokio::test]
async fn what_was_evicted_or_cannot_be_read_is_recorded_again() {
    let server = own(&[]).await;
    let provider = RedisProvider::connect(&server.url()).await.unwrap();
    let journal = provider.journal().unwrap();
    let _ = journal.migrate().await.unwrap();
    let mut admin = common::connection(&server.admin().unwrap()).await.unwrap();
    let run = RunRecord::new("mail", "mail-1", "web-3/1/ab", std::time::UNIX_EPOCH);
    let entries = [JournalEntry::run(run.clone(), None)];
    for evicted in ["job", "run", "ids"] {
        journal.record(&entries).await.unwrap();
        let mut del = cmd("DEL");
        del.arg(format!(
            "shedlock-rs:journal:{{job-lock:default}}:{evicted}"
        ));
        let () = del.query_async(&mut admin).await.unwrap();
        journal.record(&entries).await.unwrap();
        let found = journal.runs(&RunsRequest::new().with_job("mail")).await;
        assert_eq!(found.unwrap(), std::slice::from_ref(&run), "{evicted}");
        assert!(journal.job("mail").await.unwrap().is_some(), "{evicted}");
    }
    // What cannot be read keeps no other entry from being recorded.
    for key in ["job", "run"] {
        let key = format!("shedlock-rs:journal:{{job-lock:default}}:{key}");
        let field = match key.ends_with("job") {
            true => "mail",
            false => run.id.as_str(),
        };
        let mut set = cmd("HSET");
        let () = set
            .arg(key)
            .arg(field)
            .arg("?")
            .query_async(&mut admin)
            .await
            .unwrap();
    }
    let other = RunRecord::new("post", "post", "web-3/1/ab", std::time::UNIX_EPOCH);
    let entries = [entries[0].clone(), JournalEntry::run(other.clone(), None)];
    journal.record(&entries).await.unwrap();
    for run in [run, other] {
        let found = journal.runs(&RunsRequest::new().with_job(&*run.job)).await;
        assert_eq!(found.unwrap(), [run]);
    }
}

#[tokio::test]
async fn a_journal_that_is_newer_or_gone_is_reported() {
    let server = common::server("redis");
    let environment = unique("journal");
    let url = format!("{server}?environment={environment}");
    let provider = RedisProvider::connect(&url).await.unwrap();
    let journal = provider.journal().unwrap();
    let error = journal.jobs(&JobsRequest::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("`migrate()`"), "{error}");
    let mut admin = common::connection(&Client::open(server).unwrap())
        .await
        .unwrap();
    let key = format!("shedlock-rs:journal:{{job-lock:{environment}}}:version");
    let () = cmd("SET")
        .arg(&key)
        .arg(9)
        .query_async(&mut admin)
        .await
        .unwrap();
    assert_eq!(journal.version().await.unwrap(), Some(9));
    assert_eq!(journal.migrate().await.unwrap().changes, [""; 0]);
    assert_eq!(journal.version().await.unwrap(), Some(9));
    let () = cmd("SET")
        .arg(&key)
        .arg("x")
        .query_async(&mut admin)
        .await
        .unwrap();
    let error = journal.version().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

/// Upgrading needs no new rights: locks work without the journal, and its errors say what to grant.
#[tokio::test]
async fn a_user_without_rights_keeps_its_locks_and_learns_what_to_grant() {
    let server = own(&[]).await;
    let admin = server.admin().unwrap();
    common::rights::allow(&admin, "").await;
    let url = server.url().replace("//", "//locks:pw@");
    let provider = RedisProvider::connect(&url).await.unwrap();
    let journal = provider.journal().unwrap();
    assert_eq!(journal.version().await.unwrap(), None);
    let _ = journal.migrate().await.unwrap();
    let error = journal.jobs(&JobsRequest::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(
        error.to_string().contains("grant it the commands"),
        "{error}"
    );
    let name = LockName::new("job").unwrap();
    let minute = std::time::Duration::from_secs(60);
    let request = AttemptRequest::new(name, Owner::generate(), minute);
    let attempt = provider.attempt(&request).await.unwrap();
    assert!(matches!(attempt, Attempt::Acquired(_)), "{attempt:?}");
    common::rights::allow(&admin, common::rights::JOURNAL).await;
    let journal: Arc<dyn Journal> = provider.journal().unwrap();
    let () = cmd("DEL")
        .arg("shedlock-rs:journal:{job-lock:default}:version")
        .query_async(&mut common::connection(&admin).await.unwrap())
        .await
        .unwrap();
    journal::check(journal).await;
}

#[tokio::test]
async fn an_error_says_where_the_journal_is() {
    let server = own(&[]).await;
    let provider = RedisProvider::connect(&server.url()).await.unwrap();
    let journal = provider.journal().unwrap();
    server.stop();
    // The first error may be that of the connection that ended.
    let _ = journal.version().await;
    let error = journal.version().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let address = format!("127.0.0.1:{}", server.port());
    assert!(error.to_string().contains(&address), "{error}");
}

/// A server that takes no writes loses no entries: the error is one after which the writer tries again.
#[tokio::test]
async fn a_full_server_is_an_error_that_passes() {
    let server = own(&[]).await;
    let provider = RedisProvider::connect(&server.url()).await.unwrap();
    let journal = provider.journal().unwrap();
    let _ = journal.migrate().await.unwrap();
    let mut admin = common::connection(&server.admin().unwrap()).await.unwrap();
    let mut limit = cmd("CONFIG");
    limit.arg("SET").arg("maxmemory").arg(1);
    let () = limit.query_async(&mut admin).await.unwrap();
    let mut run = RunRecord::new("mail", "mail", "web-3/1/ab", std::time::UNIX_EPOCH);
    run.end = Some(RunEnd::new(
        std::time::Duration::ZERO,
        RunOutcome::Succeeded,
        None,
    ));
    let entries = [JournalEntry::run(run, None)];
    let error = journal.record(&entries).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("maxmemory"), "{error}");
}

//! A cluster: names of all kinds, slots that move, servers that fail.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::time::Duration;

use common::clustered::Clustered;
use common::has_caught_up;
use common::rights::allow;
use redis::cluster::ClusterClient;
use redis::cluster_routing::Slot;
use redis::cmd;
use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, ExtendRequest, Extension, ForceUnlockRequest,
    ForcedUnlock, Lease, ListRequest, LockName, LockProvider, LockState, Owner, Slot as Tick,
    Unlock, UnlockRequest, admin,
};
use shedlock_redis::RedisProvider;
use shedlock_rig::wait::answered;

const MINUTE: Duration = Duration::from_secs(60);

async fn start() -> Clustered {
    Clustered::start().await.unwrap()
}

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

fn request(text: &str) -> AttemptRequest {
    AttemptRequest::new(name(text), Owner::generate(), MINUTE)
}

async fn take(provider: &RedisProvider, text: &str) -> Lease {
    match provider.attempt(&request(text)).await.unwrap() {
        Attempt::Acquired(lease) => lease,
        other => panic!("{text} should be free: {other:?}"),
    }
}

/// The first name whose lock is in these slots.
fn name_in(slots: std::ops::Range<u16>, what: &str) -> String {
    let names = (0..).map(|number| format!("{what}-{number}"));
    let mut fitting = names.filter(|name| {
        let slot = Slot::for_key(format!("job-lock:default:{name}"));
        slots.clone().any(|number| Slot::new(number) == Some(slot))
    });
    fitting.next().unwrap()
}

/// All cases share one start of four servers.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_a_store_like_another() {
    let cluster = start().await;
    let provider = RedisProvider::connect(&format!("{}?response_timeout=1500ms", cluster.url()))
        .await
        .unwrap();
    names_with_braces(&provider).await;
    the_users_own_connections(&cluster).await;
    a_user_with_rights_for_locks_alone(&cluster).await;
    one_server_is_not_enough(&cluster).await;
    replicas_confirm(&cluster).await;
    a_slot_that_moves(&cluster, &provider).await;
    a_primary_that_dies_and_has_a_replica(&cluster, &provider).await;
    a_primary_that_dies_alone(&cluster, &provider).await;
}

async fn names_with_braces(provider: &RedisProvider) {
    let names = [
        "{", "}", "{}", "a{b}c", "{}{x}", "}{", "{{}}", "a}b", "{a}", "{a}}", "payroll", "a b",
    ];
    let now = provider.attempt(&request("clock")).await.unwrap();
    let now = now.acquired().unwrap().acquired_at().unwrap();
    let tick = Tick::at(now).unwrap();
    for text in names {
        let asked = request(text).with_slot(tick);
        let lease = provider.attempt(&asked).await.unwrap().acquired();
        let lease = lease.expect("the lock should be free");
        let again = provider.attempt(&request(text)).await.unwrap();
        assert!(matches!(again, Attempt::Skipped(_)), "{again:?}");
        let longer = ExtendRequest::new(2 * MINUTE);
        let extended = provider.extend(&lease, &longer).await.unwrap();
        assert!(matches!(extended, Extension::Extended(_)), "{extended:?}");
        let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
        assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
        let next = take(provider, text).await;
        assert!(next.fencing_token() > lease.fencing_token(), "{text}");
    }
    let mut listed = Vec::new();
    let mut page = ListRequest::new().with_limit(5);
    loop {
        let some = provider.list(&page).await.unwrap();
        let Some(last) = some.last() else { break };
        page = page.with_after(last.name.clone());
        listed.extend(some.iter().map(|record| record.name.to_string()));
    }
    let mut expected: Vec<_> = names.iter().map(ToString::to_string).collect();
    expected.push("clock".to_owned());
    expected.sort();
    assert_eq!(listed, expected);
    for text in names {
        let force = ForceUnlockRequest::new(name(text));
        let freed = admin::force_unlock(provider, &force).await.unwrap();
        assert!(matches!(freed, ForcedUnlock::Freed(_)), "{freed:?}");
    }
}

async fn the_users_own_connections(cluster: &Clustered) {
    let client = ClusterClient::new([cluster.servers[0].url()]).unwrap();
    let connection = client.get_async_connection().await.unwrap();
    for (text, provider) in [
        ("by the client", RedisProvider::builder(client)),
        ("by the connection", RedisProvider::builder(connection)),
    ] {
        let provider = provider.build().unwrap();
        provider.check().await.unwrap();
        let lease = take(&provider, text).await;
        let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
        assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    }
}

async fn a_user_with_rights_for_locks_alone(cluster: &Clustered) {
    for server in &cluster.servers {
        allow(&server.admin().unwrap(), "+cluster|slots").await;
    }
    let url = cluster.url().replace("//", "//locks:pw@");
    let provider = RedisProvider::connect(&url).await.unwrap();
    let lease = take(&provider, "by a user").await;
    assert!(!provider.list(&ListRequest::new()).await.unwrap().is_empty());
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    let wrong = url.replace("pw@", "hunter2@");
    let error = RedisProvider::connect(&wrong).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
}

async fn one_server_is_not_enough(cluster: &Clustered) {
    let error = RedisProvider::connect(&cluster.servers[0].url()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
    assert!(error.to_string().contains("redis-cluster://"), "{error}");
    let away = RedisProvider::connect("redis-cluster://127.0.0.1:1").await;
    assert_eq!(away.unwrap_err().kind(), ErrorKind::Unavailable);
}

/// Only the first primary has a replica.
async fn replicas_confirm(cluster: &Clustered) {
    let url = format!("{}?wait_replicas=1&wait_timeout=300ms", cluster.url());
    let provider = RedisProvider::connect(&url).await.unwrap();
    let confirmed = request(&name_in(0..5_461, "confirmed"));
    let attempt = async || provider.attempt(&confirmed).await;
    let lease = answered("the replica confirms", Error::is_retryable, attempt).await;
    let lease = lease.acquired().expect("the lock should be free");
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    let alone = request(&name_in(5_461..10_923, "not-confirmed"));
    let error = provider.attempt(&alone).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let record = provider.inspect(&alone.name).await.unwrap().unwrap();
    assert_eq!(record.state, LockState::Free, "{record:?}");
}

/// The server redirects the client to where the keys have moved, and the client follows.
async fn a_slot_that_moves(cluster: &Clustered, provider: &RedisProvider) {
    let text = name_in(0..5_461, "moves");
    let lease = take(provider, &text).await;
    let lock = format!("job-lock:default:{text}");
    let slot: u32 = cluster.ask(0, &["KEYSLOT", &lock]).await.unwrap();
    let slot = slot.to_string();
    let ids = [0, 1].map(|i| async move { cluster.ask::<String>(i, &["MYID"]).await.unwrap() });
    let [from, to] = futures_util::future::join_all(ids)
        .await
        .try_into()
        .unwrap();
    cluster
        .ask::<()>(1, &["SETSLOT", &slot, "IMPORTING", &from])
        .await
        .unwrap();
    cluster
        .ask::<()>(0, &["SETSLOT", &slot, "MIGRATING", &to])
        .await
        .unwrap();
    let mut old = cluster.connection(0).await.unwrap();
    let mut migrate = cmd("MIGRATE");
    migrate
        .arg("127.0.0.1")
        .arg(cluster.servers[1].port())
        .arg("");
    migrate.arg(0).arg(5_000).arg("KEYS");
    migrate.arg(&lock).arg(format!("shedlock-rs:{{{lock}}}"));
    let () = migrate.query_async(&mut old).await.unwrap();
    // During the move, the old server redirects to the new one.
    let longer = ExtendRequest::new(2 * MINUTE);
    let extended = provider.extend(&lease, &longer).await.unwrap();
    assert!(matches!(extended, Extension::Extended(_)), "{extended:?}");
    for server in [1, 0, 2] {
        cluster
            .ask::<()>(server, &["SETSLOT", &slot, "NODE", &to])
            .await
            .unwrap();
    }
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    let _ = take(provider, &text).await;
}

async fn a_primary_that_dies_and_has_a_replica(cluster: &Clustered, provider: &RedisProvider) {
    let text = name_in(0..5_461, "fails-over");
    let lease = take(provider, &text).await;
    let primary = cluster.servers[0].admin().unwrap();
    let mark = format!("mark-{{job-lock:default:{text}}}");
    has_caught_up(&primary, &mark).await.unwrap();
    cluster.servers[0].stop();
    let attempt = async || provider.attempt(&request(&text)).await;
    let again = answered("the failover ends", Error::is_retryable, attempt).await;
    assert!(matches!(again, Attempt::Skipped(_)), "{again:?}");
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
}

/// Locks on other servers keep working. Locks on this one, and lists, return an error.
async fn a_primary_that_dies_alone(cluster: &Clustered, provider: &RedisProvider) {
    let (there, elsewhere) = (
        name_in(10_923..16_384, "away"),
        name_in(5_461..10_923, "there"),
    );
    let lease = take(provider, &there).await;
    cluster.servers[2].stop();
    let error = provider.attempt(&request(&there)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error:?}");
    let error = provider.inspect(lease.name()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let error = provider.list(&ListRequest::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let lease = take(provider, &elsewhere).await;
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
}

//! The manual's quick start over real stores: two replicas, each connected by URL, call one annotated
//! function at the same time.
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use shedlock::{Error, LockProvider, Outcome, SkipReason, connect, scheduler_lock, with_provider};
use tokio::sync::Barrier;

#[scheduler_lock(name = "expire-{tenant}", lock_at_most_for = "10m")]
async fn expire(tenant: &str, running: &Barrier) -> Result<Outcome<Option<u64>>, Error> {
    // The other replica tries while this one is in here.
    running.wait().await;
    running.wait().await;
    Ok(shedlock::current_lock().and_then(|lock| lock.fencing_token()))
}

/// Two replicas over the store behind this URL, whose table is new.
async fn one_runs_and_one_skips(url: &str) {
    let providers = [connect(url).await.unwrap(), connect(url).await.unwrap()];
    providers[0].migrate().await.unwrap();
    let [first, second] = providers;
    let mut last_token = None;
    for _ in 0..3 {
        let token = one_round(&first, &second).await;
        assert!(
            token.is_some() && token > last_token,
            "{token:?} after {last_token:?}"
        );
        last_token = token;
    }
}

async fn one_round(first: &Arc<dyn LockProvider>, second: &Arc<dyn LockProvider>) -> Option<u64> {
    let running = Barrier::new(2);
    let runs = with_provider(first.clone(), expire("acme", &running));
    let skips = async {
        running.wait().await;
        let skipped = with_provider(second.clone(), expire("acme", &running)).await;
        running.wait().await;
        skipped
    };
    let (ran, skipped) = tokio::join!(runs, skips);
    let skipped = skipped.unwrap();
    let skip = skipped.skip().expect("the lock was held");
    assert_eq!(skip.reason, SkipReason::Held);
    let owner = format!("/{}/", std::process::id());
    assert!(skip.owner.as_ref().unwrap().contains(&owner), "{skip:?}");
    let ran = ran.unwrap();
    assert!(ran.is_executed(), "{ran:?}");
    ran.value().flatten()
}

fn main() -> ExitCode {
    let mut trials = Vec::new();
    if cfg!(feature = "postgres") {
        trials.push(server("postgres", "SHEDLOCK_TEST_POSTGRES"));
    }
    if cfg!(feature = "mysql") {
        trials.push(server("mariadb", "SHEDLOCK_TEST_MARIADB"));
        trials.push(server("mysql", "SHEDLOCK_TEST_MYSQL"));
    }
    if cfg!(feature = "redis") {
        trials.push(server("redis", "SHEDLOCK_TEST_REDIS"));
    }
    if cfg!(feature = "nats") {
        trials.push(server("nats", "SHEDLOCK_TEST_NATS"));
    }
    if cfg!(feature = "zookeeper") {
        trials.push(server("zookeeper", "SHEDLOCK_TEST_ZOOKEEPER"));
    }
    if cfg!(feature = "mongodb") {
        trials.push(server("mongodb", "SHEDLOCK_TEST_MONGODB"));
    }
    if cfg!(feature = "consul") {
        trials.push(server("consul", "SHEDLOCK_TEST_CONSUL"));
    }
    if cfg!(feature = "sqlite") {
        trials.push(Trial::test("sqlite", || {
            let folder = tempfile::tempdir()?;
            let file = folder.path().join("locks.db");
            run(&format!("sqlite:{}", file.display()));
            Ok(())
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test on a server, which fails without one. Left out, and shown as such, where whoever started
/// the servers did not want this one or could not have it (`cargo xtask test --store sqlite`).
fn server(name: &'static str, variable: &str) -> Trial {
    let wanted = std::env::var("SHEDLOCK_TEST_STORES");
    let unwanted = wanted.is_ok_and(|wanted| !wanted.split(',').any(|store| store == name));
    let unavailable = std::env::var(variable).as_deref() == Ok("unavailable");
    let variable = format!("{variable}_URL");
    let trial = Trial::test(name, move || {
        let url = std::env::var(&variable)
            .map_err(|_| format!("{variable} is not set: run `cargo xtask test`"))?;
        if name == "consul" {
            run(&format!("{url}/facade_{}", std::process::id()));
            return Ok(());
        }
        let separator = if url.contains('?') { '&' } else { '?' };
        // What the store calls its room.
        let room = match name {
            "redis" => "environment",
            "nats" => "bucket",
            "zookeeper" => "path",
            "mongodb" => "collection",
            _ => "table",
        };
        let is_path = room == "path";
        let own = format!(
            "{}facade_{}",
            if is_path { "/" } else { "" },
            std::process::id()
        );
        run(&format!("{url}{separator}{room}={own}"));
        Ok(())
    });
    trial.with_ignored_flag(unwanted || unavailable)
}

fn run(url: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(one_runs_and_one_skips(url));
}

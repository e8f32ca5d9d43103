//! The manual's quick start over real stores. Two replicas, each connected by URL, call one annotated
//! function at the same time.
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]

mod blocked;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use shedlock::__stores::{STORES, StoreEntry};
use shedlock::{Error, LockProvider, Outcome, SkipReason, connect, scheduler_lock, with_provider};
use shedlock_rig::given;
use tokio::sync::Barrier;

#[scheduler_lock(name = "expire-{tenant}", lock_at_most_for = "10m")]
async fn expire(tenant: &str, running: &Barrier) -> Result<Outcome<Option<u64>>, Error> {
    // The other replica makes its attempt while this one is here.
    running.wait().await;
    running.wait().await;
    Ok(shedlock::current_lock().and_then(|lock| lock.fencing_token()))
}

/// Runs two replicas over the store at this URL, whose table is new.
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

/// A test over one store.
type Test = fn(&str);

const TESTS: [(&str, Test); 2] = [
    ("", run),
    (
        "a_task_that_blocks_its_thread_keeps_its_lock_",
        blocked::test,
    ),
];

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for (what, test) in TESTS {
        for entry in STORES.iter().filter(|entry| entry.is_built_in) {
            let servers = entry.servers.iter();
            trials.extend(servers.map(|name| server(entry, name, what, test)));
        }
        if cfg!(feature = "sqlite") {
            trials.push(Trial::test(format!("{what}sqlite"), move || {
                let folder = tempfile::tempdir()?;
                let file = folder.path().join("locks.db");
                test(&format!("sqlite:{}", file.display()));
                Ok(())
            }));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Creates a test on a server, which fails without one. It is shown as ignored if the server was deselected
/// or could not be started (`cargo xtask test --store sqlite`).
fn server(entry: &'static StoreEntry, name: &'static str, what: &str, test: Test) -> Trial {
    let is_left_out = !given::is_wanted(name);
    let own = if what.is_empty() { "facade" } else { "blocked" };
    let trial = Trial::test(format!("{what}{name}"), move || {
        let url = given::url(name)?;
        test(&entry.url_of_place(&url, &format!("{own}_{}", std::process::id())));
        Ok(())
    });
    trial.with_ignored_flag(is_left_out)
}

fn run(url: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(one_runs_and_one_skips(url));
}

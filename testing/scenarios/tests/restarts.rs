//! The drill of a fleet (`crates/scheduler/tests/fleet`) on PostgreSQL in real time: replicas with
//! separate runtimes, restarted one after the other, some of them killed, an outage of all, and
//! pauses.
//!
//! `SHEDLOCK_FLEET_SECONDS` sets how long the faults last, for each of three seeds that run in
//! parallel: 12 s by default, and 60 s in a full run (`SHEDLOCK_TEST_FULL`).

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

#[path = "../../../crates/scheduler/tests/fleet/drill.rs"]
mod drill;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};

use drill::{Draw, Drill, KINDS, Ledger};
use shedlock::scheduler::{Handle, Scheduler};
use shedlock::{Clock, Executor, Owner, SystemClock};
use shedlock_rig::given;
use shedlock_scenarios::Database;
use tokio::runtime::{Builder, Runtime};
use url::Url;

const REPLICAS: usize = 3;
const UNIT: Duration = Duration::from_millis(50);
const ROUND: u32 = 60;
/// A time without faults, in which everything that is open completes.
const QUIET: u32 = 160;

struct Replica {
    node: u64,
    ledger: Ledger,
    runtime: Runtime,
    handle: Handle,
}

impl Replica {
    fn start(url: &str, ledger: &Ledger, draw: &mut Draw) -> Self {
        let node = draw.below(u64::MAX);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.block_on(async {
            let provider = shedlock::connect(url).await.unwrap();
            let told = ledger.of_node(node, &clock);
            let scheduler = Scheduler::new(Executor::new(provider).listener(told.clone()));
            let jobs = KINDS
                .iter()
                .map(|kind| kind.job(UNIT, node, &clock, ledger));
            let scheduler = scheduler.observer(told).seed(node);
            scheduler.jobs(jobs).start().unwrap()
        });
        Self {
            node,
            ledger: ledger.clone(),
            runtime,
            handle,
        }
    }

    /// Shuts down gracefully, or stops immediately without releasing anything in the store.
    fn stop(self, killed: bool, grace: Duration, stopping: &mut Vec<JoinHandle<()>>) {
        if killed {
            self.ledger.kills(self.node);
            self.runtime.shutdown_background();
            return;
        }
        stopping.push(std::thread::spawn(move || {
            let report = self.runtime.block_on(self.handle.shutdown(grace));
            report.unwrap();
        }));
    }
}

fn lasts() -> Duration {
    let seconds = std::env::var("SHEDLOCK_FLEET_SECONDS");
    let is_full = std::env::var_os("SHEDLOCK_TEST_FULL").is_some_and(|value| !value.is_empty());
    let default = if is_full { 60 } else { 12 };
    Duration::from_secs(seconds.map_or(default, |seconds| seconds.parse().unwrap()))
}

/// Creates a separate database.
fn database(runtime: &Runtime) -> (Database, String, Url) {
    let server = given::server("postgres");
    let owner = Owner::generate();
    let random = owner.as_str().rsplit('/').next().unwrap_or_default();
    let name = format!("fleet_{random}");
    let mut url: Url = server.parse().unwrap();
    let database = runtime.block_on(async {
        let database = Database::connect(&server).await.unwrap();
        let create = format!("CREATE DATABASE {name}");
        database.change(&create, &[]).await.unwrap();
        url.set_path(&name);
        let provider = shedlock::connect(url.as_str()).await.unwrap();
        provider.migrate().await.unwrap();
        database
    });
    (database, name, url)
}

fn told(seed: u64) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let wait = |for_units: Duration| {
        let clock = SystemClock;
        runtime.block_on(clock.sleep_until(clock.now() + for_units));
    };
    let (database, name, url) = database(&runtime);
    let (ledger, mut draw) = (Ledger::default(), Draw::new(seed));
    let mut stopping = Vec::new();
    let start = |draw: &mut Draw| Replica::start(url.as_str(), &ledger, draw);
    let mut replicas: Vec<Replica> = (0..REPLICAS).map(|_| start(&mut draw)).collect();
    // The guarantee for slots begins once a slot has been taken.
    wait(UNIT * ROUND);
    let from = SystemClock.system_time();
    let mut drill = Drill {
        unit: UNIT,
        from,
        until: from + lasts(),
        rests: Vec::new(),
        slack: Duration::from_secs(1),
        most_left_out: 100,
    };
    let mut round = 0;
    while SystemClock.system_time() < drill.until {
        round += 1;
        if round % 20 == 2 {
            let begins = SystemClock.system_time();
            for replica in replicas.drain(..) {
                replica.stop(draw.below(2) == 0, UNIT * 3, &mut stopping);
            }
            wait(UNIT * ROUND);
            replicas.extend((0..REPLICAS).map(|_| start(&mut draw)));
            drill.rests.push((None, begins, SystemClock.system_time()));
            continue;
        }
        wait(draw.up_to(UNIT, 20));
        let restarted = replicas.swap_remove(draw.index(REPLICAS));
        let grace = draw.up_to(UNIT, 12);
        restarted.stop(draw.below(4) == 0, grace, &mut stopping);
        wait(draw.up_to(UNIT, 9));
        replicas.push(start(&mut draw));
        if round % 3 == 0 {
            let job = KINDS[draw.index(KINDS.len())].name;
            let begins = SystemClock.system_time();
            for replica in &replicas {
                runtime.block_on(replica.handle.pause(job)).unwrap();
            }
            wait(UNIT + draw.up_to(UNIT, 24));
            for replica in &replicas {
                runtime.block_on(replica.handle.resume(job)).unwrap();
            }
            drill
                .rests
                .push((Some(job), begins, SystemClock.system_time()));
        }
        wait(draw.up_to(UNIT, 20));
    }
    wait(UNIT * QUIET);
    for replica in replicas {
        replica.stop(false, UNIT * ROUND, &mut stopping);
    }
    for stopped in stopping {
        stopped.join().unwrap();
    }
    let judged = drill.judge(&ledger);
    let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    runtime.block_on(database.change(&drop, &[])).unwrap();
    if let Err(wrong) = judged {
        panic!("seed {seed}: {wrong}");
    }
}

fn main() -> ExitCode {
    given::needs_store("postgres");
    let trial = |seed| {
        let name = format!("restarts_on_postgres_lose_and_double_nothing_{seed}");
        Trial::test(name, move || {
            told(seed);
            Ok(())
        })
    };
    let trials: Vec<_> = (1..=3).map(trial).collect();
    let mut arguments = Arguments::from_args();
    // They mostly wait, so run all of them at once.
    arguments.test_threads.get_or_insert(trials.len());
    libtest_mimic::run(&arguments, trials).exit_code()
}

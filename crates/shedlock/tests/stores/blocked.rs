//! Tasks that block their threads under keep-alive, over real stores.

#![expect(
    clippy::disallowed_methods,
    reason = "real threads are blocked, in real time"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use shedlock::{ClockSource, Executor, LockConfig, LockProvider, Outcome, Release, connect};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Barrier;

/// What of a lease can be used: on a machine that is busy, as with this test, an extension may take a moment.
const USABLE: Duration = Duration::from_secs(6);

/// A lease of which this much can be used on this store.
fn lease(provider: &dyn LockProvider) -> Duration {
    match provider.capabilities().clock {
        ClockSource::Clients { tolerated_skew } => USABLE + 2 * tolerated_skew,
        _ => USABLE,
    }
}

/// The jobs whose tasks have begun, each with whether it has ended.
type Begun = Arc<Mutex<HashMap<String, bool>>>;

/// How the tasks of a service run.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// None for a runtime of the current thread.
    workers: Option<usize>,
    is_spawned: bool,
}

impl Way {
    fn all() -> impl Iterator<Item = Self> {
        [None, Some(1), Some(2), Some(4)]
            .into_iter()
            .flat_map(|workers| {
                [true, false].map(|is_spawned| Self {
                    workers,
                    is_spawned,
                })
            })
    }

    fn runtime(self) -> Runtime {
        let mut builder = match self.workers {
            None => Builder::new_current_thread(),
            Some(_) => Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(self.workers.unwrap_or(1));
        runtime.enable_all().build().unwrap()
    }

    /// The names of the locks of as many jobs as it takes to block all threads.
    fn jobs(self) -> Vec<String> {
        let workers = self.workers.unwrap_or(0);
        let spawned = if self.is_spawned {
            workers.max(1)
        } else {
            workers + 1
        };
        let kind = if self.is_spawned {
            "spawned"
        } else {
            "awaited"
        };
        (0..spawned)
            .map(|job| format!("{kind} on {workers}, {job}"))
            .collect()
    }

    /// Runs a service whose jobs block all of its threads for three leases, and note then that they have ended.
    fn run(self, url: &str, begun: &Begun) {
        let jobs = self.jobs();
        let barrier = Arc::new(Barrier::new(jobs.len()));
        self.runtime().block_on(async {
            let executor = Executor::new(connect(url).await.unwrap());
            let mut runs: Vec<_> = jobs
                .into_iter()
                .map(|job| blocks(&executor, &barrier, begun, job))
                .collect();
            let last = runs.pop().unwrap();
            let spawned: Vec<_> = runs.into_iter().map(tokio::spawn).collect();
            if self.is_spawned {
                tokio::spawn(last).await.unwrap();
            } else {
                last.await;
            }
            for run in spawned {
                run.await.unwrap();
            }
        });
    }
}

fn blocks(
    executor: &Executor,
    barrier: &Arc<Barrier>,
    begun: &Begun,
    job: String,
) -> impl Future<Output = ()> + use<> {
    let (executor, barrier, begun) = (executor.clone(), barrier.clone(), begun.clone());
    async move {
        let lease = lease(&**executor.provider());
        let config = LockConfig::new(&job).lock_at_most_for(lease);
        let task = async {
            barrier.wait().await;
            begun.lock().unwrap().insert(job.clone(), false);
            thread::sleep(3 * lease);
            begun.lock().unwrap().insert(job.clone(), true);
        };
        let outcome = executor.execute(&config.keep_alive(), task).await.unwrap();
        let Outcome::Executed {
            release: Release::Released,
            ..
        } = outcome
        else {
            panic!("{job}: {outcome:?}")
        };
    }
}

/// While a job runs, another process never gets its lock.
pub(crate) fn test(url: &str) {
    let own = Way {
        workers: None,
        is_spawned: true,
    }
    .runtime();
    let rival = own.block_on(async {
        let rival = connect(url).await.unwrap();
        rival.migrate().await.unwrap();
        Executor::new(rival)
    });
    let (begun, is_over) = (Begun::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let begun = &begun;
        let run = |way: Way| scope.spawn(move || way.run(url, begun));
        let ways: Vec<_> = Way::all().map(run).collect();
        let watch = scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let jobs: Vec<_> = begun.lock().unwrap().keys().cloned().collect();
                for job in jobs {
                    let config = LockConfig::new(&job).lock_at_most_for(lease(&**rival.provider()));
                    let task = async { begun.lock().unwrap()[&job] };
                    let outcome = own.block_on(rival.execute(&config, task)).unwrap();
                    assert_ne!(outcome.value(), Some(false), "{job} has two holders");
                }
                thread::sleep(USABLE / 10);
            }
        });
        let failed = ways.into_iter().filter_map(|way| way.join().err()).count();
        is_over.store(true, Ordering::SeqCst);
        assert!(watch.join().is_ok() && failed == 0, "see above");
    });
}

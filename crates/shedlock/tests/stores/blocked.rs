//! Tasks that block their threads under keep-alive, over real stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use shedlock::{Executor, LockConfig, Outcome, Release, connect};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Barrier;

const LEASE: Duration = Duration::from_secs(2);

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

    /// Runs a service whose jobs block all of its threads for three leases.
    fn run(self, url: &str) {
        let jobs = self.jobs();
        let barrier = Arc::new(Barrier::new(jobs.len()));
        self.runtime().block_on(async {
            let executor = Executor::new(connect(url).await.unwrap());
            let mut runs: Vec<_> = jobs
                .into_iter()
                .map(|job| blocks(&executor, &barrier, job))
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
    job: String,
) -> impl Future<Output = ()> + use<> {
    let (executor, barrier) = (executor.clone(), barrier.clone());
    async move {
        let config = LockConfig::new(&job)
            .lock_at_most_for(LEASE)
            .lock_at_least_for(4 * LEASE);
        let task = async {
            barrier.wait().await;
            thread::sleep(3 * LEASE);
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

/// While all jobs run, another process never gets one of their locks.
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
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let ways: Vec<_> = Way::all()
            .map(|way| scope.spawn(move || way.run(url)))
            .collect();
        let watched = scope.spawn(|| {
            // The jobs have taken their locks by then.
            thread::sleep(LEASE);
            while !has_ended.load(Ordering::SeqCst) {
                for job in Way::all().flat_map(Way::jobs) {
                    let config = LockConfig::new(&job).lock_at_most_for(LEASE);
                    let outcome = own.block_on(rival.execute(&config, async {})).unwrap();
                    assert!(outcome.skip().is_some(), "{job} has two holders");
                }
                thread::sleep(LEASE / 10);
            }
        });
        let failed: Vec<_> = ways
            .into_iter()
            .filter_map(|way| way.join().err())
            .collect();
        has_ended.store(true, Ordering::SeqCst);
        assert!(failed.is_empty() & watched.join().is_ok(), "see above");
    });
}

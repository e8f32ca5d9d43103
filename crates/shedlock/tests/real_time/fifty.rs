//! An operator pauses a job that fifty replicas start every second.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shedlock::scheduler::{Job, Schedule, Scheduler};
use shedlock::{Executor, LockConfig, LockName, PauseRequest, Paused, ResumeRequest, admin};

use crate::places::Place;
use crate::{block_on, pause};

const REPLICAS: usize = 50;
/// More would need more connections than a server with default settings has.
const PROVIDERS: usize = 5;
const TAKES: Duration = Duration::from_millis(600);

async fn at_least(runs: &AtomicUsize, number: usize) {
    const PATIENCE: u32 = 60_000 / 20;
    for _ in 0..PATIENCE {
        if runs.load(Ordering::SeqCst) >= number {
            return;
        }
        pause(Duration::from_millis(20)).await;
    }
    panic!("{number} runs should have begun, but {runs:?} did");
}

/// The pause succeeds within two runs of the task, whichever replicas compete, and holds.
pub(crate) fn test(place: &Place, name: &str) {
    let url = place.locks("fifty");
    block_on(async {
        shedlock::connect(&url)
            .await
            .unwrap()
            .migrate()
            .await
            .unwrap();
        let mut providers = Vec::new();
        for _ in 0..PROVIDERS {
            providers.push(shedlock::connect(&url).await.unwrap());
        }
        let runs = Arc::new(AtomicUsize::new(0));
        let mut replicas = Vec::new();
        for number in 0..REPLICAS {
            let runs = Arc::clone(&runs);
            let config = LockConfig::new(name).lock_at_most_for("30s");
            let schedule = Schedule::every(Duration::from_secs(1)).unwrap();
            let job = Job::new(config, schedule, move |_| {
                let runs = Arc::clone(&runs);
                async move {
                    runs.fetch_add(1, Ordering::SeqCst);
                    pause(TAKES).await;
                    Ok::<(), std::io::Error>(())
                }
            });
            let executor = Executor::new(providers[number % PROVIDERS].clone());
            replicas.push(Scheduler::new(executor).job(job).start().unwrap());
        }
        at_least(&runs, 3).await;

        let operator = Executor::new(shedlock::connect(&url).await.unwrap());
        let lock = LockName::new(name).unwrap();
        let before = runs.load(Ordering::SeqCst);
        let request = PauseRequest::new(lock.clone(), "alice");
        let paused = operator.pause(&request, Duration::from_secs(60)).await;
        let after = runs.load(Ordering::SeqCst);
        assert!(matches!(paused, Ok(Paused::Done { .. })), "{paused:?}");
        assert!(
            after - before <= 2,
            "{} runs began meanwhile",
            after - before
        );

        pause(Duration::from_secs(3)).await;
        let still = runs.load(Ordering::SeqCst);
        assert_eq!(still, after, "no replica runs a paused job");
        let resume = ResumeRequest::new(lock);
        admin::resume(&**operator.provider(), &resume)
            .await
            .unwrap();
        at_least(&runs, still + 1).await;
        for replica in replicas {
            replica.shutdown(Duration::from_secs(10)).await.unwrap();
        }
    });
}

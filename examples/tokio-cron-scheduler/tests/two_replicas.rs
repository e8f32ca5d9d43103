//! Two replicas, each with the real scheduler and its own connection, over one real store. Both fire
//! every slot, and one of them runs it.

#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono_tz::Tz;
use example_tokio_cron_scheduler::add_job;
use libtest_mimic::{Arguments, Trial};
use shedlock::{Event, Executor, Listener, LockConfig, Slot, current_lock};
use shedlock_rig::given;
use tokio_cron_scheduler::JobScheduler;

/// Every other second, because the scheduler checks its clock only twice a second and a busy machine adds
/// a delay.
const CRON: &str = "*/2 * * * * *";
/// How many slots both replicas must have fired.
const WANTED: usize = 4;
const LOOK: Duration = Duration::from_millis(50);
/// The test fails after this many looks, which take two minutes.
const PATIENCE_IN_LOOKS: u32 = 2_400;

/// The slots that a replica has fired.
#[derive(Debug, Default)]
struct Fired(Mutex<BTreeSet<Slot>>);

impl Listener for Fired {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::Attempt { request, .. } = event {
            self.0.lock().unwrap().extend(request.slot);
        }
    }
}

/// How often each slot ran, on either replica.
type Ran = Arc<Mutex<BTreeMap<Slot, u32>>>;

async fn replica(url: &str, ran: &Ran) -> (JobScheduler, Arc<Fired>) {
    let fired = Arc::new(Fired::default());
    let provider = shedlock::connect(url).await.unwrap();
    provider.migrate().await.unwrap();
    let executor = Executor::new(provider).listener(fired.clone());
    let scheduler = JobScheduler::new().await.unwrap();
    let config = LockConfig::new("job")
        .lock_at_most_for("1m")
        .lock_wait("30s");
    let ran = ran.clone();
    let task = move || {
        let slot = current_lock().unwrap().slot().unwrap();
        *ran.lock().unwrap().entry(slot).or_default() += 1;
        async {}
    };
    add_job(&scheduler, &executor, config, (CRON, Tz::Asia__Seoul), task)
        .await
        .unwrap();
    scheduler.start().await.unwrap();
    (scheduler, fired)
}

async fn each_slot_runs_once(url: &str) {
    let ran = Ran::default();
    let (first, second) = tokio::join!(replica(url, &ran), replica(url, &ran));
    let fired = |replica: &(JobScheduler, Arc<Fired>)| replica.1.0.lock().unwrap().clone();
    let mut both = Vec::new();
    let mut looks = PATIENCE_IN_LOOKS;
    // One more than required, because the newest may still be in progress.
    while both.len() <= WANTED {
        looks -= 1;
        assert!(looks > 0, "both replicas fire the slots: {both:?}");
        pause(LOOK).await;
        let (first, second) = (fired(&first), fired(&second));
        both = first.intersection(&second).copied().collect::<Vec<_>>();
    }
    let newest = both.last().copied().unwrap();

    let ran = ran.lock().unwrap();
    assert!(ran.values().all(|times| *times == 1), "{ran:?}");
    let due: BTreeSet<Slot> = fired(&first)
        .union(&fired(&second))
        .copied()
        .filter(|slot| *slot < newest)
        .collect();
    let done: BTreeSet<Slot> = ran.keys().copied().filter(|slot| *slot < newest).collect();
    assert_eq!(done, due, "each slot that was fired was run");
    assert!(done.len() >= WANTED);
}

fn main() -> ExitCode {
    let url = given::server("postgres");
    let trial = Trial::test("postgres", move || {
        let separator = if url.contains('?') { '&' } else { '?' };
        let table = format!("tokio_cron_scheduler_{}", std::process::id());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime.block_on(each_slot_runs_once(&format!(
            "{url}{separator}table={table}"
        )));
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

#[expect(
    clippy::disallowed_methods,
    reason = "another crate's scheduler goes by the real clock"
)]
async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

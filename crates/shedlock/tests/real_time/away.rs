//! A store becomes unavailable while a lease is kept alive. If that lasts less than the lease, nothing
//! happens. If it lasts longer, the task is stopped before its lease ends in the store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use shedlock::{
    Clock, Executor, LockConfig, LockName, LockProvider, LostReason, Outcome, SystemClock, connect,
};
use shedlock_conformance::proxy::{Fault, Proxy};

use crate::places::{Place, behind};
use crate::{block_on, pause};

/// Connections that are refused, and connections that stay open but never reply.
pub(crate) const FAULTS: [(&str, Fault); 2] =
    [("refused", Fault::Refuse), ("swallowed", Fault::Swallow)];

/// A third of this, and the time limit of one call, bound the shortest outage that can cost the lease.
const LEASE: Duration = Duration::from_secs(9);

fn margin() -> Duration {
    let wanted = std::env::var("SHEDLOCK_TEST_MARGIN_MS");
    Duration::from_millis(wanted.map_or(500, |millis| millis.parse().unwrap()))
}

/// A task whose lease is kept alive through a proxy.
struct Scene {
    proxy: Proxy,
    /// A provider that bypasses the proxy.
    direct: Arc<dyn LockProvider>,
    name: LockName,
    seen: Arc<Seen>,
    task: tokio::task::JoinHandle<Outcome<()>>,
}

/// The task's progress and end.
#[derive(Default)]
struct Seen {
    steps: AtomicU64,
    end: AtomicU64,
    /// When the task was dropped or ended.
    gone_at: Mutex<Option<SystemTime>>,
}

struct Alive(Arc<Seen>);

impl Drop for Alive {
    fn drop(&mut self) {
        *self.0.gone_at.lock().unwrap() = Some(SystemClock.system_time());
    }
}

impl Scene {
    /// Starts the task, and waits until its lease has been extended for the first time.
    async fn of(place: &Place, case: &str) -> Self {
        let url = place.locks(case);
        let direct = connect(&url).await.unwrap();
        direct.migrate().await.unwrap();
        let proxy = Proxy::start(place.addr()).await.unwrap();
        let proxied = connect(&behind(&url, proxy.addr())).await.unwrap();
        let executor = Executor::new(proxied).deadline_margin(margin());
        let seen = Arc::new(Seen::default());
        let alive = Alive(seen.clone());
        let task = tokio::spawn(async move {
            let config = LockConfig::new("kept").lock_at_most_for(LEASE).keep_alive();
            let work = async move {
                while alive.0.end.load(Ordering::SeqCst) == 0 {
                    alive.0.steps.fetch_add(1, Ordering::SeqCst);
                    pause(Duration::from_millis(10)).await;
                }
            };
            executor.execute(&config, work).await.unwrap()
        });
        let name = LockName::new("kept").unwrap();
        let scene = Self {
            proxy,
            direct,
            name,
            seen,
            task,
        };
        while scene.seen.steps.load(Ordering::SeqCst) == 0 {
            pause(Duration::from_millis(10)).await;
        }
        scene.extended_after(scene.locked_until().await).await;
        scene
    }

    async fn locked_until(&self) -> SystemTime {
        let record = self.direct.inspect(&self.name).await.unwrap();
        record.unwrap().locked_until.unwrap()
    }

    async fn extended_after(&self, until: SystemTime) {
        while self.locked_until().await <= until {
            assert!(!self.task.is_finished(), "the task has ended");
            pause(Duration::from_millis(20)).await;
        }
    }
}

/// The store is unavailable for longer than the lease.
pub(crate) fn the_task_is_stopped_in_time(place: &Place, case: &str, fault: Fault) {
    block_on(async {
        let scene = Scene::of(place, case).await;
        scene.proxy.set(fault).await.unwrap();
        let until = scene.locked_until().await;
        while scene.seen.gone_at.lock().unwrap().is_none() {
            pause(Duration::from_millis(5)).await;
        }
        let gone_at = scene.seen.gone_at.lock().unwrap().unwrap();
        let before = until.duration_since(gone_at);
        assert!(before.is_ok(), "gone {before:?} after the lease's end");
        assert_eq!(scene.locked_until().await, until, "no one could extend it");
        // Output for the reader; docs/performance.md has a table of these times.
        let said = format!(
            "{case}: stopped {:?} before its lease ended",
            before.unwrap()
        );
        std::io::Write::write_all(&mut std::io::stderr(), (said + "\n").as_bytes()).unwrap();
        scene.proxy.heal().await.unwrap();
        match scene.task.await.unwrap() {
            Outcome::Lost {
                value: None,
                reason: LostReason::DeadlinePassed,
                ..
            } => {}
            other => panic!("{other:?}"),
        }
    });
}

/// The store is unavailable for a while, repeatedly.
pub(crate) fn the_task_goes_on(place: &Place, case: &str, fault: Fault) {
    block_on(async {
        let scene = Scene::of(place, case).await;
        let clock = SystemClock;
        let first = scene.locked_until().await;
        for _ in 0..2 {
            scene.proxy.set(fault).await.unwrap();
            pause(LEASE / 4).await;
            scene.proxy.heal().await.unwrap();
            let before = scene.locked_until().await;
            scene.extended_after(before).await;
        }
        while clock.system_time() <= first {
            pause(Duration::from_millis(50)).await;
        }
        let steps = scene.seen.steps.load(Ordering::SeqCst);
        pause(Duration::from_millis(200)).await;
        assert!(scene.seen.steps.load(Ordering::SeqCst) > steps);
        scene.seen.end.store(1, Ordering::SeqCst);
        let outcome = scene.task.await.unwrap();
        assert!(outcome.is_executed(), "{outcome:?}");
    });
}

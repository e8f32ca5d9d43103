//! The cost of the runtime itself: over the provider that needs no I/O.

use std::future::Future;
use std::sync::Arc;

use allocation_counter::AllocationInfo;
use anyhow::{Context as _, bail};
use shedlock::MemoryProvider;
use shedlock_core::{BoxFuture, Executor, LockConfig, LockName, LockProvider, Outcome, Release};

use crate::Effort;
use crate::provider::{AT_MOST, give_back, take};
use crate::report::{Report, Unit};
use crate::rounds::{Side, Worker, take_turns};
use crate::store::Store;

/// Runs per step, so that the clock and the histogram between two steps do not matter.
const RUNS: u32 = 50;

/// Runs whose allocations are counted together.
const COUNTED: u32 = 1_000;

/// An empty task through the executor, next to attempt and unlock through the provider alone: its
/// time, and its allocations.
pub(crate) async fn measure(effort: Effort, report: &mut Report) -> anyhow::Result<()> {
    let provider: Arc<dyn LockProvider> = Arc::new(MemoryProvider::new());
    let direct = Direct {
        provider: provider.clone(),
        name: LockName::new("direct")?,
    };
    let executed = Executed {
        executor: Executor::new(provider),
        config: LockConfig::new("executor").lock_at_most_for(AT_MOST),
    };
    let mut sides = [
        Side::new(vec![Box::new(direct.clone())]),
        Side::new(vec![Box::new(executed.clone())]),
    ];
    take_turns(&mut sides, effort.rounds, effort.slice).await?;
    let [base, own] = &sides;
    // Not from the rates: the median step is one in which no other process had the processor.
    let nanos = |side: &Side| side.micros_at(0.5) * 1e3 / f64::from(RUNS);
    let mut add = |what: &str, unit, own: f64, base: f64| {
        report.add(Store::MEMORY, what, unit, own, Some((base, own / base)));
    };
    add(
        "executor_per_run",
        Unit::Nanoseconds,
        nanos(own),
        nanos(base),
    );
    let own = counted(move || async move { executed.runs(COUNTED).await }).await?;
    let base = counted(move || async move { direct.runs(COUNTED).await }).await?;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let each = |total: u64| total as f64 / f64::from(COUNTED);
    add(
        "executor_allocations",
        Unit::Allocations,
        each(own.count_total),
        each(base.count_total),
    );
    add(
        "executor_allocated",
        Unit::Allocated,
        each(own.bytes_total),
        each(base.bytes_total),
    );
    Ok(())
}

/// The allocations of a future, on a separate thread, because the counter counts one thread.
async fn counted<F, R>(run: F) -> anyhow::Result<AllocationInfo>
where
    F: FnOnce() -> R + Clone + Send + 'static,
    R: Future<Output = anyhow::Result<()>>,
{
    let runtime = tokio::runtime::Handle::current();
    let counted = tokio::task::spawn_blocking(move || {
        // The first run makes the one-time allocations.
        runtime.block_on(run.clone()())?;
        let mut ended = Ok(());
        let info = allocation_counter::measure(|| ended = runtime.block_on(run()));
        ended.map(|()| info)
    });
    counted.await.context("the counting thread panicked")?
}

/// Attempt and unlock, through the provider alone.
#[derive(Clone)]
struct Direct {
    provider: Arc<dyn LockProvider>,
    name: LockName,
}

impl Direct {
    async fn runs(&self, count: u32) -> anyhow::Result<()> {
        for _ in 0..count {
            let lease = take(&*self.provider, &self.name).await?;
            give_back(&*self.provider, &lease).await?;
        }
        Ok(())
    }
}

impl Worker for Direct {
    fn step(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(self.runs(RUNS))
    }
}

/// An empty task under the lock.
#[derive(Clone)]
struct Executed {
    executor: Executor,
    config: LockConfig,
}

impl Executed {
    async fn runs(&self, count: u32) -> anyhow::Result<()> {
        for _ in 0..count {
            match self.executor.execute(&self.config, async {}).await? {
                Outcome::Executed {
                    release: Release::Released,
                    ..
                } => {}
                other => bail!("expected a run, got {other:?}"),
            }
        }
        Ok(())
    }
}

impl Worker for Executed {
    fn step(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(self.runs(RUNS))
    }
}

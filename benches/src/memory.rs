//! What the runtime itself costs: over the provider that needs no I/O.

use std::sync::Arc;

use shedlock_core::{LockProvider, MemoryProvider};

use crate::Effort;
use crate::provider::{Direct, Executed};
use crate::report::{Report, Unit};
use crate::rounds::{Side, take_turns};
use crate::store::Store;

/// An empty task by the executor, next to attempt and unlock by the provider alone.
pub(crate) async fn measure(effort: Effort, report: &mut Report) -> anyhow::Result<()> {
    let provider: Arc<dyn LockProvider> = Arc::new(MemoryProvider::new());
    let mut sides = [
        Side::new(vec![Box::new(Direct::new(&provider, "direct")?)]),
        Side::new(vec![Box::new(Executed::new(&provider, "executor"))]),
    ];
    take_turns(&mut sides, effort.rounds, effort.slice).await?;
    let [direct, executed] = &sides;
    // Not by the rates: the median step is one in which nobody else had the processor.
    let nanos = |side: &Side| side.micros_at(0.5) * 1e3;
    let (own, base) = (nanos(executed), nanos(direct));
    report.add(
        Store::Memory,
        "executor_per_run",
        Unit::Nanoseconds,
        own,
        Some((base, own / base)),
    );
    Ok(())
}

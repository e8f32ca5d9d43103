//! The parts of the soak.

mod journal;
mod names;
mod pages;
mod restarts;
mod scheduler;

use anyhow::Context as _;
use clap::ValueEnum;

use crate::Load;
use crate::part::Place;

/// A load, which is a process of its own beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// 500 jobs, with a journal and metrics.
    Scheduler,
    /// Names that are always new, locks that are dropped, and attempts that are cancelled.
    Names,
    /// A server that is killed and started again.
    Restarts,
    /// The dashboard and the metrics of `run`, with clients that never ask, never finish asking, or never leave.
    Pages,
    /// Runs whose jobs have as many runs in the journal as it keeps.
    Journal,
}

impl Part {
    pub(crate) fn word(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// A file has no server to kill.
    pub(crate) fn is_for(self, store: &str) -> bool {
        self != Self::Restarts || store != "sqlite"
    }
}

/// Runs it in this process, for as long as the load lasts.
pub(crate) fn run(part: Part, store: &str, load: Load) -> anyhow::Result<()> {
    let place = Place::new(store)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        match part {
            Part::Scheduler => scheduler::run(&place, load).await,
            Part::Names => names::run(&place, load).await,
            Part::Restarts => restarts::run(&place, load).await,
            Part::Pages => pages::run(&place, load).await,
            Part::Journal => journal::run(&place, load).await,
        }
    });
    done.with_context(|| format!("the part `{}` on {store} failed", part.word()))
}

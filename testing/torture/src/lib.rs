//! Processes that are killed and stopped over a store that crashes, and a judge of what they did.
//!
//! The stores of this repository run these cases beside the laws of `shedlock-conformance`: their test
//! targets call [`main`] and [`main_after`] of this crate. `docs/proof.md` says what was found, and
//! `cargo xtask torture` runs the one long case.
//!
//! A store's harness says what else can be done to it with [`TortureNamespace`]:
//!
//! | action | what it opens |
//! |---|---|
//! | [`TortureNamespace::begin_fault`] and [`end_fault`](TortureNamespace::end_fault), on a store of its own | a store without connections, that only reads, or that is full |
//! | [`TortureNamespace::child_spec_via`] | a network that cuts, delays and swallows |
//! | [`TortureNamespace::shedlock`] | real ShedLock among the processes |
//!
//! # Workers
//!
//! The test target is started again as workers that contend for a few locks until they are killed. They
//! write what they do into logs, and [`history`] judges them all together: overlapping
//! leases, tokens and slots out of order, locks that come free too early or too late, leases lost
//! before their end, owners that return by a late copy of their attempt, tasks that outlive their leases.
//! `SHEDLOCK_CONFORMANCE_ACQUISITIONS=1000` makes that run longer than by default (200);
//! `SHEDLOCK_CONFORMANCE_SEED=…`, which a failure prints, repeats its choices.
//!
//! One case does everything at once: workers are killed and stopped for longer than their leases, the
//! network between them and the store cuts, delays and swallows, and a store of one's own crashes and comes
//! back, or is in [troubles](StoreFault). `SHEDLOCK_TORTURE_SECONDS=600` makes it longer than by default, and
//! puts it, without crashes and troubles, to stores that are not one's own;
//! `SHEDLOCK_TORTURE_REST_MILLIS=50` has workers rest, so that a long history can be judged;
//! `SHEDLOCK_TORTURE_JAVA=2` puts two processes of real ShedLock among the workers, where the harness can
//! start them; `SHEDLOCK_TORTURE_OLD=path` puts three workers of an earlier version beside them, where the
//! path leads to this test target as it was built then (`SHEDLOCK_TORTURE_OLD_WORKERS=5` for five);
//! `SHEDLOCK_TORTURE_SUMMARY=file.json` writes the figures down.
//!
//! Such a judge is worth what it convicts: `SHEDLOCK_TORTURE_WRONG=all` switches wrong protocols in
//! between the workers and the provider, each of which has to be found out within a minute
//! (`wrong_protocols::…`).

mod cases;
mod fault;
mod heard;
pub mod history;
mod jvm;
mod namespace;
mod rng;
mod shedlock_jvm;
mod torture;
mod wall_clock;
mod worker;
mod worker_pool;
mod wrong;

use std::process::ExitCode;
use std::sync::Arc;

use shedlock_conformance::{Case, Harness, Runner, Verdict};

pub use fault::StoreFault;
use namespace::Arena;
pub use namespace::TortureNamespace;
pub use shedlock_jvm::shedlock_jvm;
use wrong::Wrong;

/// The laws and the torture over these harnesses, whose namespaces are of type `N` (behind whatever wrapper):
/// the whole `main` of a test target, as [`shedlock_conformance::main`] is.
#[must_use]
pub fn main<N: TortureNamespace>(
    harnesses: impl IntoIterator<Item = Arc<dyn Harness>>,
) -> ExitCode {
    tortured::<N>(Runner::new(harnesses).laws()).run()
}

/// The same, once this test of the server itself has passed; see
/// [`shedlock_conformance::main_after`].
#[must_use]
pub fn main_after<N: TortureNamespace>(
    self_test: impl Future<Output = Verdict>,
    harnesses: impl IntoIterator<Item = Arc<dyn Harness>>,
) -> ExitCode {
    tortured::<N>(Runner::new(harnesses).laws()).run_after(self_test)
}

/// Adds the torture over namespaces of type `N`, and the processes that it takes.
pub fn tortured<N: TortureNamespace>(runner: Runner) -> Runner {
    runner
        .cases(|_| cases::cases::<N>())
        .cases(|_| Ok(found_out::<N>(&torture::wrong_protocols()?)))
        .child(worker::ROLE, worker::play)
}

/// A case for each wrong protocol, whatever the environment asks for: the judge has to find it out.
pub fn wrong_protocols<N: TortureNamespace>() -> Vec<Case> {
    found_out::<N>(&Wrong::ALL)
}

fn found_out<N: TortureNamespace>(wrong: &[Wrong]) -> Vec<Case> {
    let found_out = |wrong: &Wrong| cases::is_found_out::<N>(*wrong);
    wrong.iter().map(found_out).collect()
}

//! Kills and stops processes over a store that crashes, and judges what they did.
//!
//! The stores of this repository run these cases in addition to the laws of `shedlock-conformance`:
//! their test targets call [`main`] and [`main_after`] of this crate. `docs/proof.md` lists the
//! findings, and `cargo xtask torture` runs the one long case.
//!
//! The harness of a store implements [`TortureNamespace`] to support more kinds of faults:
//!
//! | action | what it makes testable |
//! |---|---|
//! | [`TortureNamespace::begin_fault`] and [`end_fault`](TortureNamespace::end_fault), on a separate instance of the store | a store that is out of connections, read-only or full, or whose standby is away |
//! | [`TortureNamespace::child_spec_via`] | a network that cuts, delays and drops traffic |
//! | [`TortureNamespace::shedlock`] | real ShedLock among the processes |
//!
//! # Workers
//!
//! The test target is started again as workers, which contend for a few locks until they are
//! killed. They log what they do, and
//! [`shedlock_proof::history`] judges all logs together. It detects overlapping
//! leases, tokens and slots out of order, locks that become free too early or too late, leases lost
//! before their end, owners that return through a late copy of their attempt, and tasks that
//! outlive their leases. `SHEDLOCK_CONFORMANCE_ACQUISITIONS=1000` makes this run longer than the
//! default (200). A failure prints `SHEDLOCK_CONFORMANCE_SEED=…`; set it to repeat the random
//! choices of that run.
//!
//! One case combines all faults. Workers are killed, and stopped for longer than their leases. The
//! network between them and the store cuts, delays and drops traffic. A store that the test owns
//! crashes and comes back, or has [faults](StoreFault). These variables control it:
//!
//! - `SHEDLOCK_TORTURE_SECONDS=600` sets how long it runs. It then also runs, without crashes and
//!   faults of the store, over stores that the test does not own.
//! - `SHEDLOCK_TORTURE_REST_MILLIS=50` makes workers rest, so that a long history can be judged.
//! - `SHEDLOCK_TORTURE_RESETS=1` resets connections that fell silent once their network is back. For pools of an application:
//!   when sqlx takes a connection back it waits for the server without a limit, and then all of them are taken for good.
//! - `SHEDLOCK_TORTURE_JAVA=2` adds two processes of real ShedLock, if the harness can start them.
//! - `SHEDLOCK_TORTURE_OLD=path` adds three workers of an earlier version; the path is this test
//!   target as built from that version. `SHEDLOCK_TORTURE_OLD_WORKERS=5` adds five instead.
//! - `SHEDLOCK_TORTURE_SUMMARY=file.json` writes the figures to a file.
//!
//! The judge is only useful if it detects mistakes. `SHEDLOCK_TORTURE_WRONG=all` inserts wrong
//! protocols between the workers and the provider; each must be detected within a minute
//! (`wrong_protocols::…`).

mod cases;
mod fault;
mod heard;
mod jvm;
mod namespace;
mod shedlock_jvm;
mod torture;
mod wall_clock;
mod worker;
mod worker_pool;

use std::process::ExitCode;
use std::sync::Arc;

use shedlock_conformance::{Case, Harness, Runner, Verdict};

pub use fault::StoreFault;
use namespace::Arena;
pub use namespace::TortureNamespace;
pub use shedlock_jvm::{shedlock_jvm, spring_jvm};
use shedlock_proof::Mistake;

/// Runs the laws and the torture over these harnesses: the whole `main` of a test target, like
/// [`shedlock_conformance::main`]. The harnesses' namespaces are of type `N`, possibly inside
/// wrappers.
#[must_use]
pub fn main<N: TortureNamespace>(
    harnesses: impl IntoIterator<Item = Arc<dyn Harness>>,
) -> ExitCode {
    tortured::<N>(Runner::new(harnesses).laws()).run()
}

/// Like [`main`], but first runs this test of the server itself; see
/// [`shedlock_conformance::main_after`].
#[must_use]
pub fn main_after<N: TortureNamespace>(
    self_test: impl Future<Output = Verdict>,
    harnesses: impl IntoIterator<Item = Arc<dyn Harness>>,
) -> ExitCode {
    tortured::<N>(Runner::new(harnesses).laws()).run_after(self_test)
}

/// Adds the torture over namespaces of type `N`, and the child processes that it needs.
pub fn tortured<N: TortureNamespace>(runner: Runner) -> Runner {
    runner
        .cases(|_| cases::cases::<N>())
        .cases(|_| Ok(found_out::<N>(&torture::wrong_protocols()?)))
        .child(worker::ROLE, worker::play)
}

/// Returns a case for each wrong protocol, regardless of the environment: the judge must detect it.
pub fn wrong_protocols<N: TortureNamespace>() -> Vec<Case> {
    found_out::<N>(&torture::all_wrong_protocols().collect::<Vec<_>>())
}

/// Returns a case for each wrong protocol of pauses, regardless of the environment.
pub fn wrong_pauses<N: TortureNamespace>() -> Vec<Case> {
    let wrong = torture::all_wrong_protocols().filter(|wrong| wrong.needs_operator());
    found_out::<N>(&wrong.collect::<Vec<_>>())
}

fn found_out<N: TortureNamespace>(wrong: &[Mistake]) -> Vec<Case> {
    let found_out = |wrong: &Mistake| cases::is_found_out::<N>(*wrong);
    wrong.iter().map(found_out).collect()
}

//! The cases as tests of a target without the standard test harness.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use shedlock_core::BoxFuture;

use crate::wait::bounded;
use crate::wrong::Wrong;
use crate::{Case, Harness, Stop, TestContext, Verdict, laws, play_child, torture};

/// Cases mostly wait, so more of them run at once than there are processors; not so many that a
/// small database runs out of connections.
const THREADS: usize = 8;

/// The same over a store that keeps time in seconds, whose cases do little but wait.
const THREADS_WAITING: usize = 24;

/// A case that takes longer than this hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs all cases over these harnesses: the whole `main` of a test target with
/// `harness = false`. Takes the arguments of `cargo test` (filters, `--list`, `--exact`,
/// `--test-threads`).
///
/// The same executable is started again as a child process by cases that need several processes;
/// then this plays the child's part.
///
/// With more than one harness the names of the tests begin with the harness's.
///
/// Cases that do not apply are printed as ignored with their reason, and counted. A harness that
/// cannot make a namespace fails the target before any case runs.
#[must_use]
pub fn main(harnesses: impl IntoIterator<Item = Arc<dyn Harness>>) -> ExitCode {
    main_after(async { Ok(()) }, harnesses)
}

/// The same, once this test of the server itself has passed: the
/// [contention self-test](crate::contention). Where it fails, no case runs, and the target fails.
#[must_use]
pub fn main_after(
    self_test: impl Future<Output = Verdict>,
    harnesses: impl IntoIterator<Item = Arc<dyn Harness>>,
) -> ExitCode {
    let harnesses: Vec<_> = harnesses.into_iter().collect();
    if let Some(code) = play_child(&harnesses) {
        return code;
    }
    let runtime = match runtime() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => return refuse(&format!("no async runtime: {error}")),
    };
    let mut arguments = Arguments::from_args();
    let mut threads = THREADS;
    if !arguments.list {
        if let Err(stop) = runtime.block_on(self_test) {
            return refuse(&format!("the server is not fit to be tested on: {stop}"));
        }
        for harness in &harnesses {
            match runtime.block_on(reachable(harness)) {
                Ok(granularity) if granularity >= Duration::from_secs(1) => {
                    threads = THREADS_WAITING;
                }
                Ok(_) => {}
                Err(stop) => {
                    return refuse(&format!("{} cannot be tested: {stop}", harness.name()));
                }
            }
        }
    }
    arguments.test_threads.get_or_insert(threads);
    let wrong_protocols = match torture::wrong_protocols() {
        Ok(asked_for) => asked_for,
        Err(stop) => return refuse(&stop.to_string()),
    };
    let prefixed = harnesses.len() > 1;
    let mut trials = Vec::new();
    for harness in harnesses {
        let name_of = |case: &str| {
            if prefixed {
                format!("{}::{case}", harness.name())
            } else {
                case.to_owned()
            }
        };
        for case in laws::cases() {
            let (runtime, harness) = (Arc::clone(&runtime), Arc::clone(&harness));
            trials.push(Trial::ignorable_test(name_of(case.name()), move || {
                completion(runtime.block_on(run_case(harness, case)))
            }));
        }
        let wrong_protocols = if harness.finds_wrong_protocols_out() {
            &Wrong::ALL[..]
        } else {
            &wrong_protocols
        };
        for wrong in wrong_protocols.iter().copied() {
            let name = name_of(&format!("wrong_protocols::{}", wrong.name()));
            let (runtime, harness) = (Arc::clone(&runtime), Arc::clone(&harness));
            trials.push(Trial::ignorable_test(name, move || {
                completion(runtime.block_on(find_out(harness, wrong)))
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs one case in a fresh namespace and removes the namespace afterwards: for those with a runner of
/// their own. Needs a multi-threaded tokio runtime.
///
/// # Errors
/// [`Stop::Failed`] for a broken law, a panic, a case that hangs and a namespace that could not be
/// made or removed; [`Stop::NotApplicable`] where provider or harness lack something.
pub async fn run_case(harness: Arc<dyn Harness>, case: Case) -> Verdict {
    let limit = LIMIT + torture::Options::from_environment()?.length;
    run_in_a_namespace(harness, limit, |context| case.run(context)).await
}

/// Whether the judge of histories finds this mistake out.
async fn find_out(harness: Arc<dyn Harness>, wrong: Wrong) -> Verdict {
    let limit = LIMIT + torture::hunt::LIMIT;
    run_in_a_namespace(harness, limit, |context| {
        Box::pin(torture::hunt::find_out(context, wrong))
    })
    .await
}

async fn run_in_a_namespace(
    harness: Arc<dyn Harness>,
    limit: Duration,
    run: impl for<'a> FnOnce(&'a TestContext) -> BoxFuture<'a, Verdict>,
) -> Verdict {
    let context = TestContext::new(harness).await?;
    let run = AssertUnwindSafe(run(&context)).catch_unwind();
    let verdict = match bounded(limit, run).await {
        Some(Ok(verdict)) => verdict,
        Some(Err(panic)) => Err(Stop::failed(format!("panicked: {}", text_of(&*panic)))),
        None => Err(Stop::failed(format!("hangs: no end after {limit:?}"))),
    };
    let closed = context.namespace().close().await;
    verdict?;
    closed.map_err(|error| Stop::harness("remove the namespace", &*error))
}

/// Its granularity.
async fn reachable(harness: &Arc<dyn Harness>) -> Result<Duration, Stop> {
    let context = TestContext::new(Arc::clone(harness)).await?;
    context
        .namespace()
        .close()
        .await
        .map_err(|error| Stop::harness("remove a namespace", &*error))?;
    Ok(context.capabilities().granularity)
}

fn completion(verdict: Verdict) -> Result<Completion, Failed> {
    match verdict {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::NotApplicable(reason)) => Ok(Completion::ignored_with(format!(
            "not applicable: {reason}"
        ))),
        Err(Stop::Failed(message)) => Err(message.into()),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

#[expect(
    clippy::print_stderr,
    reason = "this is the main function of a test target"
)]
fn refuse(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::FAILURE
}

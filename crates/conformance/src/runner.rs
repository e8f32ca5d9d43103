//! Runs the cases as tests of a target without the standard test harness.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::Value;

use crate::child::{Opener, Roles};
use crate::scope::Selection;
use crate::wait::bounded;
use crate::{BoxError, Case, Harness, Stop, TestContext, Verdict, laws};

/// Cases mostly wait, so more of them run at once than there are processors; but few enough that a
/// small database does not run out of connections.
const THREADS: usize = 8;

/// The number of threads for a store with a granularity of a second or more: its cases do little
/// but wait.
const THREADS_WAITING: usize = 24;

/// Runs all cases over these harnesses: the whole `main` of a test target with `harness = false`.
/// It accepts the arguments of `cargo test` (filters, `--list`, `--exact`, `--test-threads`).
///
/// Cases that need several processes start the same executable again as a child process. In a
/// child, this function runs the child's role.
///
/// With more than one harness, the name of each test starts with the name of its harness.
///
/// Over a harness that is a [variant](crate::Scope::About), only the cases that it is about run,
/// and the number of omitted cases is printed. `SHEDLOCK_TEST_FULL=1` omits none, and neither does
/// a filter.
///
/// Cases that do not apply are printed as ignored with their reason, and counted. If a harness
/// cannot create a namespace, the target fails before any case runs.
#[must_use]
pub fn main(harnesses: impl IntoIterator<Item = Arc<dyn Harness>>) -> ExitCode {
    Runner::new(harnesses).laws().run()
}

/// Like [`main`], but first runs this test of the server itself: the [contention
/// self-test](crate::contention). If it fails, no case runs and the target fails.
#[must_use]
pub fn main_after(
    self_test: impl Future<Output = Verdict>,
    harnesses: impl IntoIterator<Item = Arc<dyn Harness>>,
) -> ExitCode {
    Runner::new(harnesses).laws().run_after(self_test)
}

type Cases = Box<dyn Fn(&dyn Harness) -> Result<Vec<Case>, Stop>>;

/// What [`main`] does, for a crate that has its own cases and child processes.
///
/// ```no_run
/// use shedlock_conformance::{Case, Harness, Runner, Verdict, TestContext};
/// # use std::sync::Arc;
///
/// async fn a_thousand_locks_are_listed(context: &TestContext) -> Verdict {
///     let provider = context.provider().await?;
/// #   let _ = provider;
///     Ok(())
/// }
///
/// fn main() -> std::process::ExitCode {
/// #   let harnesses: Vec<Arc<dyn Harness>> = Vec::new();
///     Runner::new(harnesses)
///         .laws()
///         .cases(|_harness| {
///             Ok(vec![Case::new("load::a_thousand_locks_are_listed", |context| {
///                 Box::pin(a_thousand_locks_are_listed(context))
///             })])
///         })
///         .run()
/// }
/// ```
#[must_use = "no case has run yet"]
pub struct Runner {
    harnesses: Vec<Arc<dyn Harness>>,
    cases: Vec<Cases>,
    roles: Roles,
}

impl Runner {
    /// Creates a runner without cases.
    pub fn new(harnesses: impl IntoIterator<Item = Arc<dyn Harness>>) -> Self {
        Self {
            harnesses: harnesses.into_iter().collect(),
            cases: Vec::new(),
            roles: Roles::default(),
        }
    }

    /// Adds the cases of [all laws](laws::cases).
    pub fn laws(self) -> Self {
        self.cases(|_| Ok(laws::cases()))
    }

    /// Adds these cases for each harness. An error fails the target before any case runs.
    pub fn cases(
        mut self,
        cases: impl Fn(&dyn Harness) -> Result<Vec<Case>, Stop> + 'static,
    ) -> Self {
        self.cases.push(Box::new(cases));
        self
    }

    /// Adds a role for child processes. A child that a case starts in this role with
    /// [`child::command`](crate::child::command) calls `play` with the value that was passed there.
    pub fn child<F>(
        mut self,
        role: &'static str,
        play: impl Fn(Opener, Value) -> F + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.roles.add(role, play);
        self
    }

    /// Runs the cases or, in a child process, the child's role: the rest of `main`. See [`main`].
    #[must_use]
    pub fn run(self) -> ExitCode {
        self.run_after(async { Ok(()) })
    }

    /// Like [`run`](Self::run), but first runs this test of the server itself; see [`main_after`].
    #[must_use]
    pub fn run_after(self, self_test: impl Future<Output = Verdict>) -> ExitCode {
        if let Some(code) = self.roles.play_part(&self.harnesses) {
            return code;
        }
        let mut arguments = Arguments::from_args();
        let mut selection = Selection::new(&arguments);
        let trials = match self.trials(&mut arguments, &mut selection, self_test) {
            Ok(trials) => trials,
            Err(message) => return refuse(&message),
        };
        let conclusion = libtest_mimic::run(&arguments, trials);
        if !arguments.list {
            report(&selection);
        }
        conclusion.exit_code()
    }

    fn trials(
        self,
        arguments: &mut Arguments,
        selection: &mut Selection,
        self_test: impl Future<Output = Verdict>,
    ) -> Result<Vec<Trial>, String> {
        let runtime = runtime().map_err(|error| format!("no async runtime: {error}"))?;
        let runtime = Arc::new(runtime);
        let mut threads = THREADS;
        if !arguments.list {
            runtime
                .block_on(self_test)
                .map_err(|stop| format!("the server cannot be used for tests: {stop}"))?;
            for harness in &self.harnesses {
                let found = runtime.block_on(bounded(Case::LIMIT, reachable(harness)));
                let granularity = found
                    .unwrap_or_else(|| Err(hangs("a first namespace hangs", Case::LIMIT)))
                    .map_err(|stop| format!("{} cannot be tested: {stop}", harness.name()))?;
                if granularity >= Duration::from_secs(1) {
                    threads = THREADS_WAITING;
                }
            }
        }
        arguments.test_threads.get_or_insert(threads);
        let prefixed = self.harnesses.len() > 1;
        let mut trials = Vec::new();
        for harness in &self.harnesses {
            for cases in &self.cases {
                let cases = cases(&**harness).map_err(|stop| stop.to_string())?;
                for case in selection.pick(&**harness, cases) {
                    let name = if prefixed {
                        format!("{}::{}", harness.name(), case.name())
                    } else {
                        case.name().to_owned()
                    };
                    let (runtime, harness) = (Arc::clone(&runtime), Arc::clone(harness));
                    trials.push(Trial::ignorable_test(name, move || {
                        completion(runtime.block_on(run_case(harness, &case)))
                    }));
                }
            }
        }
        Ok(trials)
    }
}

/// Runs one case in a fresh namespace and then removes the namespace. Use it with your own test
/// runner. It needs a multi-threaded tokio runtime.
///
/// # Errors
/// [`Stop::Failed`] for a broken law, a panic, a case that hangs, and a namespace that could not be
/// created or removed; [`Stop::NotApplicable`] if the provider or the harness lacks something that
/// the case needs.
pub async fn run_case(harness: Arc<dyn Harness>, case: &Case) -> Verdict {
    let limit = case.limit();
    let limit_of_namespace = limit.min(Case::LIMIT);
    let created = bounded(limit_of_namespace, TestContext::new(harness)).await;
    let context = created
        .ok_or_else(|| hangs("the creation of the namespace hangs", limit_of_namespace))??;
    let run = AssertUnwindSafe(case.run(&context)).catch_unwind();
    let verdict = match bounded(limit, run).await {
        Some(Ok(verdict)) => verdict,
        Some(Err(panic)) => Err(Stop::failed(format!("panicked: {}", text_of(&*panic)))),
        None => Err(hangs("hangs", limit)),
    };
    let closed = bounded(limit_of_namespace, context.namespace().close()).await;
    verdict?;
    closed
        .ok_or_else(|| hangs("the removal of the namespace hangs", limit_of_namespace))?
        .map_err(|error| Stop::harness("remove the namespace", &*error))
}

fn hangs(what: &str, limit: Duration) -> Stop {
    Stop::failed(format!("{what}: still running after {limit:?}"))
}

/// Checks that the harness can create a namespace; returns the store's granularity.
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
    clippy::print_stdout,
    reason = "this is the main function of a test target"
)]
fn report(selection: &Selection) {
    if let Some(report) = selection.report() {
        println!("{report}");
    }
}

#[expect(
    clippy::print_stderr,
    reason = "this is the main function of a test target"
)]
fn refuse(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::FAILURE
}

//! Providers that are deliberately wrong, each with one of the known mistakes. A kit that cannot
//! fail proves nothing: each mistake must be caught by the cases that it names.

mod harness;
#[path = "../served/harness.rs"]
mod served;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use shedlock_conformance::{Harness, Stop, Verdict, laws, run_case};
use shedlock_proof::{At, Mistake};

use harness::WrongHarness;
use served::Served;

fn main() -> ExitCode {
    let mut trials = vec![
        trial("no_mistake", no_mistake_passes),
        trial(
            "indistinguishable_requests",
            indistinguishable_requests_do_not_pass_silently,
        ),
    ];
    for mistake in Mistake::ALL {
        trials.extend(mistake.caught_by().iter().map(|case| {
            let name = format!("{}::{case}", mistake.name());
            trial(&name, || is_caught(*mistake, case))
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial<F>(name: &str, run: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = Result<(), String>>,
{
    Trial::test(name, || {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(run()).map_err(Failed::from)
    })
}

/// A provider without a mistake passes.
async fn no_mistake_passes() -> Result<(), String> {
    let harness: Arc<dyn Harness> = Arc::new(WrongHarness(None));
    for case in laws::cases() {
        if let Err(Stop::Failed(message)) = run_case(Arc::clone(&harness), &case).await {
            return Err(format!("{}: {message}", case.name()));
        }
    }
    Ok(())
}

/// This case fails for a provider with this mistake, and passes for one without: in memory if the
/// case can run there, over a socket otherwise.
async fn is_caught(mistake: Mistake, case: &str) -> Result<(), String> {
    let served = Served {
        wrong: Some(mistake),
        ..Served::RIGHT
    };
    let in_memory = judge(Arc::new(WrongHarness(None)), case).await;
    let (right, wrong) = if mistake.at() == At::Wire || in_memory.is_err() {
        let right = judge(Arc::new(Served::RIGHT), case).await;
        (right, judge(Arc::new(served), case).await)
    } else {
        let harness = Arc::new(WrongHarness(Some(mistake)));
        (in_memory, judge(harness, case).await)
    };
    if right != Ok(()) {
        return Err(format!("{case} fails for a correct provider: {right:?}"));
    }
    match wrong {
        Err(Stop::Failed(_)) => Ok(()),
        verdict => Err(format!("{mistake:?} is not caught by {case}: {verdict:?}")),
    }
}

/// Faults that match no request are a failure, and requests declared as hidden are reported.
async fn indistinguishable_requests_do_not_pass_silently() -> Result<(), String> {
    let obscured = Served {
        obscures_unlocks: true,
        ..Served::RIGHT
    };
    let admitted = Served {
        admits_it: true,
        ..obscured
    };
    let lies = Served {
        admits_it: true,
        ..Served::RIGHT
    };
    let case = "law06_held_is_not_broken::an_unlock_whose_answer_was_lost_is_not_lost";
    for failing in [obscured, lies] {
        match judge(Arc::new(failing), case).await {
            Err(Stop::Failed(_)) => {}
            verdict => return Err(format!("{failing:?} passes {case}: {verdict:?}")),
        }
    }
    match judge(Arc::new(admitted), case).await {
        Err(Stop::NotApplicable(reason)) if reason.contains("unlocks are obscured") => Ok(()),
        verdict => Err(format!(
            "{admitted:?} should be not applicable to {case}: {verdict:?}"
        )),
    }
}

async fn judge(harness: Arc<dyn Harness>, name: &str) -> Verdict {
    let case = laws::cases()
        .into_iter()
        .find(|case| case.name() == name)
        .unwrap_or_else(|| panic!("there is no case {name}"));
    run_case(harness, &case).await
}

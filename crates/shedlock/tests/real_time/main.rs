//! Leases on real servers, with the real clock: holders that are paused past their lease, and stores that
//! become unavailable while a lease is kept alive, and pauses among many replicas.
//!
//! `SHEDLOCK_TEST_MARGIN_MS` sets the deadline margin in the tests of unavailable stores. The default is
//! 500, so that a busy machine does not break them.

#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]

mod away;
mod fifty;
#[cfg(unix)]
mod paused;
mod places;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use shedlock::{Clock, SystemClock};

/// Waits in real time, because these tests are about time.
async fn pause(duration: Duration) {
    let clock = SystemClock;
    clock.sleep_until(clock.now() + duration).await;
}

fn block_on<F: Future>(test: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test)
}

fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(holder) = paused::Holder::from_env() {
        block_on(holder.run());
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for place in places::all() {
        #[cfg(unix)]
        trials.push(trial("a_paused_holder", place, paused::test));
        trials.push(trial("fifty_replicas_and_a_pause", place, fifty::test));
        for (how, fault) in away::FAULTS {
            let gone = move |place: &places::Place, name: &str| {
                away::the_task_is_stopped_in_time(place, name, fault);
            };
            let back = move |place: &places::Place, name: &str| {
                away::the_task_goes_on(place, name, fault);
            };
            trials.push(trial(&format!("away_for_long_{how}"), place, gone));
            trials.push(trial(&format!("away_for_a_while_{how}"), place, back));
        }
    }
    // The tests mostly wait, so run all of them at once.
    arguments.test_threads.get_or_insert(trials.len().max(1));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Creates a test on a server, which fails without one. It is shown as ignored if the server was deselected.
fn trial(
    what: &str,
    place: places::Place,
    test: impl FnOnce(&places::Place, &str) + Send + 'static,
) -> Trial {
    let name = format!("{what}_{}", place.name);
    let trial = Trial::test(name.clone(), move || {
        place.url()?;
        test(&place, &name);
        Ok(())
    });
    trial.with_ignored_flag(place.is_left_out)
}

//! Panics in the driver: a fault in one job does not stop the others.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::entry::Plan;
use super::panics::{caught, message_of};
use super::timers::JobId;
use super::{Driver, MissedReason};

/// How long a job pauses if its planning panicked, and the driver if it panicked itself.
const JOB_RESTS: Duration = Duration::from_secs(60);
const DRIVER_RESTS: Duration = Duration::from_secs(1);
const MOST_IN_A_ROW: u32 = 10;

impl Driver {
    /// Drives the jobs until the end of a shutdown, and continues after panics.
    pub(crate) async fn run(mut self) {
        loop {
            let panic = match caught(self.drive()).await {
                Ok((grace, reply)) => return self.drain(grace, reply).await,
                Err(panic) => panic,
            };
            self.shared.panicked(None, &*panic);
            self.panics_in_a_row += 1;
            if self.panics_in_a_row >= MOST_IN_A_ROW || !self.rests().await {
                return self.stops_for_good(&*panic);
            }
        }
    }

    /// Runs an action for one job. A panic delays that job and has no effect on the others.
    pub(super) fn isolated(&mut self, id: JobId, act: impl FnOnce(&mut Self)) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| act(self))) else {
            return;
        };
        let shared = self.shared.clone();
        shared.panicked(Some(self.entry(id).job.name()), &*panic);
        let at = shared.clock.now() + JOB_RESTS;
        let entry = self.entry(id);
        if !entry.paused {
            entry.plan = Plan::Again(at);
            self.timers.set_running(at, id);
        }
    }

    /// Pauses after a panic. Returns false if even that is impossible because the clock panics.
    async fn rests(&mut self) -> bool {
        self.sleep = None;
        let clock = self.shared.clock.clone();
        let rested = caught(async { clock.sleep_until(clock.now() + DRIVER_RESTS).await });
        rested.await.is_ok()
    }

    /// Stops for good. Runs in progress continue to their ends. Ticks that wait for a lock are
    /// given up.
    fn stops_for_good(mut self, panic: &(dyn Any + Send)) {
        let message = message_of(panic);
        tracing::error!(
            "the scheduler stopped after repeated panics: no job runs any more; restart the process"
        );
        self.shared.fate.panicked(message);
        for entry in &self.entries {
            entry.give_up(MissedReason::Shutdown);
        }
        self.runs.detach_all();
    }
}

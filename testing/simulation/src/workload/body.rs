//! What a task does under its lock.

use std::time::Duration;

use shedlock_core::current_lock;

use crate::chronicle::{Chronicle, Running};
use crate::transition::Transition;
use crate::world::NodeClock;

/// A task that works in steps, and may do more.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) chronicle: Chronicle,
    pub(crate) clock: NodeClock,
    /// How long it takes, and in how many steps.
    pub(crate) takes: Duration,
    pub(crate) steps: u32,
    /// The extensions that it requests after one step and after the next.
    pub(crate) extends: Option<[Duration; 2]>,
    /// Whether another task does half of the work.
    pub(crate) spawns: bool,
    /// Whether it continues when its lease is lost, and reports so.
    pub(crate) ignores_loss: bool,
    pub(crate) ends: Ends,
}

/// How a task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Well,
    InError,
    InPanic,
    /// It does nothing for its slot.
    BeforeItBegins,
    /// A shutdown cuts it, as it reports itself.
    Cut,
}

/// The error of a failed task.
#[derive(Debug)]
pub(crate) struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("as it was meant to")
    }
}

impl std::error::Error for Failed {}

impl Body {
    pub(crate) async fn run(self) -> Result<(), Failed> {
        let lock = current_lock().expect("a task runs under its lock");
        if self.ends == Ends::BeforeItBegins {
            lock.give_slot_back();
            return Ok(());
        }
        let running = self.chronicle.starts(lock.owner().as_str());
        let helper = self.spawns.then(|| {
            let (helper, running) = (self.clone(), running.clone());
            lock.spawn(async move { helper.work(&running).await })
        });
        self.work(&running).await;
        if let Some(Ok(helper)) = helper {
            // Aborted, if it did not finish in time.
            let _ = helper.await;
        }
        match self.ends {
            Ends::Well | Ends::BeforeItBegins => Ok(()),
            Ends::Cut => {
                lock.leave_slot_open();
                Ok(())
            }
            Ends::InError => {
                self.chronicle.count(Transition::SlotFailed);
                Err(Failed)
            }
            // Without printing a panic message.
            Ends::InPanic => std::panic::resume_unwind(Box::new("as it was meant to")),
        }
    }

    async fn work(&self, running: &Running) {
        let step = self.takes / self.steps.max(1);
        for number in 0..self.steps {
            self.clock.sleep(step).await;
            let lock = current_lock().expect("a task runs under its lock");
            if self.ignores_loss && lock.is_lost() {
                running.goes_on();
                continue;
            }
            running.works();
            if let Some([more, less]) = self.extends {
                // It continues if the extension fails.
                let more = if number % 2 == 0 { more } else { less };
                let _ = lock.extend(more).await;
                if !(self.ignores_loss && lock.is_lost()) {
                    running.works();
                }
            }
        }
    }
}

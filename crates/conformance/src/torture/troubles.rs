//! Troubles of a store that is up.

use std::time::Duration;

use shedlock_core::Moment;

use super::tally::Tally;
use crate::chance::Chance;
use crate::wait::now;
use crate::{Setting, Stop, Trouble, Verdict};

/// Those that this store can be in, of which it is in one at a time.
pub(super) struct Troubles {
    known: Vec<Trouble>,
    ongoing: Option<(Trouble, Moment)>,
}

impl Troubles {
    /// Those that the harness has powers for.
    pub(super) fn of(setting: &Setting) -> Self {
        let space = setting.space();
        let can = |trouble: &Trouble| space.begin_trouble(*trouble).is_some();
        Self {
            known: Trouble::ALL.into_iter().filter(can).collect(),
            ongoing: None,
        }
    }

    /// Whether there is any.
    pub(super) fn are_known(&self) -> bool {
        !self.known.is_empty()
    }

    /// Whether the store is in one now.
    pub(super) fn is_ongoing(&self) -> bool {
        self.ongoing.is_some()
    }

    /// One begins, unless another goes on.
    pub(super) async fn begin(
        &mut self,
        setting: &Setting,
        chance: &mut Chance,
        at_most: Duration,
        tally: &mut Tally,
    ) -> Verdict {
        if self.is_ongoing() {
            return Ok(());
        }
        let trouble = *chance.pick(&self.known);
        setting.begin_trouble(trouble).await?;
        // Also for longer than a lease.
        self.ongoing = Some((trouble, now() + chance.up_to(2 * at_most)));
        tally.count(trouble.word());
        Ok(())
    }

    /// Ends it once its time has come; at once where no instant is given.
    pub(super) async fn end(&mut self, setting: &Setting, by: Option<Moment>) -> Result<(), Stop> {
        let due = self
            .ongoing
            .take_if(|(_, until)| by.is_none_or(|by| *until <= by));
        match due {
            Some((trouble, _)) => setting.end_trouble(trouble).await,
            None => Ok(()),
        }
    }
}

//! Troubles of a store that is up.

use std::time::Duration;

use shedlock_core::Moment;

use super::tally::Tally;
use crate::history::What;
use crate::troop::Troop;
use crate::wait::now;
use crate::{Setting, Trouble, Verdict};

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
        troop: &mut Troop,
        at_most: Duration,
        tally: &mut Tally,
    ) -> Verdict {
        if self.is_ongoing() {
            return Ok(());
        }
        let trouble = *troop.chance.pick(&self.known);
        troop.note_of_store(What::StoreTroubled)?;
        setting.begin_trouble(trouble).await?;
        // Also for longer than a lease.
        self.ongoing = Some((trouble, now() + troop.chance.up_to(2 * at_most)));
        tally.count(trouble.word());
        Ok(())
    }

    /// Ends it once its time has come; at once where no instant is given.
    pub(super) async fn end(
        &mut self,
        setting: &Setting,
        by: Option<Moment>,
        troop: &mut Troop,
    ) -> Verdict {
        let due = self
            .ongoing
            .take_if(|(_, until)| by.is_none_or(|by| *until <= by));
        if let Some((trouble, _)) = due {
            setting.end_trouble(trouble).await?;
            troop.note_of_store(What::StoreRecovered)?;
        }
        Ok(())
    }
}

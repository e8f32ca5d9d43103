//! Taking a lock.

use std::time::{SystemTime, UNIX_EPOCH};

use shedlock_core::{Attempt, AttemptRequest, BoundedAttempt, Error, ErrorKind, LockState, Slot};

use super::{LONGEST, RedisProvider, micros, shown};
use crate::found::Found;
use crate::script;
use crate::verdict::{ahead, taken, unexpected};

impl RedisProvider {
    /// Takes an attempt back that was won, and that too few replicas have confirmed.
    async fn undo(&self, request: &AttemptRequest, won: &Found) -> Result<(), Error> {
        let before = won.before.as_deref().unwrap_or_default();
        let arguments = [request.owner().as_str(), before];
        let undone = self.run(&script::UNDO, request.name(), &arguments).await;
        undone.map(drop).map_err(|error| {
            Error::new(
                ErrorKind::Unknown,
                "too few replicas confirmed the lock, and giving it back failed: ask again with \
                 the same owner",
            )
            .with_source(error)
        })
    }

    pub(super) async fn try_attempt(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        request.validate()?;
        let pair = self.inner.keys.of(request.name())?;
        let clock = self.inner.clocks.of(&pair.lock);
        let claim = |not_after| self.claim(request, not_after);
        clock.attempt(request, claim).await
    }

    /// One sending of it.
    async fn claim(
        &self,
        request: &AttemptRequest,
        not_after: SystemTime,
    ) -> Result<BoundedAttempt, Error> {
        let at_most = micros(request.lock_at_most_for(), "lock_at_most_for")?;
        let not_after = not_after.duration_since(UNIX_EPOCH).unwrap_or_default();
        let slot = request.slot().map(Slot::as_micros);
        let previous = request.previous_slot().map(Slot::as_micros);
        let most = request.completion().retries();
        let tolerance = slot.map(|_| request.slot_tolerance().min(LONGEST).as_micros());
        let arguments = [
            request.owner().as_str(),
            &at_most,
            &not_after.as_micros().to_string(),
            &shown(slot),
            &shown(tolerance),
            &shown(most.map(shedlock_core::Retries::most_attempts)),
            &shown(previous),
            self.confirms(),
        ];
        let is_plain = slot.is_none() && self.inner.confirmation.is_none();
        let arguments = if is_plain {
            &arguments[..3]
        } else {
            &arguments[..]
        };
        let (found, shortfall) = self
            .run_confirmed(&script::ATTEMPT, request.name(), arguments)
            .await?;
        let attempt = match (&*found.word, shortfall) {
            ("won", None) => Attempt::Acquired(found.lease(request)),
            ("won", Some(shortfall)) => {
                self.undo(request, &found).await?;
                return Err(shortfall.taken_back());
            }
            ("taken", Some(shortfall)) if found.is_held_by(request.owner()) => {
                return Err(shortfall.in_doubt());
            }
            ("taken", _) => taken(request, &found)?,
            ("ahead", _) => return Err(ahead(request, &found)),
            ("refused", _) => {
                let reason = found.slots().refusal(request, None, LockState::Free);
                let reason = reason.ok_or_else(|| unexpected(&found))?;
                Attempt::Skipped(found.record(request.name()).as_skip_for(reason))
            }
            ("over", _) => return Err(Error::attempt_ended()),
            ("late", _) => {
                let store_time = found.now;
                return Ok(BoundedAttempt::TooLate { store_time });
            }
            _ => return Err(unexpected(&found)),
        };
        Ok(BoundedAttempt::Judged(attempt))
    }
}

//! The life of one owner, as its log tells it.

use super::{Event, What};

/// What one attempt came to. Moments in nanoseconds of the local clock.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) name: String,
    pub(super) owner: String,
    /// When the attempt was first sent: it holds nothing before.
    pub(super) asked: u64,
    /// When it was known to be granted.
    pub(super) acquired: Option<u64>,
    pub(super) slot: Option<i64>,
    pub(super) token: Option<u64>,
    /// The store's times; the end only while no unanswered extension makes it uncertain.
    pub(super) store_from: Option<u64>,
    pub(super) store_until: Option<u64>,
    /// The earliest moment at which it can have ended.
    pub(super) certain_until: u64,
    /// The latest moment at which it can still hold; `None` where it cannot hold anything.
    pub(super) possible_until: Option<u64>,
    /// Whether it ended, or may have ended, by an unlock.
    pub(super) release_asked: Option<u64>,
    /// Calls answered with "lost" while the lease ran for certain.
    pub(super) lost_too_early: Vec<&'static str>,
    at_least: u64,
    granularity: u64,
    flight: u64,
    renewal: Option<(u64, u64)>,
    /// Until when a request may hold the lock that nobody has an answer to, whatever the same
    /// attempt is told when it is asked again: it may come late.
    adrift: Option<u64>,
    /// Whether an unlock had no answer.
    release_adrift: bool,
}

impl Life {
    /// `flight`: how long a request whose sender is gone may still be on its way.
    pub(super) fn new(event: &Event, granularity: u64, flight: u64) -> Option<Self> {
        let What::Asked {
            at_most,
            at_least,
            slot,
        } = event.what
        else {
            return None;
        };
        Some(Self {
            name: event.name.clone(),
            owner: event.owner.clone(),
            asked: event.at,
            acquired: None,
            slot,
            token: None,
            store_from: None,
            store_until: None,
            certain_until: event.at.saturating_add(at_most),
            possible_until: Some(event.at.saturating_add(flight + at_most + granularity)),
            release_asked: None,
            lost_too_early: Vec::new(),
            at_least,
            granularity,
            flight,
            renewal: None,
            adrift: None,
            release_adrift: false,
        })
    }

    /// What this owner's log says next.
    pub(super) fn see(&mut self, event: &Event) {
        let at = event.at;
        match &event.what {
            What::Asked { at_most, .. } => {
                // The same attempt again, since an answer was lost.
                self.possible_until = Some(at + self.flight + at_most + self.granularity);
            }
            What::Acquired {
                token,
                acquired_at,
                locked_until,
            } => {
                self.acquired = Some(at);
                self.token = *token;
                self.store_from = *acquired_at;
                self.store_until = *locked_until;
                let lasts = self.certain_until - self.asked;
                self.possible_until = Some(at + lasts + self.granularity).max(self.adrift);
            }
            What::Skipped { .. } | What::Failed => self.possible_until = self.adrift,
            What::Unknown => self.adrift = self.possible_until,
            What::RenewAsked { at_most } => {
                self.renewal = Some((at, *at_most));
                self.store_until = None;
                self.certain_until = self.certain_until.min(at.saturating_add(*at_most));
                self.possible_at_least_until(at + self.flight + at_most);
            }
            What::Renewed { locked_until } => {
                if let Some((asked, at_most)) = self.renewal.take() {
                    self.certain_until = asked.saturating_add(at_most);
                    let until = Some(at + at_most + self.granularity);
                    self.possible_until = until.max(self.adrift);
                }
                self.store_until = *locked_until;
            }
            What::RenewLost => self.lost(at, "an extension"),
            What::ReleaseAsked => {
                self.release_asked.get_or_insert(at);
            }
            What::Released => {
                let kept = self.acquired.map_or(0, |from| from + self.at_least);
                self.possible_until = Some(at.max(kept + self.granularity)).max(self.adrift);
            }
            // Asked again it may find the lock taken by the next one, if it was unlocked before.
            What::ReleaseLost if self.release_adrift => {}
            What::ReleaseLost => self.lost(at, "an unlock"),
            What::CallFailed => self.release_adrift = self.release_asked.is_some(),
        }
    }

    /// The last moment at which nobody else can have held the lock.
    pub(super) fn excludes_until(&self) -> u64 {
        match self.release_asked {
            Some(asked) => asked.min(self.certain_until),
            None => self.certain_until,
        }
    }

    fn possible_at_least_until(&mut self, moment: u64) {
        let later = moment + self.granularity;
        self.possible_until = Some(self.possible_until.map_or(later, |known| known.max(later)));
    }

    fn lost(&mut self, at: u64, call: &'static str) {
        if at < self.certain_until {
            self.lost_too_early.push(call);
        }
        self.certain_until = self.certain_until.min(at);
    }
}

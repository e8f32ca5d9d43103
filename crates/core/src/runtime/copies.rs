//! Withdrawals of attempts that a harness makes itself.

use std::sync::Arc;

use super::Context;
use super::withdrawal::Withdrawal;
use crate::clock::NotBefore;
use crate::contract::AttemptRequest;

/// The copies of one attempt, for a harness that calls a provider itself and leaves the withdrawal
/// to the runtime.
#[doc(hidden)]
#[derive(Debug)]
#[must_use = "what the copies win is not withdrawn otherwise"]
pub struct Copies {
    context: Arc<Context>,
    request: AttemptRequest,
    /// Until when a copy may arrive; `None` if all got a reply.
    until: Option<NotBefore>,
}

impl Copies {
    pub(crate) fn new(context: Arc<Context>, request: AttemptRequest) -> Self {
        Self {
            context,
            request,
            until: None,
        }
    }

    /// Records that the call for a copy has ended without a reply.
    pub fn add_unanswered(&mut self) {
        self.until = Some(Withdrawal::bound(&self.context, &self.request));
    }

    /// Withdraws what they may have won, at once and again when none can arrive any more. In the
    /// background.
    pub fn give_up(self) {
        if self.until.is_some() {
            Withdrawal::new(self.request, self.until).start(&self.context);
        }
    }

    /// Withdraws what they may win, when none can arrive any more. In the background. If the task
    /// has run for its slot, the slot is not given back.
    pub fn withdraw(self, has_run: bool) {
        if let Some(until) = self.until {
            let withdrawal = Withdrawal::of_strays(self.request, until);
            withdrawal.keeping_slot(has_run).start(&self.context);
        }
    }
}

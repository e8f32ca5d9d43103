//! Calls that the thread makes if a runtime leaves them undone: it is blocked, its pool is exhausted, or it has shut down.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::super::Context;
use super::super::bounded::bounded;
use super::super::withdrawal::Counted;
use super::second::Second;
use super::thread::Thread;
use crate::clock::{Moment, NotBefore, SystemClock};
use crate::contract::{AttemptRequest, Error, LastFailure, Lease, Unlock, UnlockRequest};
use crate::runtime::narrator::{self, DutyEvent};
use crate::runtime::{Known, Progress};
use shedlock_support::Backoff;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A call that ends a lease.
#[derive(Clone, Debug)]
pub(in crate::runtime) enum Call {
    Unlock(Lease, UnlockRequest),
    Withdraw(AttemptRequest),
}

/// Calls that end what one owner holds or may hold.
#[derive(Debug)]
pub(in crate::runtime) struct Errand {
    /// Each with the moment from which it makes sense, in order.
    calls: VecDeque<(NotBefore, Call)>,
    /// How long the runtime has for each.
    patience: Duration,
    /// What the owner holds has ended by itself then.
    until: NotBefore,
    timeout: Duration,
    /// Waited for by those who wait for withdrawals.
    _counted: Option<Counted>,
    is_urgent: bool,
    is_sending: bool,
    retry_at: Option<NotBefore>,
    backoff: Backoff,
    /// The pause after an error that does not pass by itself.
    long_pause: Duration,
    last_failure: LastFailure,
    /// A listener of the lock tells its events, and none is called from here.
    is_silent: bool,
    progress: Arc<Progress>,
}

impl Errand {
    pub(in crate::runtime) fn new(
        context: &Context,
        lock_at_most_for: Duration,
        calls: impl IntoIterator<Item = (NotBefore, Call)>,
        counted: Option<Counted>,
    ) -> Self {
        let calls: VecDeque<_> = calls.into_iter().collect();
        let now = NotBefore::after(context.clock.now(), Duration::ZERO);
        let last = calls.back().map_or(now, |(from, _)| *from);
        let sixth = context.usable(lock_at_most_for) / 6;
        Self {
            calls,
            patience: sixth.min(context.store_timeout),
            until: last.later_by(lock_at_most_for),
            timeout: context.store_timeout,
            _counted: counted,
            is_urgent: false,
            is_sending: false,
            retry_at: None,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            long_pause: sixth,
            last_failure: LastFailure::default(),
            is_silent: context.is_silent,
            progress: Arc::default(),
        }
    }

    /// How far its unlock is, if it has one.
    pub(in crate::runtime) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The runtime does not do it any more.
    pub(super) fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// How long the thread waits before it makes the next call; `None` while it makes one.
    pub(super) fn left(&self, now: Moment) -> Option<Duration> {
        let (from, _) = self.calls.front().filter(|_| !self.is_sending)?;
        let due = match self.is_urgent {
            true => *from,
            false => from.later_by(self.patience),
        };
        let retry = self.retry_at.map_or(Duration::ZERO, |at| at.left(now));
        Some(due.left(now).max(retry))
    }

    /// Returns the next call, which is sent now.
    pub(super) fn send(&mut self, second: &Arc<Second>) -> Option<Sending> {
        let (_, call) = self.calls.front()?;
        self.is_sending = true;
        Some(Sending {
            second: second.clone(),
            call: call.clone(),
            timeout: self.timeout,
            progress: self.progress.clone(),
        })
    }

    /// Applies the reply to the call that was sent. Returns true if there is nothing left to do.
    pub(super) fn is_over(&mut self, now: Moment, answer: Result<Sent, Error>) -> bool {
        self.is_sending = false;
        let Some((_, call)) = self.calls.front() else {
            return true;
        };
        let (lock, owner) = call.of();
        let tell = |event| {
            if !self.is_silent {
                narrator::tell_duty(lock, owner, event);
            }
        };
        match answer {
            Ok(sent) => {
                match sent {
                    Sent::Unlocked => tell(DutyEvent::Unlocked),
                    Sent::Withdrawn => tell(DutyEvent::Withdrawn),
                    Sent::Nothing => {}
                }
                self.calls.pop_front();
                self.backoff.reset();
                self.calls.is_empty()
            }
            Err(error) => {
                // What a person must change is not asked for often.
                let pause = match error.is_retryable() {
                    true => self.backoff.pause(),
                    false => self.long_pause,
                };
                let is_over = error.is_final() || self.until.left(now) <= pause;
                if is_over || self.last_failure.is_news(&error) {
                    tell(DutyEvent::EndFailed(&error, is_over));
                }
                if is_over {
                    return true;
                }
                self.retry_at = Some(NotBefore::after(now, pause));
                self.backoff.take();
                false
            }
        }
    }
}

impl Call {
    fn of(&self) -> (&str, &str) {
        let (name, owner) = match self {
            Self::Unlock(lease, _) => (lease.name(), lease.owner()),
            Self::Withdraw(request) => (&request.name, &request.owner),
        };
        (name.as_str(), owner.as_str())
    }
}

/// A call over a second connection. It refers to nothing that belongs to the user.
#[derive(Debug)]
pub(super) struct Sending {
    second: Arc<Second>,
    call: Call,
    timeout: Duration,
    progress: Arc<Progress>,
}

/// What a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Unlocked,
    Withdrawn,
    /// Nothing: it had ended already, or never been granted.
    Nothing,
}

impl Sending {
    pub(super) async fn answer(self) -> Result<Sent, Error> {
        let call = async {
            let provider = self.second.open().await?;
            Ok(match &self.call {
                Call::Unlock(lease, request) => {
                    let sent = self.progress.send();
                    let answer = provider.unlock(lease, request).await;
                    sent.answered(match &answer {
                        Ok(Unlock::Unlocked) => Known::Ended,
                        Err(error) if error.is_outcome_unknown() => Known::Unclear,
                        Ok(Unlock::Lost) | Err(_) => Known::NotEnded,
                    });
                    match answer? {
                        Unlock::Unlocked => Sent::Unlocked,
                        Unlock::Lost => Sent::Nothing,
                    }
                }
                Call::Withdraw(request) => match provider.withdraw(request).await? {
                    true => Sent::Withdrawn,
                    false => Sent::Nothing,
                },
            })
        };
        bounded(&SystemClock, self.timeout, call).await
    }
}

/// An errand that a runtime is expected to do itself. If this is dropped before, the thread does it at once.
#[derive(Debug)]
pub(in crate::runtime) struct Handed {
    pub(super) thread: Arc<Thread>,
    pub(super) key: u64,
}

impl Handed {
    /// The runtime has done it, or cannot do it in time.
    pub(in crate::runtime) fn done(self) {
        self.thread.forget(self.key);
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        self.thread.hurry(self.key);
    }
}

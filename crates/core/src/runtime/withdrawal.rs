//! Withdraws attempts that no caller waits for any more, in the background.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::bounded::bounded;
use super::{Call, Context, Errand};
use crate::clock::{Moment, NotBefore};
use crate::contract::store_clock::SLEW;
use crate::contract::{AttemptRequest, Error, Event, LastFailure, LockName};
use shedlock_support::{Backoff, spawn};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How much later than its timeout a copy may be granted: stores truncate times to milliseconds.
const SLACK: Duration = Duration::from_millis(100);

/// Ends whatever the copies of one attempt have won, or may still win.
#[derive(Clone, Debug)]
pub(crate) struct Withdrawal {
    request: AttemptRequest,
    /// Whether one of the copies may have won already.
    at_once: bool,
    /// Until when a copy may arrive.
    stray_until: Option<NotBefore>,
}

impl Withdrawal {
    /// Returns the moment from which the store refuses every copy sent so far, even on a server
    /// whose clock is slow.
    ///
    /// It counts from the end of the call, not from its beginning: the provider computes the
    /// not-after when it sends, and the process may have been stopped between the two.
    pub(super) fn bound(context: &Context, request: &AttemptRequest) -> NotBefore {
        let server_skew = context.provider.capabilities().server_skew;
        let timeout = request.timeout;
        NotBefore::after(context.clock.now(), timeout)
            .later_by(timeout / SLEW + SLACK)
            .later_by(server_skew)
    }

    /// Withdraws an attempt that may have won.
    pub(super) fn new(request: AttemptRequest, stray_until: Option<NotBefore>) -> Self {
        Self {
            request,
            at_once: true,
            stray_until,
        }
    }

    /// Withdraws copies that may still arrive, for an attempt that has a reply.
    pub(super) fn of_strays(request: AttemptRequest, until: NotBefore) -> Self {
        Self {
            request,
            at_once: false,
            stray_until: Some(until),
        }
    }

    /// If the task has run for its slot, the slot is not given back with the leases that the copies
    /// won.
    pub(super) fn keeping_slot(self, keeps: bool) -> Self {
        let request = if keeps {
            self.request.without_slot()
        } else {
            self.request
        };
        Self { request, ..self }
    }

    /// Returns the attempt, and for how long copies of it may still arrive.
    pub(super) fn unanswered(&self, now: Moment) -> Unanswered {
        let left = self.stray_until.map(|until| until.left(now));
        Unanswered {
            request: self.request.clone(),
            left: left.unwrap_or_default(),
        }
    }

    /// Starts the withdrawal on the current runtime. What that leaves undone, the duties do.
    pub(super) fn start(self, context: &Arc<Context>) {
        let handed = context.hand_over(|context| {
            let counted = context.withdrawals.count();
            let at_most = self.request.lock_at_most_for;
            Errand::new(context, at_most, self.calls(context), Some(counted))
        });
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            if handed.is_none() {
                self.report_failure(context, None, true);
            }
            return;
        };
        let context = context.clone();
        let under_way = UnderWay::begin(&context.withdrawals, self);
        spawn(&runtime, async move {
            under_way.withdrawal.run(&context, &under_way.turn).await;
            if let Some(handed) = handed {
                handed.done();
            }
            drop(under_way);
        });
    }

    /// When each of its calls makes sense.
    pub(super) fn calls(&self, context: &Context) -> impl Iterator<Item = (NotBefore, Call)> {
        let now = NotBefore::after(context.clock.now(), Duration::ZERO);
        let moments = [self.at_once.then_some(now), self.stray_until];
        let call = Call::Withdraw(self.request.clone());
        moments
            .into_iter()
            .flatten()
            .map(move |from| (from, call.clone()))
    }

    fn report_failure(&self, context: &Context, error: Option<&Error>, is_final: bool) {
        context.report(&Event::WithdrawalFailed {
            request: &self.request,
            error,
            is_final,
        });
    }

    async fn run(&self, context: &Context, turn: &Turn) {
        let clock = &*context.clock;
        let last = self
            .stray_until
            .unwrap_or_else(|| NotBefore::after(clock.now(), Duration::ZERO));
        // A lease that was won before then has ended by itself.
        let give_up = last.later_by(self.request.lock_at_most_for);
        if self.at_once && !self.until_answered(context, turn, give_up).await {
            return;
        }
        if let Some(until) = self.stray_until {
            until.wait(clock).await;
            self.until_answered(context, turn, give_up).await;
        }
    }

    /// Repeats the call until the store replies or there can be nothing left to withdraw. Only one
    /// call is made at a time for each name. Returns whether the store has replied.
    async fn until_answered(&self, context: &Context, turn: &Turn, give_up: NotBefore) -> bool {
        let clock = &*context.clock;
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut last = LastFailure::default();
        loop {
            let my_turn = turn.lock().await;
            let call = context.provider.withdraw(&self.request);
            let answer = bounded(clock, context.store_timeout, call).await;
            drop(my_turn);
            match answer {
                Ok(true) => {
                    let request = &self.request;
                    context.report(&Event::Withdrawn { request });
                    return true;
                }
                Ok(false) => return true,
                Err(error) if give_up.left(clock.now()) > backoff.pause() => {
                    if last.is_news(&error) {
                        self.report_failure(context, Some(&error), false);
                    }
                }
                Err(error) => {
                    self.report_failure(context, Some(&error), true);
                    return false;
                }
            }
            clock.sleep_until(clock.now() + backoff.take()).await;
        }
    }
}

/// The right to make a call about one name. Without it, the withdrawals of a job whose store is
/// unavailable pile up: one for each attempt, until its lease would have ended, each with a call
/// that waits in a pool.
type Turn = Arc<tokio::sync::Mutex<()>>;

/// An attempt that is still to be withdrawn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unanswered {
    /// The attempt. It names an owner of its own.
    pub request: AttemptRequest,
    /// For how long the store may still accept a copy of it.
    pub left: Duration,
}

/// The withdrawals in progress.
#[derive(Debug)]
pub(crate) struct Withdrawals {
    count: watch::Sender<usize>,
    of_names: Mutex<HashMap<LockName, OfName>>,
}

/// Those of one name.
#[derive(Debug, Default)]
struct OfName {
    turn: Turn,
    under_way: Vec<Arc<Withdrawal>>,
}

impl Withdrawals {
    pub(super) fn new() -> Self {
        Self {
            count: watch::Sender::new(0),
            of_names: Mutex::default(),
        }
    }

    fn count(self: &Arc<Self>) -> Counted {
        self.count.send_modify(|count| *count += 1);
        Counted(self.clone())
    }

    /// Completes when no withdrawal is in progress.
    pub(crate) async fn done(&self) {
        // This cannot fail, because `self` holds the sender.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Completes when no withdrawal of this lock is in progress.
    pub(super) async fn done_with(&self, name: &LockName) {
        let is_done = |_: &usize| !self.of_names().contains_key(name);
        // As in `done`.
        let _ = self.count.subscribe().wait_for(is_done).await;
    }

    /// Returns the attempts at this lock whose withdrawals are in progress.
    pub(super) fn of(&self, name: &LockName, now: Moment) -> Vec<Unanswered> {
        let of_names = self.of_names();
        let under_way = of_names.get(name).map(|it| it.under_way.iter());
        let under_way = under_way.into_iter().flatten();
        under_way.map(|it| it.unanswered(now)).collect()
    }

    fn of_names(&self) -> MutexGuard<'_, HashMap<LockName, OfName>> {
        self.of_names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts as a withdrawal in progress until it is dropped.
#[derive(Debug)]
pub(super) struct Counted(Arc<Withdrawals>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count.send_modify(|count| *count -= 1);
    }
}

struct UnderWay {
    all: Counted,
    withdrawal: Arc<Withdrawal>,
    turn: Turn,
}

impl UnderWay {
    fn begin(all: &Arc<Withdrawals>, withdrawal: Withdrawal) -> Self {
        let withdrawal = Arc::new(withdrawal);
        let mut of_names = all.of_names();
        let name = withdrawal.request.name.clone();
        let of_name = of_names.entry(name).or_default();
        of_name.under_way.push(withdrawal.clone());
        let turn = of_name.turn.clone();
        drop(of_names);
        Self {
            all: all.count(),
            withdrawal,
            turn,
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut of_names = self.all.0.of_names();
        let name = &self.withdrawal.request.name;
        if let Some(of_name) = of_names.get_mut(name) {
            let is_other = |it: &Arc<_>| !Arc::ptr_eq(it, &self.withdrawal);
            of_name.under_way.retain(is_other);
            if of_name.under_way.is_empty() {
                of_names.remove(name);
            }
        }
    }
}

//! Taking a lock: copies of an attempt, attempts of a wait, and what is left of them.

use std::sync::Arc;
use std::time::Duration;

use super::wait::Wait;
use super::withdrawal::Withdrawal;
use super::{Context, Held};
use crate::clock::{Deadline, NotBefore};
use crate::contract::{Attempt, AttemptRequest, Budget, Error, Event, Lease, Operation};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

// None, one, and three times one.
const _: () = assert!(Budget::COPIES == 4);
const _: () = assert!(Budget::PAUSES.as_millis() == 4 * FIRST_PAUSE.as_millis());

/// Takes the lock or returns why not. Retries until `wait` is over, or returns at once if it is
/// zero.
///
/// The store never waits (law 2), so this one loop sends everything. What follows on a reply is one
/// of three:
///
/// - *Another copy* of the attempt, with the same owner, if a reply was lost, the first time at
///   once: an idle connection that was cut is the most frequent cause. If the first copy won, this
///   one finds its own owner in the record. A store that may become available again is asked until
///   the wait is over.
/// - *Another attempt*, with its own owner, as long as the wait lasts. Before it, nothing is held,
///   and copies without a reply are being withdrawn. The wait is the caller's: it outlasts the lease
///   that a copy without a reply may have taken. The last attempt is made when the wait is over.
/// - *The end.* A lease that was won without a reply is withdrawn in the background, also if this
///   future is dropped.
///
/// A copy whose reply was lost can still arrive until its timeout has passed, even if a later copy
/// was granted or skipped. So the withdrawal is repeated once past that bound, unless the lease
/// that was granted is still held then.
pub(crate) async fn acquire(
    context: &Arc<Context>,
    wait: Duration,
    request: impl Fn() -> Result<AttemptRequest, Error>,
) -> Result<Attempt<Arc<Held>>, Error> {
    let clock = &*context.clock;
    let mut wait = Wait::of(context, wait);
    let mut pending = Pending::new(context, request()?);
    loop {
        let deadline = pending.deadline();
        let error = match pending.send(deadline).await {
            Ok(Attempt::Acquired(lease)) => return pending.won(lease, deadline),
            Ok(Attempt::Skipped(skip)) => {
                let skipped = pending.skipped();
                if let Some(skip) = wait.ends_with(&skipped, skip).await {
                    return Ok(Attempt::Skipped(skip));
                }
                pending = Pending::new(context, request()?);
                continue;
            }
            Err(error) => error,
        };
        if let Some(pause) = pending.pause_before_next(&error, deadline, wait.left()) {
            clock.sleep_until(clock.now() + pause).await;
            continue;
        }
        let failed = pending.give_up();
        if !wait.goes_on_after(&failed, &error).await {
            return Err(wait.explained(&failed, error).await);
        }
        pending = Pending::new(context, request()?);
    }
}

/// An attempt that may have won without a reply.
struct Pending<'a> {
    context: &'a Arc<Context>,
    request: Option<AttemptRequest>,
    copies: u32,
    /// A copy of it is in transit.
    is_unanswered: bool,
    /// Until when a copy whose reply was lost may arrive.
    stray_until: Option<NotBefore>,
    /// Until when the lease lasts for us that the first copy without a reply may have won.
    ends_if_won_unseen: Option<Deadline>,
    next_pause: Duration,
}

impl<'a> Pending<'a> {
    fn new(context: &'a Arc<Context>, request: AttemptRequest) -> Self {
        let request = request.with_timeout(context.store_timeout);
        context.emit(|| Event::Attempt { request: &request });
        Self {
            context,
            request: Some(request),
            copies: 0,
            is_unanswered: false,
            stray_until: None,
            ends_if_won_unseen: None,
            next_pause: FIRST_PAUSE,
        }
    }

    fn request(&self) -> &AttemptRequest {
        let request = self.request.as_ref();
        request.expect("it is taken when the attempt ends")
    }

    /// Until when a lease lasts for us that the next copy wins. Once a reply was lost, it counts from
    /// the first copy that may have won it.
    fn deadline(&self) -> Deadline {
        self.ends_if_won_unseen.unwrap_or_else(|| {
            let sent = self.context.lease_clock.read();
            let at_most = self.request().lock_at_most_for;
            self.context.deadline(sent, at_most)
        })
    }

    /// Sends a copy. A lease that it wins lasts until `deadline` for us.
    async fn send(&mut self, deadline: Deadline) -> Result<Attempt, Error> {
        let context = self.context;
        let capabilities = context.provider.capabilities();
        let time = context.store_timeout.min(capabilities.longest_call);
        let budget = Budget::new(context.clock.clone(), time);
        self.copies += 1;
        self.is_unanswered = true;
        let mut copy = self.request().clone();
        copy.budget = Some(budget.clone());
        let answer = budget.bound(context.provider.attempt(&copy)).await;
        self.is_unanswered = false;
        let answer = answer.map_err(|error| {
            error
                .with_lock(copy.name.as_str())
                .with_store(context.provider.store())
        });
        let is_unknown = answer.as_ref().is_err_and(Error::is_outcome_unknown);
        if is_unknown {
            self.ends_if_won_unseen = Some(deadline);
        }
        if is_unknown || answer.is_ok() && capabilities.repeats_attempts {
            self.stray_until = Some(Withdrawal::bound(context, &copy));
        }
        if let Err(error) = &answer {
            context.store_failed(&copy.name, copy.job(), error);
        }
        answer
    }

    /// Ends it: this copy, with this deadline, has won.
    fn won(mut self, lease: Lease, deadline: Deadline) -> Result<Attempt<Arc<Held>>, Error> {
        let context = self.context;
        if deadline.has_passed(context.lease_clock.read()) {
            // Dropping this withdraws it.
            return Err(too_late(context, &lease));
        }
        let (request, stray_until) = self.answered();
        let held = Held::new(context.clone(), request, lease, deadline, stray_until);
        held.emit(|lease| Event::Acquired { lease });
        Ok(Attempt::Acquired(Arc::new(held)))
    }

    /// Ends it: the lock was not granted.
    fn skipped(mut self) -> AttemptRequest {
        let (request, stray_until) = self.answered();
        if let Some(until) = stray_until {
            Withdrawal::of_strays(request.clone(), until).start(self.context);
        }
        request
    }

    /// Returns how long to pause before another copy is sent, unless none is.
    ///
    /// Nothing is sent past the end of a lease that may have been won: one granted then would already
    /// have ended for us.
    fn pause_before_next(
        &mut self,
        error: &Error,
        deadline: Deadline,
        wait: Duration,
    ) -> Option<Duration> {
        let mut pause = Duration::ZERO;
        if self.copies > 1 || !error.is_outcome_unknown() {
            pause = self.next_pause;
            self.next_pause = (self.next_pause * 3).min(LONGEST_PAUSE);
        }
        let is_waited_for = !wait.is_zero();
        if is_waited_for {
            pause = pause.min(wait);
        }
        let is_unknown = self.ends_if_won_unseen.is_some();
        let is_over = is_unknown && deadline.left(self.context.lease_clock.read()) <= pause;
        let goes_on = is_waited_for || (is_unknown && self.copies < Budget::COPIES);
        (goes_on && error.is_retryable() && !is_over).then_some(pause)
    }

    /// Ends it without a reply.
    fn give_up(mut self) -> AttemptRequest {
        let request = self.request().clone();
        if self.ends_if_won_unseen.is_none() {
            // Nothing can have been won.
            self.request = None;
        }
        request
    }

    /// Also returns until when copies of it may still arrive.
    fn answered(&mut self) -> (AttemptRequest, Option<NotBefore>) {
        let request = self.request.take();
        let request = request.expect("it is taken when the attempt ends");
        (request, self.stray_until.take())
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            if self.is_unanswered {
                self.stray_until = Some(Withdrawal::bound(self.context, &request));
            }
            Withdrawal::new(request, self.stray_until).start(self.context);
        }
    }
}

fn too_late(context: &Context, lease: &Lease) -> Error {
    Error::new(
        crate::ErrorKind::Unavailable,
        format!(
            "the store's reply took longer than the lease of {}",
            shedlock_support::text::duration(lease.lock_at_most_for())
        ),
    )
    .advise(("", Operation::RaiseAtMost))
    .advise("check the latency of the store")
    .with_lock(lease.name().as_str())
    .with_store(context.provider.store())
}

//! Attempts: sent, repeated if the reply was lost, and cleaned up in the background.

use std::sync::Arc;
use std::time::Duration;

use super::bounded::bounded;
use super::withdrawal::Withdrawal;
use super::{Context, Held};
use crate::clock::{Deadline, Moment, NotBefore};
use crate::{Attempt, AttemptRequest, Error, ErrorKind, Event, Lease, Operation};

/// How often an attempt is sent if replies are lost, including the first time.
const ASKED: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Takes the lock or returns why not.
///
/// An attempt whose reply was lost is repeated with the same owner, the first time at once: an idle
/// connection that was cut is the most frequent cause. If the first one won, the
/// repetition finds its own owner in the record. If that fails too, or this future is dropped in
/// between, a lease that was won is withdrawn in the background. A store that may become available
/// again is retried until `wait_until`.
///
/// A copy whose reply was lost can still arrive until its timeout has passed, even if a later copy
/// was granted or skipped. So the withdrawal is repeated once past that bound, unless the lease
/// that was granted is still held then.
pub(super) async fn attempt(
    context: &Arc<Context>,
    request: &AttemptRequest,
    wait_until: Option<Moment>,
) -> Result<Attempt<Arc<Held>>, Error> {
    context.emit(|| Event::Attempt { request });
    let mut pending = Pending {
        context,
        request: Some(request.clone()),
        is_unanswered: false,
        stray_until: None,
    };
    match pending.ask(wait_until).await? {
        (Attempt::Acquired(lease), deadline) => {
            if deadline.has_passed(context.lease_clock.read()) {
                // Dropping `pending` withdraws it.
                return Err(too_late(context, &lease));
            }
            let (request, stray_until) = pending.defuse();
            let stray = stray_until.map(|until| Withdrawal::of_strays(request.clone(), until));
            let held = Held::new(
                context.clone(),
                lease,
                request.completion(),
                deadline,
                stray,
            );
            held.emit(|lease| Event::Acquired { lease });
            Ok(Attempt::Acquired(Arc::new(held)))
        }
        (Attempt::Skipped(skip), _) => {
            let (request, stray_until) = pending.defuse();
            if let Some(until) = stray_until {
                Withdrawal::of_strays(request, until).start(context);
            }
            Ok(Attempt::Skipped(skip))
        }
    }
}

fn too_late(context: &Context, lease: &Lease) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the store's reply took longer than the lease of {}",
            crate::text::duration(lease.lock_at_most_for())
        ),
    )
    .advise(("", Operation::RaiseAtMost))
    .advise("check the latency of the store")
    .with_lock(lease.name().as_str())
    .with_store(context.provider.store())
}

/// An attempt that may have won without a reply.
struct Pending<'a> {
    context: &'a Arc<Context>,
    request: Option<AttemptRequest>,
    /// A copy of it is in transit.
    is_unanswered: bool,
    /// Until when a copy whose reply was lost may arrive.
    stray_until: Option<NotBefore>,
}

impl Pending<'_> {
    /// Ends it: the attempt has a reply. Also returns until when copies of it may still arrive.
    fn defuse(&mut self) -> (AttemptRequest, Option<NotBefore>) {
        let request = self.request.take();
        let request = request.expect("no one else takes it while it is pending");
        (request, self.stray_until.take())
    }

    /// Sends the attempt until there is a reply. Also returns until when a lease of it lasts for
    /// us.
    ///
    /// Once a reply was lost, the lease counts from the first request that may have won it. Nothing
    /// is sent past the end of that lease, since a lease granted then would already have ended for
    /// us.
    async fn ask(&mut self, wait_until: Option<Moment>) -> Result<(Attempt, Deadline), Error> {
        let context = self.context;
        let clock = &*context.clock;
        let Some(request) = &self.request else {
            unreachable!("asked while pending")
        };
        let ends_if_sent_now =
            || context.deadline(context.lease_clock.read(), request.lock_at_most_for());
        let mut next_pause = FIRST_PAUSE;
        let mut ends_if_won_unseen = None;
        for asked in 1.. {
            let deadline = ends_if_won_unseen.unwrap_or_else(ends_if_sent_now);
            self.is_unanswered = true;
            let call = context.provider.attempt(request);
            let answer = bounded(clock, context.store_timeout, call).await;
            self.is_unanswered = false;
            let error = match answer {
                Ok(answer) => {
                    if context.provider.capabilities().repeats_attempts {
                        self.stray_until = Some(Withdrawal::bound(context, request));
                    }
                    return Ok((answer, deadline));
                }
                Err(error) => error
                    .with_lock(request.name().as_str())
                    .with_store(context.provider.store()),
            };
            context.store_failed(request.name(), request.job(), &error);
            let mut pause = Duration::ZERO;
            if asked > 1 || !error.is_outcome_unknown() {
                pause = next_pause;
                next_pause = (next_pause * 3).min(LONGEST_PAUSE);
            }
            if error.is_outcome_unknown() {
                ends_if_won_unseen = Some(deadline);
                self.stray_until = Some(Withdrawal::bound(context, request));
            }
            let unknown = ends_if_won_unseen.is_some();
            let now = clock.now();
            let wait = wait_until.map_or(Duration::ZERO, |until| until.saturating_since(now));
            let is_waited_for = !wait.is_zero();
            if is_waited_for {
                pause = pause.min(wait);
            }
            let goes_on = is_waited_for || (unknown && asked < ASKED);
            let is_over = unknown && deadline.left(context.lease_clock.read()) <= pause;
            if is_over || !(goes_on && error.is_retryable()) {
                if !unknown {
                    self.request = None;
                }
                return Err(error);
            }
            clock.sleep_until(now + pause).await;
        }
        unreachable!("the loop returns")
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

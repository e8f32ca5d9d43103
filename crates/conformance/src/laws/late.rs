//! Laws 5 and 6 for requests that arrive late, after the client gave up on them.
//!
//! A [fault proxy](crate::proxy) withholds a request and delivers it later in the case. No client
//! is left to undo its effect on the store. So a late attempt must not take the lock for an owner
//! that has ended, and a late extension must not shorten a later one.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select, try_join_all};
use shedlock_core::{Attempt, AttemptRequest, Error, ExtendRequest, LockName, Moment, Slot};

use crate::case::cases;
use crate::context::name;
use crate::line::{Line, until_answered};
use crate::proxy::{Delivery, Strike, Trap};
use crate::steps::{acquire, extend, is_free, skipped, still_holds, try_take, unlock};
use crate::verdict::ensure;
use crate::wait::{PATIENCE, bounded, now, sleep};
use crate::{Call, Provider, Stop, TestContext, Verdict};

cases!(
    "law06_held_is_not_broken" [Connection]:
        a_copy_that_arrives_after_the_unlock_takes_nothing,
        a_copy_that_arrives_after_other_owners_takes_nothing [Time],
        a_copy_that_arrives_after_the_withdrawal_takes_nothing,
        a_copy_that_arrives_after_a_skip_takes_nothing;
    "law05_at_most" [Connection]:
        an_extension_that_arrives_late_does_not_shorten_the_lease,
        an_attempt_that_a_withdrawal_overtakes_is_not_skipped [Time];
);

/// The timeout of the attempts in these cases.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How long after it was withheld a request is given up.
const WITHHELD: Duration = Duration::from_millis(50);

/// How much later than the timeout a copy may still be granted; the runtime allows for this too.
const SLACK: Duration = Duration::from_millis(100);

/// What happens while the copy is in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// The attempt is repeated and granted, and its lease is unlocked. The copy arrives
    /// immediately.
    Unlocked,
    /// As `Unlocked`, and then another owner acquires and unlocks the lock. The copy arrives after
    /// its timeout.
    OtherOwners,
    /// The attempt is withdrawn, and withdrawn again after its timeout. Then the copy arrives.
    Withdrawn,
    /// Another owner holds the lock when the attempt is repeated, and unlocks it after the final
    /// withdrawal of the attempt. Then the copy arrives.
    Skipped,
}

/// After the unlock, a copy finds the mark that its own owner left, even while its timeout still
/// runs.
pub async fn a_copy_that_arrives_after_the_unlock_takes_nothing(context: &TestContext) -> Verdict {
    late_copies(context, Course::Unlocked).await
}

/// After other owners, the record no longer shows that the copy's owner has ended, but the copy's
/// timeout has passed.
pub async fn a_copy_that_arrives_after_other_owners_takes_nothing(
    context: &TestContext,
) -> Verdict {
    late_copies(context, Course::OtherOwners).await
}

/// The withdrawal after the timeout is final: a later copy takes nothing, and the slot can still be
/// taken.
pub async fn a_copy_that_arrives_after_the_withdrawal_takes_nothing(
    context: &TestContext,
) -> Verdict {
    late_copies(context, Course::Withdrawn).await
}

/// After a skip, the attempt has its reply, so only a withdrawal after its timeout ends its copies.
pub async fn a_copy_that_arrives_after_a_skip_takes_nothing(context: &TestContext) -> Verdict {
    late_copies(context, Course::Skipped).await
}

/// Runs the course with no record and with an unlocked record, with and without a slot.
async fn late_copies(context: &TestContext, course: Course) -> Verdict {
    let line = Line::new(context).await?;
    let slots: &[Option<Slot>] = if context.capabilities().slots {
        &[None, Some(line.slot)]
    } else {
        &[None]
    };
    let mut copies = Vec::new();
    for is_there in [false, true] {
        for slot in slots {
            copies.push(each_statement(context, &line, course, is_there, *slot));
        }
    }
    try_join_all(copies).await.map(drop)
}

async fn each_statement(
    context: &TestContext,
    line: &Line,
    course: Course,
    is_there: bool,
    slot: Option<Slot>,
) -> Verdict {
    let kind = match (is_there, slot.is_some()) {
        (false, false) => "first",
        (false, true) => "first-slot",
        (true, false) => "next",
        (true, true) => "next-slot",
    };
    for nth in 1..=Line::STATEMENTS {
        let job = name(&format!("{nth}-{kind}-job"));
        if is_there {
            let lease = acquire(&line.direct, &context.request(&job)).await?;
            unlock(&line.direct, &lease).await?;
        }
        let mut request = context.request(&job).with_timeout(TIMEOUT);
        if let Some(slot) = slot {
            request = request.with_slot(slot);
        }
        let through = line.warm_through(context).await?;
        let trap = line.trap(Call::Attempt, &request, nth, Strike::WithholdRequest)?;
        let answer = trap.give_up(WITHHELD, through.attempt(&request)).await;
        if !line.has_struck(&trap, nth)? {
            return match answer {
                // A busy store may judge it later than its timeout.
                Some(Err(error)) if error.is_retryable() => {
                    let direct = Line::ask_until_answered(&line.direct, &request);
                    direct.await.map(drop)
                }
                answer => granted(&request, answer),
            };
        }
        Copy {
            context,
            direct: &line.direct,
            request,
            trap,
            given_up: now(),
        }
        .arrives_after(course)
        .await?;
    }
    Ok(())
}

/// An attempt that its client gave up and that has not reached the store yet.
struct Copy<'a> {
    context: &'a TestContext,
    direct: &'a Provider,
    request: AttemptRequest,
    trap: Trap,
    given_up: Moment,
}

impl Copy<'_> {
    async fn arrives_after(&self, course: Course) -> Verdict {
        let (direct, request, job) = (self.direct, &self.request, &self.request.name);
        match course {
            Course::Unlocked => self.run_and_unlock().await?,
            Course::OtherOwners => {
                sleep(TIMEOUT.saturating_sub(now().saturating_since(self.given_up))).await;
                self.run_and_unlock().await?;
                let lease = acquire(direct, &self.context.request(job)).await?;
                unlock(direct, &lease).await?;
                self.timeout_passes().await;
            }
            Course::Withdrawn => self.withdraw_twice().await?,
            Course::Skipped => match try_take(direct, &self.context.request(job)).await? {
                Ok(other) => {
                    let attempt = until_answered(|| direct.attempt(request)).await?;
                    ensure!(
                        matches!(attempt, Attempt::Skipped(_)),
                        "another owner holds {job}, but the attempt returned {attempt:?}"
                    );
                    self.timeout_passes().await;
                    direct.withdraw(request).await?;
                    unlock(direct, &other.lease).await?;
                }
                // An earlier statement has already acquired the lock.
                Err(_) => self.withdraw_twice().await?,
            },
        }
        self.takes_nothing().await
    }

    /// The attempt is repeated on another connection, as the runtime does, and granted.
    async fn run_and_unlock(&self) -> Verdict {
        let lease = Line::ask_until_answered(self.direct, &self.request).await?;
        unlock(self.direct, &lease).await
    }

    async fn withdraw_twice(&self) -> Verdict {
        self.direct.withdraw(&self.request).await?;
        self.timeout_passes().await;
        self.direct.withdraw(&self.request).await?;
        Ok(())
    }

    async fn timeout_passes(&self) {
        let waited = now().saturating_since(self.given_up);
        let over = self.context.timing().past(TIMEOUT + SLACK);
        sleep(over.saturating_sub(waited)).await;
    }

    async fn takes_nothing(&self) -> Verdict {
        let (direct, job) = (self.direct, &self.request.name);
        let before = last_slot(direct, job).await?;
        let delivered = deliver(&self.trap).await;
        is_free(direct, job).await.map_err(|stop| match stop {
            Stop::Failed(found) => Stop::failed(format!(
                "a copy of an attempt arrived {:?} after it was given up, when its owner no longer \
                 needed the lock: {found}",
                now().saturating_since(self.given_up)
            )),
            stop => stop,
        })?;
        let after = last_slot(direct, job).await?;
        ensure!(
            before == after,
            "the last slot of {job} was {before:?}; a copy of an attempt that arrived after its \
             owner had ended changed it to {after:?}"
        );
        let mut next = self.context.request(job);
        if let Some(slot) = self.request.slot
            && before < Some(slot)
        {
            next = next.with_slot(slot);
        }
        let lease = acquire(direct, &next).await?;
        unlock(direct, &lease).await?;
        delivered
    }
}

/// The client gives up the first extension, extends for longer on another connection, and relies on
/// that. When the first, shorter extension arrives, it must not end the lease earlier.
pub async fn an_extension_that_arrives_late_does_not_shorten_the_lease(
    context: &TestContext,
) -> Verdict {
    let line = Line::new(context).await?;
    let (short, long) = (context.timing().short(), context.timing().long());
    for nth in 1..=Line::STATEMENTS {
        let request = context.request_for(&name(&format!("{nth}-job")), long / 5);
        let lease = acquire(&line.direct, &request).await?;
        let through = line.warm_through(context).await?;
        // A wrapper may route the calls of a lease to the provider that acquired it, so each client
        // gets its own copy of the lease.
        let same = acquire(&through, &request).await?;
        let trap = line.trap(Call::Extend, &request, nth, Strike::WithholdRequest)?;
        let shorter = ExtendRequest::new(short);
        let _ = trap
            .give_up(WITHHELD, through.extend(&same, &shorter))
            .await;
        if !line.has_struck(&trap, nth)? {
            break;
        }
        let extended = extend(&line.direct, &lease, &ExtendRequest::new(long)).await?;
        let delivered = deliver(&trap).await;
        still_holds(&line.direct, &extended).await?;
        context.pass(context.timing().past(short)).await;
        still_holds(&line.direct, &extended).await?;
        skipped(&line.direct, &context.request(&request.name)).await?;
        unlock(&line.direct, &extended).await?;
        delivered?;
    }
    Ok(())
}

/// Another client withdraws its own attempt while this one is in flight. A store may move the end of the free lock up
/// to the time of the withdrawal, which is later than the time that this attempt carries.
pub async fn an_attempt_that_a_withdrawal_overtakes_is_not_skipped(
    context: &TestContext,
) -> Verdict {
    let line = Line::new(context).await?;
    for nth in 1..=Line::STATEMENTS {
        let request = context.request(&name(&format!("{nth}-job")));
        let lease = acquire(&line.direct, &request).await?;
        unlock(&line.direct, &lease).await?;
        let through = line.warm_through(context).await?;
        let request = context.request(&request.name);
        let trap = line.trap(Call::Attempt, &request, nth, Strike::WithholdRequest)?;
        let overtaking = async {
            trap.struck().await;
            // Longer than a tick of any clock that judges.
            sleep(Duration::from_millis(20)).await;
            let another = context.request(&request.name);
            line.direct.withdraw(&another).await?;
            deliver(&trap).await
        };
        let (attempt, overtaking) = (pin!(through.attempt(&request)), pin!(overtaking));
        let answer = match bounded(PATIENCE, select(attempt, overtaking)).await {
            Some(Either::Left((answer, _))) => answer,
            Some(Either::Right((overtaken, attempt))) => {
                overtaken?;
                attempt.await
            }
            None => return Err(Stop::failed("the attempt did not return")),
        };
        granted(&request, Some(answer))?;
        if !line.has_struck(&trap, nth)? {
            break;
        }
    }
    Ok(())
}

pub(super) async fn last_slot(provider: &Provider, job: &LockName) -> Result<Option<Slot>, Stop> {
    let found = provider.inspect(job).await?;
    Ok(found.and_then(|record| record.last_slot))
}

/// Returns after the store has seen the request. Not applicable if the store closed the connection
/// first: then no request can arrive late on it.
pub(super) async fn deliver(trap: &Trap) -> Verdict {
    match bounded(PATIENCE, trap.deliver()).await {
        Some(Delivery::Answered) => Ok(()),
        Some(Delivery::Closed) => Err(Stop::not_applicable(
            "the store closed the connection on which a request was withheld",
        )),
        delivery => Err(Stop::failed(format!(
            "the store gave no reply to a request that arrived late: {delivery:?}"
        ))),
    }
}

fn granted(request: &AttemptRequest, answer: Option<Result<Attempt, Error>>) -> Verdict {
    match answer.transpose()? {
        Some(Attempt::Acquired(lease)) if lease.owner() == &request.owner => Ok(()),
        answer => Err(Stop::failed(format!(
            "no other owner asks for {}, but the attempt of {} returned {answer:?}",
            &request.name, &request.owner
        ))),
    }
}

//! Law 6 under faults: requests and replies that are lost or delayed.
//!
//! One provider reaches its store through a [fault proxy](crate::proxy); a second provider connects
//! directly and shows the true state of the store. A fault is tried at each statement of a call in
//! turn. It must match a request at the first statement: a case whose fault never struck proves
//! nothing.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, ExtendRequest, Extension, Lease, LockState, Unlock,
    UnlockRequest,
};

use crate::case::cases;
use crate::context::name;
use crate::line::{Line, until_answered};
use crate::proxy::{Strike, Trap};
use crate::steps::{abandon, acquire, extend_is_lost, is_free, record, still_holds, unlock};
use crate::verdict::ensure;
use crate::wait::{PATIENCE, bounded, sleep};
use crate::{Call, Stop, TestContext, Verdict};

cases!("law06_held_is_not_broken" [Connection]:
    an_attempt_whose_answer_was_lost_is_found_again,
    an_attempt_that_was_lost_on_the_way_is_asked_again,
    an_attempt_whose_answer_was_lost_can_be_withdrawn,
    an_unlock_whose_answer_was_lost_is_not_lost,
    an_unlock_whose_answer_was_lost_is_not_lost_once_another_has_the_lock,
    an_unlock_that_was_lost_on_the_way_is_asked_again,
    an_extension_whose_answer_was_lost_is_asked_again,
    an_extension_that_was_lost_on_the_way_is_asked_again,
    a_withdrawal_whose_answer_was_lost_is_asked_again,
    an_extension_that_arrives_after_the_unlock_is_lost,
    an_answer_that_comes_after_the_lease_is_of_no_use,
    a_connection_that_falls_silent_is_abandoned,
);

/// If any of the attempt's statements loses its reply, the error reports an unknown outcome, and
/// the same attempt, repeated, gets the lease. It is not skipped as held by another owner.
pub async fn an_attempt_whose_answer_was_lost_is_found_again(context: &TestContext) -> Verdict {
    lose_attempts(context, Strike::CutBeforeReply).await
}

/// If a request of the attempt never reaches the store, the same attempt, repeated, gets the lease.
pub async fn an_attempt_that_was_lost_on_the_way_is_asked_again(context: &TestContext) -> Verdict {
    lose_attempts(context, Strike::CutBeforeRequest).await
}

async fn lose_attempts(context: &TestContext, strike: Strike) -> Verdict {
    let line = Line::new(context).await?;
    // Without a record, on an unlocked record, and on an expired one.
    for before in ["nothing", "unlocked", "expired"] {
        for nth in 1..=Line::STATEMENTS {
            let job = name(&format!("{before}-{nth}"));
            match before {
                "unlocked" => {
                    let lease = acquire(&line.direct, &context.request(&job)).await?;
                    unlock(&line.direct, &lease).await?;
                }
                "expired" => {
                    let short = context.timing().short();
                    abandon(&line.direct, &context.request_for(&job, short)).await?;
                    context.pass(context.timing().past(short)).await;
                }
                _ => {}
            }
            let mut request = context.request(&job);
            if context.capabilities().slots {
                request = request.with_slot(line.slot);
            }
            let trap = line.trap(Call::Attempt, &request, nth, strike)?;
            let answer = line.through.attempt(&request).await;
            line.proxy.heal().await?;
            if !line.has_struck(&trap, nth)? {
                granted(&request, answer)?;
                break;
            }
            if let Err(error) = answer {
                is_reported_correctly(&line, &request, &error).await?;
            } else {
                granted(&request, answer)?;
            }
            let lease = line.recovers(&line.through, &request).await?;
            still_holds(&line.direct, &lease).await?;
            unlock(&line.through, &lease).await?;
            is_free(&line.direct, &job).await?;
        }
    }
    Ok(())
}

/// An attempt whose reply was lost can be withdrawn, and leaves no lease.
pub async fn an_attempt_whose_answer_was_lost_can_be_withdrawn(context: &TestContext) -> Verdict {
    let line = Line::new(context).await?;
    for nth in 1..=Line::STATEMENTS {
        let job = name(&format!("job-{nth}"));
        let request = context
            .request(&job)
            .with_lock_at_least_for(context.timing().long());
        let trap = line.trap(Call::Attempt, &request, nth, Strike::CutBeforeReply)?;
        // Whatever the result, it withdraws.
        let _ = line.through.attempt(&request).await;
        line.proxy.heal().await?;
        let has_struck = line.has_struck(&trap, nth)?;
        until_answered(|| line.through.withdraw(&request)).await?;
        is_free(&line.direct, &job).await?;
        abandon(&line.direct, &context.request(&job)).await?;
        if !has_struck {
            break;
        }
    }
    Ok(())
}

/// If the reply to an unlock is lost, the lock is free or kept by at-least, and the repeated unlock
/// succeeds.
pub async fn an_unlock_whose_answer_was_lost_is_not_lost(context: &TestContext) -> Verdict {
    lose_unlocks(context, Strike::CutBeforeReply).await
}

/// If the reply to an unlock is lost and another owner then acquires the lock, the unlock does not
/// return "lost": nothing that the provider reads proves that the lease was lost.
pub async fn an_unlock_whose_answer_was_lost_is_not_lost_once_another_has_the_lock(
    context: &TestContext,
) -> Verdict {
    let line = Line::new(context).await?;
    for nth in 1..=Line::STATEMENTS {
        let job = name(&format!("job-{nth}"));
        let request = context.request(&job);
        let lease = acquire(&line.through, &request).await?;
        let trap = line.trap(Call::Unlock, &request, nth, Strike::SwallowReply)?;
        let at_once = UnlockRequest::new();
        let unlocking = pin!(line.through.unlock(&lease, &at_once));
        let next = context.request(&job);
        let taking = pin!(take_once_freed(&line, &trap, &next));
        let (answer, taken) = match select(unlocking, taking).await {
            Either::Left((answer, _)) => (answer, None),
            Either::Right((taken, unlocking)) => {
                line.proxy.cut_all();
                let answer = bounded(PATIENCE, unlocking).await;
                let answer = answer.ok_or_else(|| Stop::failed("an unlock never returned"))?;
                (answer, taken?)
            }
        };
        line.proxy.heal().await?;
        let has_struck = line.has_struck(&trap, nth)?;
        match answer {
            Ok(answer) => unlocked(answer)?,
            Err(error) => {
                is_retryable("an unlock", &error)?;
                if taken.is_none() {
                    let again = || line.through.unlock(&lease, &at_once);
                    unlocked(until_answered(again).await?)?;
                }
            }
        }
        if let Some(taken) = taken {
            still_holds(&line.direct, &taken).await?;
            unlock(&line.direct, &taken).await?;
        }
        if !has_struck {
            break;
        }
    }
    Ok(())
}

/// Acquires the lock directly once the statement whose reply is lost has freed it.
async fn take_once_freed(
    line: &Line,
    trap: &Trap,
    request: &AttemptRequest,
) -> Result<Option<Lease>, Stop> {
    trap.struck().await;
    for _ in 0..10 {
        if let Attempt::Acquired(lease) = line.direct.attempt(request).await? {
            return Ok(Some(lease));
        }
        sleep(Duration::from_millis(30)).await;
    }
    Ok(None)
}

/// If an unlock never reaches the store, the lock is still held, and the repeated unlock frees it.
pub async fn an_unlock_that_was_lost_on_the_way_is_asked_again(context: &TestContext) -> Verdict {
    lose_unlocks(context, Strike::CutBeforeRequest).await
}

async fn lose_unlocks(context: &TestContext, strike: Strike) -> Verdict {
    let line = Line::new(context).await?;
    for at_least in [Duration::ZERO, context.timing().long()] {
        for nth in 1..=Line::STATEMENTS {
            let job = name(&format!("{}-{nth}", at_least.as_secs()));
            let request = context.request(&job).with_lock_at_least_for(at_least);
            let lease = acquire(&line.through, &request).await?;
            let trap = line.trap(Call::Unlock, &request, nth, strike)?;
            let answer = line.through.unlock(&lease, &UnlockRequest::new()).await;
            line.proxy.heal().await?;
            if !line.has_struck(&trap, nth)? {
                unlocked(answer?)?;
                break;
            }
            if let Err(error) = answer {
                is_retryable("an unlock", &error)?;
            } else {
                unlocked(answer?)?;
            }
            let again = UnlockRequest::new();
            unlocked(until_answered(|| line.through.unlock(&lease, &again)).await?)?;
            if at_least.is_zero() {
                is_free(&line.direct, &job).await?;
            } else {
                let found = record(&line.direct, &job).await?;
                ensure!(
                    found.state == LockState::AtLeast,
                    "an unlock that was sent twice left {found:?} instead of at-least"
                );
            }
        }
    }
    Ok(())
}

/// If the reply to an extension is lost, the lease is already extended, and the repeated call
/// extends it again.
pub async fn an_extension_whose_answer_was_lost_is_asked_again(context: &TestContext) -> Verdict {
    lose_extensions(context, Strike::CutBeforeReply).await
}

/// If an extension never reaches the store, the lease continues unchanged, and the repeated call
/// extends it.
pub async fn an_extension_that_was_lost_on_the_way_is_asked_again(
    context: &TestContext,
) -> Verdict {
    lose_extensions(context, Strike::CutBeforeRequest).await
}

async fn lose_extensions(context: &TestContext, strike: Strike) -> Verdict {
    let line = Line::new(context).await?;
    let longer = ExtendRequest::new(2 * context.timing().long());
    for nth in 1..=Line::STATEMENTS {
        let request = context.request(&name(&format!("job-{nth}")));
        let lease = acquire(&line.through, &request).await?;
        let trap = line.trap(Call::Extend, &request, nth, strike)?;
        let answer = line.through.extend(&lease, &longer).await;
        line.proxy.heal().await?;
        if !line.has_struck(&trap, nth)? {
            let _ = extended(answer?)?;
            break;
        }
        if let Err(error) = answer {
            is_retryable("an extension", &error)?;
        } else {
            let _ = extended(answer?)?;
        }
        let lease = extended(until_answered(|| line.through.extend(&lease, &longer)).await?)?;
        still_holds(&line.direct, &lease).await?;
        unlock(&line.through, &lease).await?;
    }
    Ok(())
}

/// If the reply to a withdrawal is lost, the lock is free, and the repeated withdrawal finds
/// nothing.
pub async fn a_withdrawal_whose_answer_was_lost_is_asked_again(context: &TestContext) -> Verdict {
    let line = Line::new(context).await?;
    for nth in 1..=Line::STATEMENTS {
        let request = context.request(&name(&format!("job-{nth}")));
        abandon(&line.through, &request).await?;
        let trap = line.trap(Call::Withdraw, &request, nth, Strike::CutBeforeReply)?;
        let answer = line.through.withdraw(&request).await;
        line.proxy.heal().await?;
        let has_struck = line.has_struck(&trap, nth)?;
        if let Err(error) = answer {
            is_retryable("a withdrawal", &error)?;
            until_answered(|| line.through.withdraw(&request)).await?;
        }
        is_free(&line.direct, &request.name).await?;
        if !has_struck {
            break;
        }
    }
    Ok(())
}

/// An extension that is in flight while its lease is unlocked on another connection must not revive
/// the lease, even if at-least still keeps the record locked.
pub async fn an_extension_that_arrives_after_the_unlock_is_lost(context: &TestContext) -> Verdict {
    let line = Line::new(context).await?;
    let long = context.timing().long();
    for at_least in [Duration::ZERO, long] {
        let job = name(&format!("at-least-{}", at_least.as_secs()));
        let request = context.request(&job).with_lock_at_least_for(at_least);
        let lease = acquire(&line.through, &request).await?;
        // A wrapper may route the calls of a lease to the provider that acquired it, so the other
        // client gets its own copy of the lease.
        let same = acquire(&line.direct, &request).await?;
        let trap = line.trap(Call::Extend, &request, 1, Strike::WithholdRequest)?;
        let late = async {
            let lost = extend_is_lost(&line.through, &lease, long).await;
            let _ = line.has_struck(&trap, 1)?;
            lost
        };
        let unlocked = async {
            // Then the extension is at the proxy.
            trap.struck().await;
            unlock(&line.direct, &same).await?;
            trap.deliver().await;
            Ok(())
        };
        let both = bounded(PATIENCE, futures_util::future::try_join(late, unlocked)).await;
        both.ok_or_else(|| Stop::failed("a delayed extension never returned"))??;
        if at_least.is_zero() {
            is_free(&line.direct, &job).await?;
        } else {
            let found = record(&line.direct, &job).await?;
            ensure!(
                found.state == LockState::AtLeast,
                "an extension that arrived after the unlock left {found:?} instead of at-least"
            );
        }
    }
    Ok(())
}

/// A reply may grant a lease that has already expired: unlocking it is lost and affects no one.
pub async fn an_answer_that_comes_after_the_lease_is_of_no_use(context: &TestContext) -> Verdict {
    let line = Line::new(context).await?;
    let short = context.timing().short();
    let job = name("job");
    let request = context.request_for(&job, short);
    let late = Strike::DelayReply(context.timing().past(short));
    let trap = line.trap(Call::Attempt, &request, 1, late)?;
    let answer = line.through.attempt(&request).await;
    let _ = line.has_struck(&trap, 1)?;
    line.proxy.heal().await?;
    match answer {
        Ok(Attempt::Acquired(lease)) if lease_is_over(&line, &lease).await? => {
            crate::steps::unlock_is_lost(&line.through, &lease).await?;
        }
        // The attempt has more statements than the delayed one, and its lease began later.
        Ok(Attempt::Acquired(_)) => {}
        Ok(answer) => {
            return Err(Stop::failed(format!(
                "an attempt at a free lock whose reply came late returned {answer:?}"
            )));
        }
        Err(error) => is_retryable("a late attempt", &error)?,
    }
    let taken = context
        .take_when_free(&line.direct, &job, context.timing().long())
        .await?;
    still_holds(&line.through, &taken.lease).await
}

async fn lease_is_over(line: &Line, lease: &Lease) -> Result<bool, Stop> {
    let found = line.direct.inspect(lease.name()).await?;
    Ok(found.is_none_or(|record| record.state == LockState::Free))
}

/// After this the runtime gives up a call whose reply does not arrive.
const SILENCE: Duration = Duration::from_millis(700);

/// On a half-open connection neither a reply nor an error arrives. The call is dropped, as the
/// runtime does after its own time limit, and repeated on a new connection.
pub async fn a_connection_that_falls_silent_is_abandoned(context: &TestContext) -> Verdict {
    let line = Line::new(context).await?;
    for strike in [Strike::SwallowReply, Strike::SwallowRequest] {
        let request = context.request(&name(&format!("{strike:?}")));
        let trap = line.trap(Call::Attempt, &request, 1, strike)?;
        let silent = trap.give_up(SILENCE, line.through.attempt(&request)).await;
        let _ = line.has_struck(&trap, 1)?;
        match silent {
            None => {}
            Some(Err(error)) => is_retryable("a silent attempt", &error)?,
            Some(answer) => granted(&request, answer)?,
        }
        line.proxy.heal().await?;
        let lease = line.recovers(&line.through, &request).await?;
        still_holds(&line.direct, &lease).await?;
        unlock(&line.through, &lease).await?;
    }
    Ok(())
}

/// After a lost request or reply, the error must be retryable, and it may report "nothing was
/// written" only if nothing was written.
async fn is_reported_correctly(line: &Line, request: &AttemptRequest, error: &Error) -> Verdict {
    is_retryable("an attempt", error)?;
    if error.kind() == ErrorKind::Unavailable {
        let found = line.direct.inspect(&request.name).await?;
        let held = found.as_ref().is_some_and(|record| {
            record.state == LockState::Held
                && record.owner.as_deref() == Some(request.owner.as_str())
        });
        ensure!(
            !held,
            "the attempt failed with an error that means that nothing was written ({error}), but \
             the record is {found:?}"
        );
    }
    Ok(())
}

pub(super) fn is_retryable(what: &str, error: &Error) -> Verdict {
    ensure!(
        error.is_retryable(),
        "{what} whose connection was lost should fail with OutcomeUnknown or Unavailable, but \
         failed with {error:?}"
    );
    Ok(())
}

fn granted(request: &AttemptRequest, answer: Result<Attempt, Error>) -> Verdict {
    match answer? {
        Attempt::Acquired(lease) if lease.owner() == &request.owner => Ok(()),
        answer => Err(Stop::failed(format!(
            "no other owner asks for {}, but the attempt of {} returned {answer:?}",
            &request.name, &request.owner
        ))),
    }
}

fn unlocked(answer: Unlock) -> Verdict {
    ensure!(
        answer == Unlock::Unlocked,
        "an unlock of a running lease returned {answer:?}"
    );
    Ok(())
}

pub(super) fn extended(answer: Extension) -> Result<Lease, Stop> {
    match answer {
        Extension::Extended(lease) => Ok(lease),
        answer => Err(Stop::failed(format!(
            "an extension of a running lease returned {answer:?}"
        ))),
    }
}

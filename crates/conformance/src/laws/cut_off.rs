//! Law 6 for clients that are cut off while their request is still in transit.
//!
//! The client has no reply and knows it, so it sends again at once. Whatever the second copy returns,
//! the first one is still to come. A call of the provider is over by then: only the
//! [executor](Executor) can withdraw what the first copy takes. So these cases run the executor, and
//! deliver the first copy when nothing of the attempt is left in the process.

use std::time::Duration;

use futures_util::future::try_join_all;
use shedlock_core::{Error, Executor, LockConfig, LockName, Outcome, Slot};

use crate::case::cases;
use crate::context::name;
use crate::line::Line;
use crate::proxy::{Fault, Strike};
use crate::steps::{acquire, is_free, unlock};
use crate::verdict::ensure;
use crate::wait::{PATIENCE, bounded, sleep};
use crate::{Call, Stop, TestContext, Verdict};

use super::late::{deliver, last_slot};

cases!("law06_held_is_not_broken" [Connection, Time]:
    an_attempt_on_an_idle_connection_that_was_dropped_silently_is_answered,
    a_run_that_was_skipped_leaves_no_copy_that_takes_the_lock,
    a_run_that_has_ended_leaves_no_copy_that_takes_the_lock,
);

/// The executor's store timeout in these cases.
const TIMEOUT: Duration = Duration::from_secs(1);

/// For how long a connection is idle before it is dropped. Providers test those that were idle for half
/// a minute.
const IDLE: Duration = Duration::from_secs(31);

/// What the executor finds when it sends again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// Another owner holds the lock, and unlocks it before the first copy arrives.
    Held,
    /// The lock is free. The task runs, and another owner takes the lock and unlocks it before the
    /// first copy arrives: the record no longer shows that the first owner has ended.
    Free,
}

impl Course {
    /// Whether a run whose connection was cut may end like this.
    fn may_end<T>(self, outcome: &Result<Outcome<T>, Error>) -> bool {
        match (self, outcome) {
            (_, Err(error)) => error.is_retryable(),
            (Self::Held, Ok(outcome)) => matches!(outcome, Outcome::Skipped(_)),
            (Self::Free, Ok(_)) => true,
        }
    }
}

/// A load balancer that drops an idle connection costs no attempt its reply: the connection is tested
/// before the attempt is sent, and another one is used.
pub async fn an_attempt_on_an_idle_connection_that_was_dropped_silently_is_answered(
    context: &TestContext,
) -> Verdict {
    let line = Line::new(context).await?;
    let provider = line.warm_through(context).await?;
    sleep(IDLE).await;
    line.proxy.set(Fault::Swallow).await?;
    line.proxy.heal().await?;
    let request = context.request(&name("job"));
    let lease = acquire(&provider, &request).await?;
    unlock(&provider, &lease).await
}

/// A skip does not end the attempt while a copy of it is in transit: once everything is settled, a
/// copy that arrives takes neither the lock nor the slot.
pub async fn a_run_that_was_skipped_leaves_no_copy_that_takes_the_lock(
    context: &TestContext,
) -> Verdict {
    cut_off(context, Course::Held).await
}

/// The same after a run whose second copy was granted.
pub async fn a_run_that_has_ended_leaves_no_copy_that_takes_the_lock(
    context: &TestContext,
) -> Verdict {
    cut_off(context, Course::Free).await
}

async fn cut_off(context: &TestContext, course: Course) -> Verdict {
    let line = Line::new(context).await?;
    let slots: &[Option<Slot>] = match context.capabilities().slots {
        true => &[None, Some(line.slot)],
        false => &[None],
    };
    let runs = slots
        .iter()
        .map(|slot| each_statement(context, &line, course, *slot));
    try_join_all(runs).await.map(drop)
}

async fn each_statement(
    context: &TestContext,
    line: &Line,
    course: Course,
    slot: Option<Slot>,
) -> Verdict {
    let kind = if slot.is_some() { "slot" } else { "lock" };
    for nth in 1..=Line::STATEMENTS {
        let job = name(&format!("{kind}-{nth}"));
        if !run(context, line, course, &job, slot, nth).await? {
            break;
        }
    }
    Ok(())
}

/// Returns whether the run had an nth statement.
async fn run(
    context: &TestContext,
    line: &Line,
    course: Course,
    job: &LockName,
    slot: Option<Slot>,
    nth: usize,
) -> Result<bool, Stop> {
    let direct = &line.direct;
    let other = acquire(direct, &context.request(job)).await?;
    if course == Course::Free {
        unlock(direct, &other).await?;
    }
    let executor = Executor::new(line.warm_through(context).await?).store_timeout(TIMEOUT);
    let mut config = LockConfig::new(job.as_str()).lock_at_most_for(context.timing().long());
    if let Some(slot) = slot {
        config = config.slot(slot);
    }
    let any = context.request(job);
    let trap = line.trap(Call::Attempt, &any, nth, Strike::CutAndWithholdRequest)?;
    let outcome = bounded(PATIENCE, executor.execute(&config, async {})).await;
    ensure!(
        outcome.as_ref().is_some_and(|it| course.may_end(it)),
        "the connection of a run for {job} was cut at its request {nth}: {outcome:?}"
    );
    if !line.has_struck(&trap, nth)? {
        return Ok(false);
    }
    match course {
        Course::Held => unlock(direct, &other).await?,
        Course::Free => {
            let another = acquire(direct, &context.request(job)).await?;
            unlock(direct, &another).await?;
        }
    }
    let settled = bounded(PATIENCE, executor.settled()).await;
    ensure!(
        settled.is_some(),
        "the executor has not settled within {PATIENCE:?}"
    );
    let before = last_slot(direct, job).await?;
    let delivered = deliver(&trap).await;
    is_free(direct, job).await.map_err(|stop| match stop {
        Stop::Failed(found) => Stop::failed(format!(
            "the connection of a run was cut at its request {nth}; the run ended with {outcome:?}, \
             and the executor had settled, when that request arrived: {found}"
        )),
        stop => stop,
    })?;
    let after = last_slot(direct, job).await?;
    ensure!(
        before == after,
        "the last slot of {job} was {before:?}; a request that arrived after its run had ended \
         changed it to {after:?}"
    );
    delivered.map(|()| true)
}

//! Clients whose clocks are wrong. If the store's clock judges leases, they change nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{
    BoxFuture, Clock, ClockSource, ErrorKind, Moment, ResumeRequest, Resumed, SkipReason, Slot,
    SystemClock, admin,
};

use super::pauses::{paused, request, resume};
use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, attempt_error_as, not_earlier, record, skipped_as, still_holds, take, unlock,
    unlock_is_lost,
};
use crate::verdict::ensure;
use crate::wait::now;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("clocks" [Time]:
    a_client_ahead_does_not_break_a_lease [Smoke],
    a_client_behind_does_not_hold_on,
    leases_of_wrong_clients_end_in_time,
    slots_are_judged_by_the_stores_clock [Slots],
    a_client_behind_skips_what_a_pause_has_skipped [Slots, Operators],
    a_pause_keeps_the_at_least_of_a_client_ahead_no_longer [Operators],
    tokens_of_wrong_clients_grow [Fencing],
    clients_that_differ_by_what_is_tolerated_take_over_no_earlier,
);

const HOUR: Duration = Duration::from_secs(3_600);

/// A client an hour ahead does not take over a five-minute lease, which seems to have expired by
/// its clock.
pub async fn a_client_ahead_does_not_break_a_lease(context: &TestContext) -> Verdict {
    let wrong = Wrong::new(context).await?;
    let right = context.provider().await?;
    let job = name("job");
    let lease = acquire(&right, &context.request(&job)).await?;
    skipped_as(&wrong.ahead, &context.request(&job), SkipReason::Held).await?;
    still_holds(&right, &lease).await?;
    still_holds(&wrong.ahead, &lease).await?;
    unlock(&right, &lease).await
}

/// A client an hour behind loses its lease at expiry, although the lease seems to run by its clock.
pub async fn a_client_behind_does_not_hold_on(context: &TestContext) -> Verdict {
    let wrong = Wrong::new(context).await?;
    let right = context.provider().await?;
    let job = name("job");
    let short = context.timing().short();
    let stale = acquire(&wrong.behind, &context.request_for(&job, short)).await?;
    context.pass(context.timing().past(short)).await;
    unlock_is_lost(&wrong.behind, &stale).await?;
    let lease = acquire(&right, &context.request(&job)).await?;
    unlock_is_lost(&wrong.behind, &stale).await?;
    still_holds(&wrong.behind, &lease).await?;
    unlock(&right, &lease).await
}

/// A lease ends lock-at-most-for after acquisition, whatever the clocks of its holder and of the
/// next owner show.
pub async fn leases_of_wrong_clients_end_in_time(context: &TestContext) -> Verdict {
    let wrong = Wrong::new(context).await?;
    let short = context.timing().short();
    let spec = [(&wrong.ahead, &wrong.behind), (&wrong.behind, &wrong.ahead)];
    for (i, (holder, next)) in spec.into_iter().enumerate() {
        let job = name(&format!("job-{i}"));
        let first = take(holder, &context.request_for(&job, short)).await?;
        let taken = context
            .take_when_free(next, &job, context.timing().long())
            .await?;
        not_earlier(&first, short, &taken)?;
        let took = now().saturating_since(first.answered);
        ensure!(
            took < short + context.timing().lateness(),
            "a lease of {short:?} by a client with a wrong clock came free only after {took:?}"
        );
    }
    Ok(())
}

/// A client an hour ahead computes slots that lie in the future and is refused; a client an hour
/// behind is not affected.
pub async fn slots_are_judged_by_the_stores_clock(context: &TestContext) -> Verdict {
    context.needs_slots()?;
    if context.capabilities().slot_clock != ClockSource::Store {
        return Err(Stop::not_applicable(
            "the provider declares that the clients' clocks judge slots",
        ));
    }
    let wrong = Wrong::new(context).await?;
    let right = context.provider().await?;
    let job = name("job");
    let now = context.store_now(&right).await?;
    let ahead = context.request(&job).with_slot(Slot::at(now + HOUR)?);
    attempt_error_as(&wrong.ahead, &ahead, &[ErrorKind::SlotAhead]).await?;
    let current = context.request(&job).with_slot(Slot::at(now)?);
    abandon(&wrong.behind, &current).await
}

/// A pause has ended, but not yet by the clock of another client. That does not make its end one that something else has
/// caused: the slots stay skipped, for that client and for the next pause.
pub async fn a_client_behind_skips_what_a_pause_has_skipped(context: &TestContext) -> Verdict {
    context.needs_slots()?;
    context.needs_slot_completion()?;
    let behind = match context.capabilities().slot_clock {
        ClockSource::Clients { tolerated_skew } => tolerated_skew * 9 / 10,
        _ => HOUR,
    };
    let behind = Skewed {
        ahead: Duration::ZERO,
        behind,
    };
    let behind = context.provider_with_clock(Arc::new(behind)).await?;
    let right = context.provider().await?;
    let job = name("job");
    let skipped = async || {
        let found = record(&right, &job).await?;
        let skipped = found.skipped_slots;
        skipped.ok_or_else(|| Stop::failed(format!("a pause should skip slots: {found:?}")))
    };
    paused(&right, &request("job")).await?;
    let tick = context.capabilities().granularity + Duration::from_millis(20);
    context.pass(tick).await;
    resume(&right, "job").await?;
    let first = skipped().await?;
    for provider in [&behind, &right] {
        let last = context.request(&job).with_slot(first.until);
        skipped_as(provider, &last, SkipReason::SlotTaken).await?;
    }
    let again = admin::resume(&*behind, &ResumeRequest::new(job.clone())).await?;
    ensure!(
        matches!(again, Resumed::NotPaused(_)) && skipped().await? == first,
        "the pause was resumed before, but the answer was {again:?}"
    );
    paused(&behind, &request("job")).await?;
    let joined = skipped().await?;
    ensure!(
        joined.from <= first.from,
        "the job has not run since the pause of {first:?}, but only {joined:?} is skipped"
    );
    resume(&right, "job").await
}

/// A pause never ends before the at-least that it replaces, whose end is not the one that its holder's clock shows.
pub async fn a_pause_keeps_the_at_least_of_a_client_ahead_no_longer(
    context: &TestContext,
) -> Verdict {
    let wrong = Wrong::new(context).await?;
    let right = context.provider().await?;
    let job = name("job");
    let at_least = context.timing().medium();
    let kept = context.request(&job).with_lock_at_least_for(at_least);
    let lease = acquire(&wrong.ahead, &kept).await?;
    unlock(&wrong.ahead, &lease).await?;
    let short = request("job").lasting(context.timing().short());
    paused(&right, &short).await?;
    let found = record(&right, &job).await?;
    let latest = context.store_now(&right).await?
        + at_least
        + context.capabilities().granularity
        + context.timing().lateness();
    ensure!(
        found.locked_until.is_none_or(|until| until <= latest),
        "a client that is ahead kept the lock for {at_least:?}, but its pause lasts longer: {found:?}"
    );
    Ok(())
}

/// Tokens grow also from a client that is ahead to one that is behind.
pub async fn tokens_of_wrong_clients_grow(context: &TestContext) -> Verdict {
    context.needs_fencing()?;
    let wrong = Wrong::new(context).await?;
    let right = context.provider().await?;
    let job = name("job");
    let mut last = 0;
    for provider in [
        &wrong.ahead,
        &wrong.behind,
        &right,
        &wrong.ahead,
        &wrong.behind,
    ] {
        let lease = acquire(provider, &context.request(&job)).await?;
        let token = lease.fencing_token().unwrap_or_default();
        ensure!(
            token > last,
            "the fencing token {token} is not larger than the previous one, {last}"
        );
        last = token;
        unlock(provider, &lease).await?;
    }
    Ok(())
}

/// If the clients' clocks judge leases, a client that is ahead sees a lease end early, but by no
/// more than its clock is ahead. The runtime has to subtract this much from a lease.
pub async fn clients_that_differ_by_what_is_tolerated_take_over_no_earlier(
    context: &TestContext,
) -> Verdict {
    let ClockSource::Clients { tolerated_skew } = context.capabilities().clock else {
        return Err(Stop::not_applicable(
            "the provider declares that the store's clock judges leases",
        ));
    };
    let fast = Skewed {
        ahead: tolerated_skew,
        behind: Duration::ZERO,
    };
    let fast = context.provider_with_clock(Arc::new(fast)).await?;
    let right = context.provider().await?;
    let at_most = tolerated_skew + context.timing().medium();
    let job = name("job");
    let first = take(&right, &context.request_for(&job, at_most)).await?;
    let next = context
        .take_when_free(&fast, &job, context.timing().long())
        .await?;
    let kept = next.answered.saturating_since(first.asked) + Duration::from_millis(2);
    ensure!(
        kept >= at_most - tolerated_skew,
        "a client whose clock is {tolerated_skew:?} ahead took over a lease of {at_most:?} after \
         only {kept:?}"
    );
    unlock_is_lost(&right, &first.lease).await?;
    still_holds(&fast, &next.lease).await
}

struct Wrong {
    ahead: Provider,
    behind: Provider,
}

impl Wrong {
    async fn new(context: &TestContext) -> Result<Self, Stop> {
        if context.capabilities().clock != ClockSource::Store {
            return Err(Stop::not_applicable(
                "the provider declares that the clients' clocks judge leases",
            ));
        }
        let ahead = Skewed {
            ahead: HOUR,
            behind: Duration::ZERO,
        };
        let behind = Skewed {
            ahead: Duration::ZERO,
            behind: HOUR,
        };
        Ok(Self {
            ahead: context.provider_with_clock(Arc::new(ahead)).await?,
            behind: context.provider_with_clock(Arc::new(behind)).await?,
        })
    }
}

/// The machine's clock with its calendar time shifted.
#[derive(Debug)]
struct Skewed {
    ahead: Duration,
    behind: Duration,
}

impl Clock for Skewed {
    fn now(&self) -> Moment {
        SystemClock.now()
    }

    fn system_time(&self) -> SystemTime {
        SystemClock.system_time() + self.ahead - self.behind
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        SystemClock.sleep_until(moment)
    }
}

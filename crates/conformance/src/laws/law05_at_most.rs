//! Law 5: after a crash the lock becomes free at expiry, not earlier and not much later.

use std::time::{Duration, SystemTime};

use shedlock_core::{ErrorKind, ExtendRequest, Extension, LockState, SkipReason};

use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, attempt_error_as, extend, extend_in_time, is_free, none_in_time, not_earlier,
    not_later, record, skipped, skipped_as, still_holds, take, try_take, unlock,
};
use crate::verdict::ensure;
use crate::{Stop, TestContext, Verdict};

cases!("law05_at_most" [Time]:
    an_abandoned_lock_comes_free_at_its_end [Smoke],
    an_extended_lock_comes_free_at_its_new_end,
    an_extension_never_shortens_the_lease,
    the_record_says_until_when [Smoke, Record],
    the_record_of_an_expired_lease_says_free [Record],
    the_shortest_lease_ends,
    the_longest_declared_lease_is_held,
    what_is_longer_than_declared_is_refused_or_held,
    zero_is_refused,
    at_least_over_at_most_is_refused,
    an_extension_by_zero_is_refused,
    an_extension_past_what_is_declared_is_refused_or_held,
);

/// If the holder crashes and never unlocks, the lock becomes free at the end of the lease.
pub async fn an_abandoned_lock_comes_free_at_its_end(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let mut at_most = context.timing().short();
    for _ in 0..2 {
        let taken = take(&first, &context.request_for(&job, at_most)).await?;
        let next = context
            .take_when_free(&second, &job, context.timing().long())
            .await?;
        not_earlier(&taken, at_most, &next)?;
        not_later(&taken, at_most, context.timing().lateness(), &next)?;
        unlock(&second, &next.lease).await?;
        at_most = context.timing().medium();
    }
    Ok(())
}

/// An extended lock becomes free at its new end, which counts from the extension.
pub async fn an_extended_lock_comes_free_at_its_new_end(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let (short, medium) = (context.timing().short(), context.timing().medium());
    let longer = ExtendRequest::new(medium);
    for i in 0..5 {
        let job = name(&format!("job-{i}"));
        let taken = take(&first, &context.request_for(&job, medium)).await?;
        context.pass(short).await;
        let extended = extend_in_time(&first, &taken, medium, &longer).await?;
        if extended.is_none() {
            continue;
        }
        let next = context
            .take_when_free(&second, &job, context.timing().long())
            .await?;
        not_earlier(&taken, short + medium, &next)?;
        let lateness = context.timing().lateness();
        return not_later(&taken, short + medium, lateness, &next);
    }
    Err(none_in_time(medium))
}

/// If an extension requests an earlier end than the lease has, the store keeps the later end and
/// returns it: an extension that arrives late must not shorten a later one.
pub async fn an_extension_never_shortens_the_lease(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let short = context.timing().short();
    let lease = acquire(&first, &context.request(&job)).await?;
    let coarse = context.capabilities().granularity;
    let before = record(&first, &job).await?.locked_until;
    let extended = extend(&first, &lease, &ExtendRequest::new(short)).await?;
    let after = record(&first, &job).await?.locked_until;
    let is_earlier = |end: Option<SystemTime>| end.map(|end| end + coarse) < before;
    ensure!(
        !is_earlier(after),
        "an extension by {short:?} moved the end of a longer lease from {before:?} to {after:?}"
    );
    ensure!(
        extended.locked_until().is_none() || !is_earlier(extended.locked_until()),
        "an extension by {short:?} of a lease until {before:?} returned {extended:?}"
    );
    context.pass(context.timing().past(short)).await;
    still_holds(&second, &extended).await?;
    unlock(&first, &extended).await
}

/// The record shows the end of the lease: at-most after the acquisition by the store's clock,
/// within the granularity.
pub async fn the_record_says_until_when(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let long = context.timing().long();
    let taken = take(&provider, &context.request(&job)).await?;
    let found = record(&provider, &job).await?;
    let from = taken.lease.acquired_at().or(found.locked_at);
    let (Some(from), Some(until)) = (from, found.locked_until) else {
        return Err(Stop::not_applicable(
            "the store does not return when a lease began and when it ends",
        ));
    };
    let lasts = until.duration_since(from).unwrap_or_default();
    let tolerance = context.capabilities().granularity + Duration::from_millis(1);
    ensure!(
        lasts >= long && lasts <= long + tolerance,
        "a lease of {long:?} lasts {lasts:?} by its record"
    );
    Ok(())
}

/// The record of an expired lease shows the lock as free.
pub async fn the_record_of_an_expired_lease_says_free(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let short = context.timing().short();
    abandon(&provider, &context.request_for(&job, short)).await?;
    context.pass(context.timing().past(short)).await;
    is_free(&provider, &job).await
}

/// A lease of a millisecond, a microsecond or a nanosecond is refused or expires soon. It never
/// lasts forever, and it has never expired before it begins.
pub async fn the_shortest_lease_ends(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let units = [
        ("ms", Duration::from_millis(1)),
        ("us", Duration::from_micros(1)),
        ("ns", Duration::from_nanos(1)),
    ];
    for (unit, at_most) in units {
        let job = name(unit);
        let request = context.request_for(&job, at_most);
        let first = match provider.attempt(&request).await {
            Err(error) => {
                ensure!(
                    error.kind() == ErrorKind::InvalidInput,
                    "an at-most of {at_most:?} that cannot be expressed should be refused as \
                     invalid input, but returned {error:?}"
                );
                continue;
            }
            Ok(_) => take_again(context, &provider, &job).await?,
        };
        unlock(&provider, &first.lease).await?;
    }
    Ok(())
}

async fn take_again(
    context: &TestContext,
    provider: &crate::Provider,
    job: &shedlock_core::LockName,
) -> Result<crate::steps::Taken, Stop> {
    context
        .pass(context.timing().past(Duration::from_millis(1)))
        .await;
    take(provider, &context.request(job)).await
}

/// The longest lease that the provider declares is held; at most a hundred years are tried.
pub async fn the_longest_declared_lease_is_held(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let century = Duration::from_secs(100 * 365 * 86_400);
    let longest = context.capabilities().longest_lock_at_most_for.min(century);
    let lease = acquire(&first, &context.request_for(&job, longest)).await?;
    skipped_as(&second, &context.request(&job), SkipReason::Held).await?;
    let found = record(&second, &job).await?;
    ensure!(
        found.state == LockState::Held,
        "a lease of {longest:?} should run, but its record shows {found:?}"
    );
    unlock(&first, &lease).await?;
    is_free(&second, &job).await
}

/// A longer lease than declared is refused or held; it is never rounded to "forever" or to "already
/// expired".
pub async fn what_is_longer_than_declared_is_refused_or_held(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let longest = context.capabilities().longest_lock_at_most_for;
    let lengths = [
        longest.saturating_add(Duration::from_secs(1)),
        longest.saturating_mul(2),
        Duration::from_secs(u64::from(u32::MAX) * 1_000),
        Duration::from_secs(i64::MAX.unsigned_abs()),
        Duration::MAX,
    ];
    for (i, at_most) in lengths.into_iter().enumerate() {
        let job = name(&format!("job-{i}"));
        let request = context.request_for(&job, at_most);
        match try_take_or_error(&first, &request).await? {
            Err(error) => {
                ensure!(
                    error.kind() == ErrorKind::InvalidInput,
                    "an at-most of {at_most:?} should be held or refused as invalid input, but \
                     returned {error:?}"
                );
                is_free(&second, &job).await?;
            }
            Ok(lease) => {
                ensure!(
                    at_most <= longest,
                    "an at-most of {at_most:?} was granted, but only {longest:?} is declared"
                );
                skipped(&second, &context.request(&job)).await?;
                unlock(&first, &lease).await?;
            }
        }
    }
    Ok(())
}

async fn try_take_or_error(
    provider: &crate::Provider,
    request: &shedlock_core::AttemptRequest,
) -> Result<Result<shedlock_core::Lease, shedlock_core::Error>, Stop> {
    match provider.attempt(request).await {
        Err(error) => Ok(Err(error)),
        // The same attempt, repeated, gets the same lease.
        Ok(_) => match try_take(provider, request).await? {
            Ok(taken) => Ok(Ok(taken.lease)),
            Err(skip) => Err(Stop::failed(format!(
                "a lease of {:?} was granted, but ended at once: {skip}",
                request.lock_at_most_for
            ))),
        },
    }
}

/// An at-most of zero is refused: the lock would be free again immediately.
pub async fn zero_is_refused(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let request = context.request_for(&job, Duration::ZERO);
    attempt_error_as(&provider, &request, &[ErrorKind::InvalidInput]).await?;
    is_free(&provider, &job).await
}

/// An at-least above at-most is refused before anything is written.
pub async fn at_least_over_at_most_is_refused(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let long = context.timing().long();
    let request = context
        .request_for(&job, long)
        .with_lock_at_least_for(2 * long);
    attempt_error_as(&provider, &request, &[ErrorKind::InvalidInput]).await?;
    is_free(&provider, &job).await
}

/// An extension by zero is refused, and the lease continues unchanged.
pub async fn an_extension_by_zero_is_refused(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let lease = acquire(&provider, &context.request(&job)).await?;
    let nothing = ExtendRequest::new(Duration::ZERO);
    let error = provider.extend(&lease, &nothing).await.err();
    ensure!(
        error.as_ref().map(shedlock_core::Error::kind) == Some(ErrorKind::InvalidInput),
        "an extension by zero should be refused as invalid input, but returned {error:?}"
    );
    still_holds(&provider, &lease).await
}

/// An extension past the declared maximum is refused or held: never rounded, and never shorter than
/// requested.
pub async fn an_extension_past_what_is_declared_is_refused_or_held(
    context: &TestContext,
) -> Verdict {
    let (first, second) = context.two().await?;
    let longest = context.capabilities().longest_lock_at_most_for;
    let lengths = [
        longest.saturating_add(Duration::from_secs(1)),
        Duration::from_secs(i64::MAX.unsigned_abs()),
        Duration::MAX,
    ];
    for (i, at_most) in lengths.into_iter().enumerate() {
        let job = name(&format!("job-{i}"));
        let mut lease = acquire(&first, &context.request(&job)).await?;
        match first.extend(&lease, &ExtendRequest::new(at_most)).await {
            Err(error) => ensure!(
                error.kind() == ErrorKind::InvalidInput,
                "an extension by {at_most:?} should be held or refused as invalid input, but \
                 returned {error:?}"
            ),
            Ok(Extension::Extended(extended)) => {
                ensure!(
                    at_most <= longest,
                    "an extension by {at_most:?} was granted, but only {longest:?} is declared"
                );
                lease = extended;
            }
            Ok(answer) => {
                return Err(Stop::failed(format!(
                    "an extension of a running lease returned {answer:?}"
                )));
            }
        }
        still_holds(&second, &lease).await?;
        unlock(&first, &lease).await?;
    }
    Ok(())
}

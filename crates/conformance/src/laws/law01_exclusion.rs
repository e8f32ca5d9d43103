//! Law 1: leases of one name never overlap.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shedlock_core::{Attempt, AttemptRequest, ExtendRequest, Owner, SkipReason};
use tokio::task::JoinSet;

use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, attempt_of_many, extend, extend_in_time, is_free, none_in_time, skipped,
    skipped_as, still_holds, take, try_take, unlock, unlock_contended,
};
use crate::verdict::ensure;
use crate::wait::{PATIENCE, now, sleep};
use crate::{Provider, Stop, TestContext, Verdict};

cases!("law01_exclusion" [Exclusion]:
    lock_and_unlock_show_in_the_record [Smoke, Record],
    a_second_attempt_is_skipped [Smoke],
    a_set_of_attempts_is_answered_in_its_order,
    two_names_are_two_locks,
    lock_unlock_lock,
    ten_rounds_without_a_pause,
    sixty_four_contenders_have_one_winner [Smoke],
    sixty_four_contenders_at_an_expired_lock_have_one_winner [Time],
    sixty_four_names_at_once_have_a_winner_each [Names],
    workers_that_count_under_two_locks_lose_no_update,
    an_extended_lease_still_excludes [Time],
);

/// The record shows the lease as the holder after the acquisition, and the lock as free after the
/// unlock.
pub async fn lock_and_unlock_show_in_the_record(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let lease = acquire(&provider, &context.request(&job)).await?;
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await?;
    is_free(&provider, &job).await
}

/// A second attempt is skipped, by the same provider and by another one.
pub async fn a_second_attempt_is_skipped(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let lease = acquire(&first, &context.request(&job)).await?;
    skipped_as(&first, &context.request(&job), SkipReason::Held).await?;
    skipped_as(&second, &context.request(&job), SkipReason::Held).await?;
    still_holds(&second, &lease).await?;
    unlock(&first, &lease).await
}

/// Each attempt of a set is answered as it would be alone, in the order of the requests: the second
/// one at a name finds the first one's lease, and one that is refused keeps none of the others back.
pub async fn a_set_of_attempts_is_answered_in_its_order(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let held = acquire(&provider, &context.request(&name("held"))).await?;
    let free = name("free");
    let refused = AttemptRequest::new(name("refused"), Owner::generate(), Duration::ZERO);
    let requests = [
        context.request(held.name()),
        refused,
        context.request(&free),
        context.request(&free),
    ];
    let results = provider.attempt_set(&requests).await;
    let [first, second, third, fourth] = &results[..] else {
        return Err(Stop::failed(format!(
            "4 attempts had the results {results:?}"
        )));
    };
    let is_held = |answer: &Result<Attempt, _>| matches!(answer, Ok(Attempt::Skipped(skip)) if skip.reason == SkipReason::Held);
    ensure!(
        is_held(first) && second.is_err() && is_held(fourth),
        "the results are not those of the requests: {results:?}"
    );
    let Ok(Attempt::Acquired(won)) = third else {
        return Err(Stop::failed(format!(
            "a free lock was not granted: {third:?}"
        )));
    };
    ensure!(
        won.owner() == &requests[2].owner,
        "the lease belongs to another request"
    );
    still_holds(&provider, won).await?;
    unlock(&provider, won).await?;
    unlock(&provider, &held).await
}

/// Locks with different names do not block each other, and unlocking one leaves the other held.
pub async fn two_names_are_two_locks(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let first = acquire(&provider, &context.request(&name("first"))).await?;
    let second = acquire(&provider, &context.request(&name("second"))).await?;
    unlock(&provider, &first).await?;
    is_free(&provider, first.name()).await?;
    still_holds(&provider, &second).await?;
    unlock(&provider, &second).await
}

/// An unlocked lock can be acquired again immediately, also by another provider.
pub async fn lock_unlock_lock(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    for provider in [&first, &first, &second, &first] {
        let lease = acquire(provider, &context.request(&job)).await?;
        unlock(provider, &lease).await?;
    }
    Ok(())
}

/// A lock, a skipped second attempt and an unlock work ten times in a row.
pub async fn ten_rounds_without_a_pause(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    for _ in 0..10 {
        let lease = acquire(&first, &context.request(&job)).await?;
        skipped(&second, &context.request(&job)).await?;
        unlock(&first, &lease).await?;
    }
    Ok(())
}

/// Sixty-four contenders have one winner in each of several rounds; the first round also races to
/// create the record.
pub async fn sixty_four_contenders_have_one_winner(context: &TestContext) -> Verdict {
    let providers = context.providers(4).await?;
    let job = name("job");
    for round in 0..5 {
        let mut winners = contend(&providers, |_| context.request(&job)).await?;
        ensure!(
            winners.len() == 1,
            "round {round}: 64 contenders, {} winners: {winners:?}",
            winners.len()
        );
        let (provider, lease) = winners.remove(0);
        still_holds(&provider, &lease).await?;
        unlock(&provider, &lease).await?;
    }
    Ok(())
}

/// The take-over of a lock that expired without an unlock has one winner too.
pub async fn sixty_four_contenders_at_an_expired_lock_have_one_winner(
    context: &TestContext,
) -> Verdict {
    let providers = context.providers(4).await?;
    let job = name("job");
    let short = context.timing().short();
    for round in 0..3 {
        abandon(&providers[0], &context.request_for(&job, short)).await?;
        context.pass(context.timing().past(short)).await;
        let mut winners = contend(&providers, |_| context.request(&job)).await?;
        ensure!(
            winners.len() == 1,
            "round {round}: 64 contenders at an expired lock, {} winners: {winners:?}",
            winners.len()
        );
        let (provider, lease) = winners.remove(0);
        unlock(&provider, &lease).await?;
    }
    Ok(())
}

/// Contenders for different names do not block each other.
pub async fn sixty_four_names_at_once_have_a_winner_each(context: &TestContext) -> Verdict {
    let providers = context.providers(4).await?;
    let winners = contend(&providers, |i| context.request(&name(&format!("job-{i}")))).await?;
    ensure!(
        winners.len() == 64,
        "64 names for 64 contenders, but {} winners",
        winners.len()
    );
    Ok(())
}

/// Makes sixty-four concurrent attempts; returns the winners.
async fn contend(
    providers: &[Provider],
    request: impl Fn(usize) -> AttemptRequest,
) -> Result<Vec<(Provider, shedlock_core::Lease)>, Stop> {
    let mut contenders = JoinSet::new();
    for i in 0..64 {
        let provider = Arc::clone(&providers[i % providers.len()]);
        let request = request(i);
        contenders.spawn(async move {
            let answer = attempt_of_many(&provider, &request).await;
            (provider, answer)
        });
    }
    let mut winners = Vec::new();
    while let Some(joined) = contenders.join_next().await {
        let (provider, answer) = joined?;
        match answer? {
            Attempt::Acquired(lease) => winners.push((provider, lease)),
            Attempt::Skipped(_) => {}
            other => return Err(Stop::failed(format!("unknown answer {other:?}"))),
        }
    }
    Ok(winners)
}

/// Eight workers use two locks. Under each lock they read a counter, wait a moment, and write it
/// back. Broken exclusion shows up as lost updates.
pub async fn workers_that_count_under_two_locks_lose_no_update(context: &TestContext) -> Verdict {
    const ROUNDS: u64 = 15;
    let counters: [Arc<AtomicU64>; 2] = Default::default();
    let providers = context.providers(4).await?;
    let mut workers = JoinSet::new();
    for i in 0..8 {
        let counter = Arc::clone(&counters[i % 2]);
        let provider = Arc::clone(&providers[i / 2]);
        let job = name(["even", "odd"][i % 2]);
        let context = context.clone();
        // One worker stops early, to show that the others continue without it.
        let rounds = if i == 0 { 3 } else { ROUNDS };
        workers.spawn(async move {
            let started = now();
            let mut done = 0;
            while done < rounds {
                ensure!(
                    now().saturating_since(started) < 2 * PATIENCE,
                    "worker {i} had only {done} of {rounds} turns: it starves"
                );
                // If at-least is rounded up to seconds, all workers would wait for it all the time.
                let is_quick = context.capabilities().granularity < Duration::from_secs(1);
                let kept = if is_quick || done == 0 { 5 } else { 0 };
                let request = context
                    .request(&job)
                    .with_lock_at_least_for(Duration::from_millis(kept));
                let Ok(taken) = try_take(&provider, &request).await? else {
                    context.pass(Duration::from_millis(2)).await;
                    continue;
                };
                let seen = counter.load(Ordering::SeqCst);
                sleep(Duration::from_millis(1)).await;
                counter.store(seen + 1, Ordering::SeqCst);
                unlock_contended(&provider, &taken.lease).await?;
                done += 1;
            }
            Ok(())
        });
    }
    while let Some(joined) = workers.join_next().await {
        joined??;
    }
    let [even, odd] = counters.map(|counter| counter.load(Ordering::SeqCst));
    ensure!(
        even == 3 * ROUNDS + 3 && odd == 4 * ROUNDS,
        "updates were lost under the locks: {even} and {odd} of {} and {}",
        3 * ROUNDS + 3,
        4 * ROUNDS
    );
    Ok(())
}

/// An extended lease still excludes others after the end that it had before the extension.
pub async fn an_extended_lease_still_excludes(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let medium = context.timing().medium();
    let long = ExtendRequest::new(context.timing().long());
    for i in 0..5 {
        let job = name(&format!("job-{i}"));
        let taken = take(&first, &context.request_for(&job, medium)).await?;
        let Some(mut lease) = extend_in_time(&first, &taken, medium, &long).await? else {
            continue;
        };
        for _ in 0..2 {
            lease = extend(&first, &lease, &long).await?;
        }
        context.pass(context.timing().past(medium)).await;
        skipped_as(&second, &context.request(&job), SkipReason::Held).await?;
        still_holds(&second, &lease).await?;
        unlock(&first, &lease).await?;
        return is_free(&second, &job).await;
    }
    Err(none_in_time(medium))
}

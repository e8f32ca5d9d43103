//! Law 13: how many requests a call costs.
//!
//! The cases count packets on the wire, from the client, that contain the lock's name or owner. A
//! pool's ping, a handshake and the preparation of a statement do not count: each call is made once
//! before it is measured. The names contain no characters that a store might have to escape.
//!
//! Round trips are counted in addition, whatever they contain: a transaction around a statement
//! names no lock, but the call still waits for it.

use std::time::Duration;

use shedlock_core::{Attempt, AttemptRequest, ExtendRequest, Lease, Owner, UnlockRequest};
use tokio::task::JoinSet;

use crate::case::cases;
use crate::context::name;
use crate::line::Line;
use crate::proxy::Fault;
use crate::steps::{acquire, extend, skipped, unlock};
use crate::verdict::ensure;
use crate::{Call, RoundTrips, Stop, TestContext, Verdict};

cases!("law13_cost" [Cost]:
    a_won_attempt_costs_what_is_declared [Smoke],
    a_first_attempt_costs_what_is_declared,
    a_lost_attempt_costs_what_is_declared,
    an_extension_costs_what_is_declared,
    an_unlock_costs_what_is_declared,
    calls_take_the_declared_round_trips,
    a_contended_attempt_costs_what_is_declared,
);

/// A won attempt on an existing record sends as many requests as declared.
pub async fn a_won_attempt_costs_what_is_declared(context: &TestContext) -> Verdict {
    let line = warm(context).await?;
    let job = name("cost-of-a-won-attempt");
    for _ in 0..2 {
        let lease = acquire(&line.through, &context.request(&job)).await?;
        unlock(&line.through, &lease).await?;
    }
    let request = context.request(&job);
    let counter = line.count(Call::Attempt, &request)?;
    let _ = acquire(&line.through, &request).await?;
    costs(
        "a won attempt",
        counter.seen(),
        context.harness().cost().won,
    )
}

/// A won attempt without an existing record sends as many requests as declared.
pub async fn a_first_attempt_costs_what_is_declared(context: &TestContext) -> Verdict {
    let line = warm(context).await?;
    let request = context.request(&name("cost-of-a-first-attempt"));
    let counter = line.count(Call::Attempt, &request)?;
    let _ = acquire(&line.through, &request).await?;
    costs(
        "a first attempt",
        counter.seen(),
        context.harness().cost().first,
    )
}

/// An attempt on a lock that another owner holds sends as many requests as declared.
pub async fn a_lost_attempt_costs_what_is_declared(context: &TestContext) -> Verdict {
    let line = warm(context).await?;
    let job = name("cost-of-a-lost-attempt");
    let _ = acquire(&line.direct, &context.request(&job)).await?;
    skipped(&line.through, &context.request(&job)).await?;
    let request = context.request(&job);
    let counter = line.count(Call::Attempt, &request)?;
    skipped(&line.through, &request).await?;
    costs(
        "a lost attempt",
        counter.seen(),
        context.harness().cost().lost,
    )
}

/// An extension of a running lease sends as many requests as declared.
pub async fn an_extension_costs_what_is_declared(context: &TestContext) -> Verdict {
    let line = warm(context).await?;
    let (request, lease) = held(context, &line, "cost-of-an-extension").await?;
    let longer = ExtendRequest::new(context.timing().long());
    let lease = extend(&line.through, &lease, &longer).await?;
    let counter = line.count(Call::Extend, &request)?;
    let _ = extend(&line.through, &lease, &longer).await?;
    costs(
        "an extension",
        counter.seen(),
        context.harness().cost().extend,
    )
}

/// An unlock of a running lease sends as many requests as declared.
pub async fn an_unlock_costs_what_is_declared(context: &TestContext) -> Verdict {
    let line = warm(context).await?;
    let (request, lease) = held(context, &line, "cost-of-an-unlock").await?;
    let counter = line.count(Call::Unlock, &request)?;
    unlock(&line.through, &lease).await?;
    costs("an unlock", counter.seen(), context.harness().cost().unlock)
}

/// Each call takes exactly the declared number of round trips, on a warm and otherwise idle
/// connection.
pub async fn calls_take_the_declared_round_trips(context: &TestContext) -> Verdict {
    let Some(declared) = context.harness().round_trips() else {
        return Err(Stop::not_applicable(
            "the harness does not state how many round trips a call takes (Harness::round_trips)",
        ));
    };
    let line = warm(context).await?;
    // Long enough for requests that are sent together to be in flight together.
    let to_client = Duration::from_millis(15);
    let delay = Fault::Delay {
        to_store: Duration::ZERO,
        to_client,
    };
    line.proxy.set(delay).await?;
    let mut seen = round_trips(context, &line, "round-trips-0").await?;
    for again in ["round-trips-1", "round-trips-2"] {
        // The client may have done work on its connections in between.
        if seen != declared {
            seen = round_trips(context, &line, again).await?;
        }
    }
    ensure!(
        seen == declared,
        "the calls should take the round trips {declared:?}, but took {seen:?}"
    );
    Ok(())
}

/// However many others take the lock between its steps, an attempt sends no more requests than
/// declared.
pub async fn a_contended_attempt_costs_what_is_declared(context: &TestContext) -> Verdict {
    const CONTENDERS: usize = 4;
    const ATTEMPTS: usize = 40;
    let line = warm(context).await?;
    let job = name("cost-of-a-contended-attempt");
    let mut contenders = JoinSet::new();
    for _ in 0..CONTENDERS {
        let (provider, at_most) = (context.provider().await?, context.timing().long());
        let job = job.clone();
        contenders.spawn(async move {
            loop {
                let request = AttemptRequest::new(job.clone(), Owner::generate(), at_most);
                if let Ok(Attempt::Acquired(lease)) = provider.attempt(&request).await {
                    let _ = provider.unlock(&lease, &UnlockRequest::new()).await;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    let declared = line.through.capabilities().most_requests;
    for _ in 0..ATTEMPTS {
        let request = context.request(&job);
        let counter = line.count(Call::Attempt, &request)?;
        let answer = line.through.attempt(&request).await?;
        costs("a contended attempt", counter.seen(), declared as usize)?;
        if let Attempt::Acquired(lease) = answer {
            unlock(&line.through, &lease).await?;
        }
    }
    Ok(())
}

/// The measured number for each call.
async fn round_trips(context: &TestContext, line: &Line, text: &str) -> Result<RoundTrips, Stop> {
    let job = name(text);
    let through = &line.through;
    let (first, lease) = line
        .round_trips(context, acquire(through, &context.request(&job)))
        .await?;
    let longer = ExtendRequest::new(context.timing().long());
    let (extend, lease) = line
        .round_trips(context, extend(through, &lease, &longer))
        .await?;
    let (unlocked, ()) = line.round_trips(context, unlock(through, &lease)).await?;
    let (won, lease) = line
        .round_trips(context, acquire(through, &context.request(&job)))
        .await?;
    unlock(through, &lease).await?;
    let _ = acquire(&line.direct, &context.request(&job)).await?;
    let (lost, ()) = line
        .round_trips(context, skipped(through, &context.request(&job)))
        .await?;
    Ok(RoundTrips {
        won,
        first,
        lost,
        extend,
        unlock: unlocked,
    })
}

/// A line on which every kind of call has already been made once.
async fn warm(context: &TestContext) -> Result<Line, Stop> {
    let line = Line::new(context).await?;
    let (_, lease) = held(context, &line, "warm").await?;
    skipped(&line.through, &context.request(lease.name())).await?;
    let longer = ExtendRequest::new(context.timing().long());
    let _ = extend(&line.through, &lease, &longer).await?;
    unlock(&line.through, &lease).await?;
    Ok(line)
}

async fn held(
    context: &TestContext,
    line: &Line,
    text: &str,
) -> Result<(AttemptRequest, Lease), Stop> {
    let request = context.request(&name(text));
    let lease = acquire(&line.through, &request).await?;
    Ok((request, lease))
}

fn costs(what: &str, seen: usize, allowed: usize) -> Verdict {
    ensure!(
        (1..=allowed).contains(&seen),
        "{what} may cost {allowed} requests that name the lock, but cost {seen}"
    );
    Ok(())
}

//! Law 6 when a server accepts connections and never replies: every call of the provider ends
//! within the [bound](shedlock_core::Capabilities::longest_call) that it declares, without help
//! from the runtime, and a run ends within the runtime's own bound.

use std::time::Duration;

use futures_util::future::{join, join_all, try_join_all};
use shedlock_core::{
    Error, ErrorKind, Executor, ExtendRequest, ForceUnlockRequest, Lease, ListRequest, LockConfig,
    ResetSlotRequest, UnlockRequest, admin,
};

use crate::case::cases;
use crate::context::name;
use crate::line::Line;
use crate::proxy::Fault;
use crate::steps::acquire;
use crate::wait::bounded;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("law06_held_is_not_broken" [Connection]:
    every_call_ends_in_time_on_a_connection_that_falls_silent,
    every_call_ends_in_time_on_new_connections_that_are_never_answered,
);

/// How many callers share a provider and the resources that they wait for.
const CALLERS: usize = 8;

/// What a loaded machine may add to the bound.
const SLACK: Duration = Duration::from_secs(10);

/// The runtime's timeout for each call to the store.
const STORE_TIMEOUT: Duration = Duration::from_millis(500);

/// The four attempts that a run makes, and the pauses between them.
const LONGEST_ASKING: Duration = Duration::from_millis(4 * 500 + 350);

const CALLS: [Call; 10] = [
    Call::Attempt,
    Call::Withdraw,
    Call::Extend,
    Call::Unlock,
    Call::Inspect,
    Call::List,
    Call::ForcedUnlock,
    Call::ResetSlot,
    Call::Check,
    Call::Migrate,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Attempt,
    Withdraw,
    Extend,
    Unlock,
    Inspect,
    List,
    ForcedUnlock,
    ResetSlot,
    Check,
    Migrate,
}

/// Every call ends in time on a connection that falls silent in the middle of the provider's work.
pub async fn every_call_ends_in_time_on_a_connection_that_falls_silent(
    context: &TestContext,
) -> Verdict {
    in_silence(context, false).await
}

/// Every call ends in time on new connections that are accepted but never get a reply.
pub async fn every_call_ends_in_time_on_new_connections_that_are_never_answered(
    context: &TestContext,
) -> Verdict {
    in_silence(context, true).await
}

async fn in_silence(context: &TestContext, are_new: bool) -> Verdict {
    let line = Line::new(context).await?;
    let mut callers = Vec::new();
    for call in CALLS {
        let provider = line.another_through(context).await?;
        let request = context.request(&name(&format!("held-{call:?}")));
        let lease = acquire(&provider, &request).await?;
        callers.push((call, provider, lease));
    }
    let runner = line.warm_through(context).await?;
    line.proxy.set(Fault::Swallow).await?;
    if are_new {
        line.proxy.cut_all();
    }
    // Each kind of call has its own provider, so that no call detects the silence on behalf of
    // another. Each call is made once alone, then by several callers at once.
    let silent = callers.iter().map(async |(call, provider, lease)| {
        ends_in_time(context, *call, provider, lease).await?;
        let many = (0..CALLERS).map(|_| ends_in_time(context, *call, provider, lease));
        try_join_all(many).await.map(drop)
    });
    let (calls, run) = join(join_all(silent), run_ends_in_time(context, runner)).await;
    run?;
    calls.into_iter().collect()
}

async fn run_ends_in_time(context: &TestContext, provider: Provider) -> Verdict {
    let executor = Executor::new(provider).store_timeout(STORE_TIMEOUT);
    let config =
        LockConfig::new("another-run").lock_at_most_for(context.timing().long() + LONGEST_ASKING);
    match bounded(LONGEST_ASKING + SLACK, executor.execute(&config, async {})).await {
        Some(Err(error)) if error.is_retryable() => Ok(()),
        answer => Err(Stop::failed(format!(
            "the store never answers, and a run with a store timeout of {STORE_TIMEOUT:?} should \
             fail with OutcomeUnknown or Unavailable within {LONGEST_ASKING:?}, but returned \
             {answer:?}"
        ))),
    }
}

async fn ends_in_time(
    context: &TestContext,
    call: Call,
    provider: &Provider,
    lease: &Lease,
) -> Verdict {
    let limit = provider.capabilities().longest_call;
    let answer = bounded(limit + SLACK, made(context, call, provider, lease)).await;
    let Some(answer) = answer else {
        return Err(Stop::failed(format!(
            "the store never answers, and {call:?} has not ended within the {limit:?} that the \
             provider declares (Capabilities::longest_call)"
        )));
    };
    match answer {
        Err(error) if error.is_retryable() => Ok(()),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        // There may be nothing to create.
        Ok(()) if call == Call::Migrate => Ok(()),
        answer => Err(Stop::failed(format!(
            "{call:?} without any reply from the store should fail with OutcomeUnknown or \
             Unavailable, but returned {answer:?}"
        ))),
    }
}

async fn made(
    context: &TestContext,
    call: Call,
    provider: &Provider,
    lease: &Lease,
) -> Result<(), Error> {
    let long = context.timing().long();
    let held = lease.name();
    let another = context.request(&name(&format!("another-{call:?}")));
    match call {
        Call::Attempt => provider.attempt(&another).await.map(drop),
        Call::Withdraw => provider.withdraw(&another).await.map(drop),
        Call::Extend => {
            let longer = ExtendRequest::new(2 * long);
            provider.extend(lease, &longer).await.map(drop)
        }
        Call::Unlock => {
            let request = UnlockRequest::new();
            provider.unlock(lease, &request).await.map(drop)
        }
        Call::Inspect => provider.inspect(held).await.map(drop),
        Call::List => provider.list(&ListRequest::new()).await.map(drop),
        Call::ForcedUnlock => {
            let request = ForceUnlockRequest::new(held.clone());
            admin::force_unlock(&**provider, &request).await.map(drop)
        }
        Call::ResetSlot => {
            let request = ResetSlotRequest::new(held.clone());
            admin::reset_slot(&**provider, &request).await.map(drop)
        }
        Call::Check => provider.check().await,
        Call::Migrate => provider.migrate().await.map(drop),
    }
}

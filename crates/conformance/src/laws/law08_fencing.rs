//! Law 8: the tokens of one name strictly increase over shedlock's acquisitions.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{AttemptRequest, ExtendRequest, Lease};
use tokio::task::JoinSet;

use crate::case::cases;
use crate::context::name;
use crate::steps::{acquire, extend, record, try_take, unlock, unlock_contended};
use crate::verdict::ensure;
use crate::{JavaRecord, Provider, Stop, TestContext, Verdict};

cases!("law08_fencing" [Fencing]:
    tokens_are_there_exactly_if_declared [Smoke],
    tokens_grow_across_unlock [Smoke],
    tokens_grow_across_expiry [Time],
    tokens_grow_across_a_new_provider,
    tokens_grow_across_a_deleted_record,
    tokens_grow_across_a_withdrawal,
    tokens_grow_across_an_acquisition_of_shedlock [Record],
    tokens_grow_among_contenders [Exclusion],
    an_extension_keeps_the_token,
    the_record_shows_the_token [Record, Operators],
);

/// A lease has a token exactly if the provider declares tokens.
pub async fn tokens_are_there_exactly_if_declared(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let lease = acquire(&provider, &context.request(&name("job"))).await?;
    ensure!(
        lease.fencing_token().is_some() == context.capabilities().fencing,
        "fencing is declared as {}, but the token is {:?}",
        context.capabilities().fencing,
        lease.fencing_token()
    );
    Ok(())
}

/// Tokens grow over twenty acquisitions in a row, as fast as possible.
pub async fn tokens_grow_across_unlock(context: &TestContext) -> Verdict {
    let mut guard = Guard::new(context)?;
    let provider = context.provider().await?;
    for _ in 0..20 {
        let lease = guard
            .acquire(&provider, &context.request(&name("job")))
            .await?;
        unlock(&provider, &lease).await?;
    }
    Ok(())
}

/// Tokens grow when a lease expires without an unlock.
pub async fn tokens_grow_across_expiry(context: &TestContext) -> Verdict {
    let mut guard = Guard::new(context)?;
    let provider = context.provider().await?;
    let short = context.timing().short();
    for _ in 0..3 {
        let request = context.request_for(&name("job"), short);
        let _ = guard.acquire(&provider, &request).await?;
        context.pass(context.timing().past(short)).await;
    }
    Ok(())
}

/// Tokens grow across new providers, as after a restart of the program.
pub async fn tokens_grow_across_a_new_provider(context: &TestContext) -> Verdict {
    let mut guard = Guard::new(context)?;
    for _ in 0..5 {
        let provider = context.provider().await?;
        let lease = guard
            .acquire(&provider, &context.request(&name("job")))
            .await?;
        unlock(&provider, &lease).await?;
    }
    Ok(())
}

/// Tokens grow although the record that contained the last one is gone.
pub async fn tokens_grow_across_a_deleted_record(context: &TestContext) -> Verdict {
    let mut guard = Guard::new(context)?;
    let (first, second) = context.two().await?;
    let job = name("job");
    for provider in [&first, &second, &first, &second] {
        for _ in 0..2 {
            let lease = guard.acquire(provider, &context.request(&job)).await?;
            unlock(provider, &lease).await?;
        }
        context.delete_record(&job).await?;
        context.pass(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Tokens grow across a withdrawal: the token of a withdrawn attempt may have been used.
pub async fn tokens_grow_across_a_withdrawal(context: &TestContext) -> Verdict {
    let mut guard = Guard::new(context)?;
    let provider = context.provider().await?;
    for _ in 0..5 {
        let request = context.request(&name("job"));
        let _ = guard.acquire(&provider, &request).await?;
        provider.withdraw(&request).await?;
    }
    Ok(())
}

/// Tokens grow across acquisitions of ShedLock, which have none and must not reset the sequence.
pub async fn tokens_grow_across_an_acquisition_of_shedlock(context: &TestContext) -> Verdict {
    let mut guard = Guard::new(context)?;
    let provider = context.provider().await?;
    let job = name("job");
    for _ in 0..3 {
        let lease = guard.acquire(&provider, &context.request(&job)).await?;
        unlock(&provider, &lease).await?;
        let now = context.store_now(&provider).await?;
        let over = JavaRecord {
            locked_by: "java-host".to_owned(),
            locked_at: now - Duration::from_secs(20),
            lock_until: now - Duration::from_secs(10),
        };
        context.write_as_shedlock(&job, &over).await?;
    }
    guard
        .acquire(&provider, &context.request(&job))
        .await
        .map(drop)
}

/// Tokens grow in the order of the acquisitions, regardless of who wins.
pub async fn tokens_grow_among_contenders(context: &TestContext) -> Verdict {
    let mut guard = Guard::new(context)?;
    let providers = context.providers(4).await?;
    for _ in 0..10 {
        let mut contenders = JoinSet::new();
        for provider in &providers {
            let (provider, request) = (Arc::clone(provider), context.request(&name("job")));
            contenders.spawn(async move { try_take(&provider, &request).await });
        }
        while let Some(joined) = contenders.join_next().await {
            if let Ok(taken) = joined?? {
                guard.see(&taken.lease)?;
                unlock_contended(&providers[0], &taken.lease).await?;
            }
        }
    }
    Ok(())
}

/// An extension keeps the token: it is not a new acquisition.
pub async fn an_extension_keeps_the_token(context: &TestContext) -> Verdict {
    context.needs_fencing()?;
    let provider = context.provider().await?;
    let lease = acquire(&provider, &context.request(&name("job"))).await?;
    let longer = ExtendRequest::new(2 * context.timing().long());
    let extended = extend(&provider, &lease, &longer).await?;
    ensure!(
        extended.fencing_token() == lease.fencing_token(),
        "an extension changed the token from {:?} to {:?}",
        lease.fencing_token(),
        extended.fencing_token()
    );
    let found = record(&provider, lease.name()).await?;
    ensure!(
        found.fencing_token == lease.fencing_token(),
        "after an extension the token of {lease:?} is {:?} in its record",
        found.fencing_token
    );
    Ok(())
}

/// The record shows the token, also after the unlock if the store keeps the record.
pub async fn the_record_shows_the_token(context: &TestContext) -> Verdict {
    context.needs_fencing()?;
    let provider = context.provider().await?;
    let job = name("job");
    let lease = acquire(&provider, &context.request(&job)).await?;
    let held = record(&provider, &job).await?;
    ensure!(
        held.fencing_token == lease.fencing_token(),
        "the token of {lease:?} is {:?} in its record",
        held.fencing_token
    );
    unlock(&provider, &lease).await
}

/// What a guarded write does: it refuses a token that is not larger than the last one.
struct Guard<'a> {
    context: &'a TestContext,
    last: Option<u64>,
}

impl<'a> Guard<'a> {
    fn new(context: &'a TestContext) -> Result<Self, Stop> {
        context.needs_fencing()?;
        Ok(Self {
            context,
            last: None,
        })
    }

    async fn acquire(
        &mut self,
        provider: &Provider,
        request: &AttemptRequest,
    ) -> Result<Lease, Stop> {
        // Two owners never share a token, even if the store's clock stands still.
        let lease = acquire(provider, request).await?;
        self.see(&lease)?;
        Ok(lease)
    }

    fn see(&mut self, lease: &Lease) -> Verdict {
        let token = lease.fencing_token().ok_or_else(|| {
            Stop::failed(format!(
                "{} declares fencing, but {lease:?} has no token",
                self.context.harness().name()
            ))
        })?;
        if let Some(last) = self.last {
            ensure!(
                token > last,
                "the fencing token {token} of {lease:?} is not larger than the previous one, {last}"
            );
        }
        self.last = Some(token);
        Ok(())
    }
}

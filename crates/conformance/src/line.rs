//! A provider behind a fault proxy, and one that connects to the store directly.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shedlock_core::{Attempt, AttemptRequest, Error, ExtendRequest, Lease, Slot};

use crate::context::{granted, name};
use crate::proxy::{Counter, Matcher, Proxy, Strike, Trap, contains_any};
use crate::steps::{abandon, acquire, extend, unlock};
use crate::verdict::ensure;
use crate::wait::{PATIENCE, bounded, now, sleep};
use crate::{Call, Provider, Stop, TestContext};

/// A store with a proxy in front of it.
pub(crate) struct Line {
    pub(crate) proxy: Proxy,
    /// Connects through the proxy; its connections are warm.
    pub(crate) through: Provider,
    /// Connects to the store directly.
    pub(crate) direct: Provider,
    /// A slot within the last hour.
    pub(crate) slot: Slot,
    /// The calls whose requests the proxy cannot recognize, and why.
    hidden: Vec<(Call, String)>,
    /// How many providers have been warmed up.
    warmed: AtomicUsize,
}

impl Line {
    /// An upper bound for the number of statements of one attempt, for cases that try a fault at
    /// each of them.
    pub(crate) const STATEMENTS: usize = 8;

    /// Not applicable if the store cannot be reached through a proxy.
    ///
    /// Fails if the proxy does not recognize the requests of a call and the namespace does not
    /// declare this: the traps would match nothing.
    pub(crate) async fn new(context: &TestContext) -> Result<Self, Stop> {
        let store = context.namespace().store_addr().ok_or_else(|| {
            Stop::not_applicable("the store has no plain TCP address (Namespace::store_addr)")
        })?;
        let proxy = Proxy::start(store).await?;
        let through = via(context, &proxy).await?;
        let direct = context.provider().await?;
        let slot = context
            .slot_before_now(&direct, Duration::from_secs(600))
            .await?;
        let mut line = Self {
            proxy,
            through,
            direct,
            slot,
            hidden: Vec::new(),
            warmed: AtomicUsize::new(0),
        };
        line.hidden = line.probe(context).await?;
        Ok(line)
    }

    /// Makes each kind of call once and checks what the proxy sees of it. This also warms up the
    /// connections.
    async fn probe(&self, context: &TestContext) -> Result<Vec<(Call, String)>, Stop> {
        let request = context.request(&name("probe"));
        let mut seen = Vec::new();
        let mut counter = self.sees(&request);
        let mut lease = acquire(&self.through, &request).await?;
        seen.push((Call::Attempt, counter.seen()));
        counter = self.sees(&request);
        let longer = ExtendRequest::new(2 * context.timing().long());
        lease = extend(&self.through, &lease, &longer).await?;
        seen.push((Call::Extend, counter.seen()));
        counter = self.sees(&request);
        unlock(&self.through, &lease).await?;
        seen.push((Call::Unlock, counter.seen()));
        let request = context.request(&name("probe"));
        abandon(&self.through, &request).await?;
        counter = self.sees(&request);
        self.through.withdraw(&request).await?;
        seen.push((Call::Withdraw, counter.seen()));

        let mut hidden = Vec::new();
        for (call, seen) in seen {
            match context.namespace().hides(call) {
                Some(reason) if seen == 0 => hidden.push((call, reason)),
                None if seen > 0 => {}
                Some(reason) => {
                    return Err(Stop::failed(format!(
                        "the harness declares that the requests of {call:?} cannot be \
                         distinguished (Namespace::hides: {reason}), but the proxy sees the lock's \
                         name or owner in {seen} of them"
                    )));
                }
                None => {
                    return Err(Stop::failed(format!(
                        "the proxy sees neither the lock's name nor its owner in any request of \
                         {call:?}, so the proxy cannot select one for a fault: connect without \
                         encryption, or declare it (Namespace::hides)"
                    )));
                }
            }
        }
        Ok(hidden)
    }

    /// Another provider through the proxy, without any connection yet.
    pub(crate) async fn another_through(&self, context: &TestContext) -> Result<Provider, Stop> {
        via(context, &self.proxy).await
    }

    /// Another provider through the proxy, with warm connections and a reading of the store's
    /// clock.
    pub(crate) async fn warm_through(&self, context: &TestContext) -> Result<Provider, Stop> {
        let provider = self.another_through(context).await?;
        let nth = self.warmed.fetch_add(1, Ordering::Relaxed);
        let request = context.request(&name(&format!("warm-{nth}")));
        let lease = acquire(&provider, &request).await?;
        unlock(&provider, &lease).await?;
        Ok(provider)
    }

    /// Injects a fault into the nth request of this call, recognized by the lock's name or owner.
    /// Not applicable if the proxy cannot recognize these requests.
    pub(crate) fn trap(
        &self,
        call: Call,
        request: &AttemptRequest,
        nth: usize,
        strike: Strike,
    ) -> Result<Trap, Stop> {
        self.tells_apart(call)?;
        Ok(self.proxy.on_request(meant(request), nth, strike))
    }

    /// Whether the trap struck. A call may have fewer than `nth` statements, but it has at least
    /// one: if the trap missed the first, the case fails.
    pub(crate) fn has_struck(&self, trap: &Trap, nth: usize) -> Result<bool, Stop> {
        ensure!(
            nth > 1 || trap.has_struck(),
            "the fault met no request, so nothing was tested: the proxy sees neither the lock's name \
             nor its owner in the requests of this call"
        );
        Ok(trap.has_struck())
    }

    /// Counts the requests of this call, recognized by the lock's name or owner. Not applicable if
    /// the proxy cannot recognize these requests.
    pub(crate) fn count(&self, call: Call, request: &AttemptRequest) -> Result<Counter, Stop> {
        self.tells_apart(call)?;
        Ok(self.sees(request))
    }

    fn sees(&self, request: &AttemptRequest) -> Counter {
        self.proxy.count(meant(request))
    }

    fn tells_apart(&self, call: Call) -> Result<(), Stop> {
        match self.hidden.iter().find(|(hidden, _)| *hidden == call) {
            None => Ok(()),
            Some((_, reason)) => Err(Stop::not_applicable(format!(
                "the proxy cannot distinguish the requests of {call:?}: {reason} (Namespace::hides)"
            ))),
        }
    }

    /// How many round trips a call through the proxy takes, together with its result.
    pub(crate) async fn round_trips<T>(
        &self,
        context: &TestContext,
        call: impl Future<Output = Result<T, Stop>>,
    ) -> Result<(usize, T), Stop> {
        let chatter = context.harness().chatter();
        // Traffic left over from the previous call does not count for this one.
        let _ = self.proxy.measure(chatter.clone()).settled().await;
        let meter = self.proxy.measure(chatter);
        let answer = call.await?;
        Ok((meter.settled().await.round_trips, answer))
    }

    /// Checks that the provider's attempt is granted soon after the store is back.
    pub(crate) async fn recovers(
        &self,
        provider: &Provider,
        request: &AttemptRequest,
    ) -> Result<Lease, Stop> {
        Self::ask_until_answered(provider, request).await
    }

    /// Repeats the attempt until it gets a reply, which must be a lease.
    pub(crate) async fn ask_until_answered(
        provider: &Provider,
        request: &AttemptRequest,
    ) -> Result<Lease, Stop> {
        match until_answered(|| provider.attempt(request)).await? {
            Attempt::Acquired(lease) => Ok(lease),
            answer => Err(Stop::failed(format!(
                "the repeated attempt should grant the lock to {}, but returned {answer:?}",
                &request.owner
            ))),
        }
    }
}

/// Repeats the call as long as its error is retryable: a client that lost its connection may need a
/// moment to reconnect.
pub(crate) async fn until_answered<T, F>(mut call: impl FnMut() -> F) -> Result<T, Stop>
where
    F: Future<Output = Result<T, Error>>,
{
    let started = now();
    loop {
        let answer = bounded(PATIENCE, call())
            .await
            .ok_or_else(|| Stop::failed(format!("a call did not return within {PATIENCE:?}")))?;
        match answer {
            Err(error) if error.is_retryable() && now().saturating_since(started) < PATIENCE => {
                sleep(Duration::from_millis(50)).await;
            }
            answer => return Ok(answer?),
        }
    }
}

/// Matches requests that contain the lock's name or owner, either literally or as hexadecimal
/// digits, a form in which SQL literals may be written.
fn meant(request: &AttemptRequest) -> Matcher {
    let texts = [request.name.as_str(), request.owner.as_str()];
    let spelled = texts.map(|text| {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        [text.to_owned(), hex.to_uppercase(), hex]
    });
    contains_any(spelled.concat())
}

async fn via(context: &TestContext, proxy: &Proxy) -> Result<Provider, Stop> {
    granted(
        context.namespace().provider_via(proxy.addr()),
        "reach its store through a proxy",
        "Namespace::provider_via",
    )
    .await
}

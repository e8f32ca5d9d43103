//! A provider behind a fault proxy, beside one that reaches the store straight.

use std::time::Duration;

use shedlock_core::{Attempt, AttemptRequest, Lease, Slot};

use crate::proxy::{Counter, Proxy, Strike, Trap, contains_any};
use crate::setting::{granted, name};
use crate::steps::acquire;
use crate::wait::{PATIENCE, bounded, now, sleep};
use crate::{Provider, Setting, Stop};

/// The way to the store through a proxy.
pub(crate) struct Line {
    pub(crate) proxy: Proxy,
    /// Through the proxy; its connections are warm.
    pub(crate) through: Provider,
    /// Past it.
    pub(crate) direct: Provider,
    /// A slot of the last hour.
    pub(crate) slot: Slot,
}

impl Line {
    /// More statements than any attempt has: where a fault at each of them is tried.
    pub(crate) const STATEMENTS: usize = 8;

    /// Not applicable where the store cannot be reached through a proxy, or where the proxy
    /// cannot see which request is meant.
    pub(crate) async fn new(setting: &Setting) -> Result<Self, Stop> {
        let store = setting.space().store_addr().ok_or_else(|| {
            Stop::not_applicable("the store has no plain TCP address (Space::store_addr)")
        })?;
        let proxy = Proxy::start(store).await?;
        let through = via(setting, &proxy).await?;
        let direct = setting.provider().await?;
        let slot = setting
            .slot_before_now(&direct, Duration::from_secs(600))
            .await?;
        let line = Self {
            proxy,
            through,
            direct,
            slot,
        };
        let probe = setting.request(&name("probe"));
        let counter = line.count(&probe);
        let _ = acquire(&line.through, &probe).await?;
        if counter.seen() == 0 {
            return Err(Stop::not_applicable(
                "names and owners do not travel in the clear, so the proxy cannot tell requests \
                 apart",
            ));
        }
        Ok(line)
    }

    /// Another provider through the proxy, without any connection yet.
    pub(crate) async fn another_through(&self, setting: &Setting) -> Result<Provider, Stop> {
        via(setting, &self.proxy).await
    }

    /// Strikes at the nth request that carries the lock's name or owner.
    pub(crate) fn trap(&self, request: &AttemptRequest, nth: usize, strike: Strike) -> Trap {
        let meant = contains_any([request.name().as_str(), request.owner().as_str()]);
        self.proxy.on_request(meant, nth, strike)
    }

    /// Counts the requests that carry the lock's name or owner.
    pub(crate) fn count(&self, request: &AttemptRequest) -> Counter {
        let meant = contains_any([request.name().as_str(), request.owner().as_str()]);
        self.proxy.count(meant)
    }

    /// How many round trips a call through the proxy takes, with what it answers.
    pub(crate) async fn turns<T>(
        &self,
        setting: &Setting,
        call: impl Future<Output = Result<T, Stop>>,
    ) -> Result<(usize, T), Stop> {
        let chatter = setting.harness().chatter();
        // What the call before has left behind is no part of this one.
        let _ = self.proxy.measure(chatter.clone()).settled().await;
        let meter = self.proxy.measure(chatter);
        let answer = call.await?;
        Ok((meter.settled().await.turns, answer))
    }

    /// The store is back: within a while the provider's attempt is granted.
    pub(crate) async fn recovers(
        &self,
        provider: &Provider,
        request: &AttemptRequest,
    ) -> Result<Lease, Stop> {
        Self::ask_until_answered(provider, request).await
    }

    /// Asks until there is an answer, which must be a lease.
    pub(crate) async fn ask_until_answered(
        provider: &Provider,
        request: &AttemptRequest,
    ) -> Result<Lease, Stop> {
        let started = now();
        loop {
            let attempt = provider.attempt(request);
            let answer = bounded(PATIENCE, attempt).await.ok_or_else(|| {
                Stop::failed(format!("an attempt gave no answer for {PATIENCE:?}"))
            })?;
            match answer {
                Ok(Attempt::Acquired(lease)) => return Ok(lease),
                Err(error)
                    if error.is_retryable() && now().saturating_since(started) < PATIENCE =>
                {
                    sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error.into()),
                Ok(answer) => {
                    return Err(Stop::failed(format!(
                        "once the store was back, the attempt of {} should be granted, but was \
                         answered {answer:?}",
                        request.owner()
                    )));
                }
            }
        }
    }
}

async fn via(setting: &Setting, proxy: &Proxy) -> Result<Provider, Stop> {
    granted(
        setting.space().provider_via(proxy.addr()),
        "reach its store through a proxy",
        "Space::provider_via",
    )
    .await
}

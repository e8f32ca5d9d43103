//! Another process that takes and frees locks on its own, until it is stopped or killed.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, ExtendRequest, Extension, Lease, LockName, Owner,
    Slot, Unlock, UnlockRequest,
};
use tokio::io::AsyncReadExt;

use crate::harness::BoxError;
use crate::history::{Log, What};
use crate::wait::{bounded, sleep};
use crate::{Provider, chance::Chance};

/// After a call that failed.
const PAUSE: Duration = Duration::from_millis(20);

/// What a worker does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Where its log goes.
    pub(crate) log: PathBuf,
    /// Which locks it contends for.
    pub(crate) names: Vec<String>,
    /// The slots that it goes through in order, in microseconds; without any it takes the locks
    /// again and again.
    pub(crate) slots: Vec<i64>,
    pub(crate) at_most: Duration,
    /// The longest that it holds a lock; now and then it oversleeps at-most instead.
    pub(crate) hold: Duration,
    /// The longest that it rests between two attempts.
    pub(crate) rest: Duration,
    /// How long it waits for an answer. Then it drops the call, as the runtime does.
    pub(crate) patience: Duration,
    /// Whether it extends leases.
    pub(crate) extends: bool,
    pub(crate) seed: u64,
}

/// Works until its standard input ends.
pub(crate) async fn play(provider: &Provider, orders: Orders) -> Result<(), BoxError> {
    let mut worker = Worker {
        provider,
        log: Log::open(&orders.log)?,
        chance: Chance::new(orders.seed),
        orders,
    };
    let mut stop = [0];
    let mut input = tokio::io::stdin();
    tokio::select! {
        _ = input.read(&mut stop) => Ok(()),
        result = worker.work() => result,
    }
}

struct Worker<'a> {
    provider: &'a Provider,
    log: Log,
    chance: Chance,
    orders: Orders,
}

impl Worker<'_> {
    async fn work(&mut self) -> Result<(), BoxError> {
        if self.orders.slots.is_empty() {
            loop {
                self.turn(None).await?;
            }
        }
        for slot in self.orders.slots.clone() {
            self.turn(Some(Slot::from_micros(slot)?)).await?;
        }
        // The logs are complete; wait to be stopped.
        std::future::pending().await
    }

    async fn turn(&mut self, slot: Option<Slot>) -> Result<(), BoxError> {
        let name = self.chance.pick(&self.orders.names).clone();
        let mut request =
            AttemptRequest::new(LockName::new(name)?, Owner::generate(), self.orders.at_most);
        if let Some(slot) = slot {
            request = request.with_slot(slot);
        }
        if let Some(Attempt::Acquired(lease)) = self.ask(&request).await? {
            self.hold(&request, lease).await?;
        }
        sleep(self.chance.up_to(self.orders.rest)).await;
        Ok(())
    }

    /// Asks for the lock, and now and then once more where nobody knows what became of it.
    async fn ask(&mut self, request: &AttemptRequest) -> Result<Option<Attempt>, BoxError> {
        loop {
            self.log.write(request, What::asked(request))?;
            match self.answer(self.provider.attempt(request)).await {
                Ok(answer) => {
                    match &answer {
                        Attempt::Acquired(lease) => {
                            self.log.write(request, What::acquired(lease))?;
                        }
                        Attempt::Skipped(skip) => self.log.write(request, What::skipped(skip))?,
                        other => return Err(format!("unknown answer {other:?}").into()),
                    }
                    return Ok(Some(answer));
                }
                Err(error) if error.is_unknown() => {
                    self.log.write(request, What::Unknown)?;
                    sleep(PAUSE).await;
                    if self.chance.one_in(2) {
                        return Ok(None);
                    }
                }
                Err(error) if error.is_retryable() => {
                    self.log.write(request, What::Failed)?;
                    sleep(PAUSE).await;
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn hold(&mut self, request: &AttemptRequest, mut lease: Lease) -> Result<(), BoxError> {
        sleep(self.chance.up_to(self.orders.hold)).await;
        if self.orders.extends && self.chance.one_in(4) {
            lease = match self.extend(request, lease).await? {
                Some(lease) => lease,
                None => return Ok(()),
            };
            sleep(self.chance.up_to(self.orders.hold)).await;
        }
        if self.chance.one_in(50) {
            // Too long: whoever holds the lock by then must not be disturbed.
            sleep(self.orders.at_most + self.orders.at_most / 4).await;
        }
        let unlock = UnlockRequest::new();
        let what = loop {
            self.log.write(request, What::ReleaseAsked)?;
            match self.answer(self.provider.unlock(&lease, &unlock)).await {
                Ok(Unlock::Unlocked) => break What::Released,
                Ok(_) => break What::ReleaseLost,
                Err(error) if error.is_retryable() => {
                    if self.chance.one_in(2) {
                        break What::CallFailed;
                    }
                    self.log.write(request, What::CallFailed)?;
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        };
        Ok(self.log.write(request, what)?)
    }

    async fn extend(
        &mut self,
        request: &AttemptRequest,
        lease: Lease,
    ) -> Result<Option<Lease>, BoxError> {
        let at_most = self.orders.at_most;
        self.log.write(
            request,
            What::RenewAsked {
                at_most: crate::history::nanos(at_most),
            },
        )?;
        let longer = ExtendRequest::new(at_most);
        match self.answer(self.provider.extend(&lease, &longer)).await {
            Ok(Extension::Extended(lease)) => {
                self.log.write(request, What::renewed(&lease))?;
                Ok(Some(lease))
            }
            Ok(_) => {
                self.log.write(request, What::RenewLost)?;
                Ok(None)
            }
            Err(error) if error.is_retryable() => {
                self.log.write(request, What::CallFailed)?;
                Ok(Some(lease))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What the call is answered in time; as the runtime does, it is dropped after that.
    async fn answer<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let answer = bounded(self.orders.patience, call).await;
        answer.unwrap_or_else(|| Err(Error::new(ErrorKind::Unknown, "no answer in time")))
    }
}

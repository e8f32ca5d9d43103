//! The client of that store.

use std::net::SocketAddr;
use std::time::Duration;

use shedlock_conformance::wait::now;
use shedlock_core::admin::{Change, Changed, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, BoundedAttempt, BoxFuture, Capabilities, ClockSource, Error,
    ErrorKind, ExtendRequest, Extension, Lease, ListRequest, LockName, LockProvider, LockRecord,
    Moment, ProviderIdentity, Slot, StoreClock, SystemClock, Unlock, UnlockRequest,
    answered_within,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::wire::{Call, Reply, Timed, obscure};

/// The time limit of a request, including the wait for the connection.
const TIMEOUT: Duration = Duration::from_secs(2);

/// One connection at a time, opened when it is needed.
#[derive(Debug)]
pub(crate) struct ServedProvider {
    addr: SocketAddr,
    /// The store's clock, as of its last reply.
    clock: StoreClock,
    obscures_unlocks: bool,
    reads_unlocks_back: bool,
    connection: Mutex<Option<Idle>>,
    identity: ProviderIdentity,
}

/// A connection, and when its last reply came.
type Idle = (Moment, BufStream<TcpStream>);

/// A connection that was idle for longer is not used again.
const FRESH: Duration = Duration::from_secs(30);

impl ServedProvider {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            clock: StoreClock::new(),
            obscures_unlocks: false,
            reads_unlocks_back: false,
            connection: Mutex::new(None),
            identity: ProviderIdentity::unique(),
        }
    }

    /// Sends unlocks in a form in which they cannot be recognized on the wire.
    pub(crate) fn obscuring_unlocks(mut self) -> Self {
        self.obscures_unlocks = true;
        self
    }

    /// If the reply to an unlock is lost, judges the unlock by the record read afterwards.
    pub(crate) fn reading_unlocks_back(mut self) -> Self {
        self.reads_unlocks_back = true;
        self
    }

    async fn read_back(&self, lease: &Lease, error: Error) -> Result<Unlock, Error> {
        let found = self.inspect(lease.name()).await?;
        match found.and_then(|record| record.owner) {
            Some(owner) if owner != lease.owner().as_str() => Ok(Unlock::Lost),
            _ => Err(error),
        }
    }

    async fn call(&self, call: Call) -> Result<Reply, Error> {
        let unanswered = match call {
            Call::Inspect(_) | Call::List { .. } | Call::Look(_) => ErrorKind::Unavailable,
            _ => ErrorKind::OutcomeUnknown,
        };
        answered_within(&SystemClock, TIMEOUT, unanswered, self.sent(call)).await
    }

    async fn changed(&self, call: Call) -> Result<Changed, Error> {
        match self.call(call).await? {
            Reply::Changed(is_done) => Ok(Changed::done(is_done)),
            reply => Err(unexpected(&reply)),
        }
    }

    async fn sent(&self, call: Call) -> Result<Reply, Error> {
        let mut line = serde_json::to_vec(&call).expect("calls are plain data");
        if self.obscures_unlocks && matches!(call, Call::Unlock { .. }) {
            line = obscure(&line);
        }
        line.push(b'\n');
        // Taken out, and put back after a complete reply. If a call is dropped midway, no
        // connection remains on which the next call would read the wrong reply.
        let mut slot = self.connection.lock().await;
        let is_fresh = |(since, _): &Idle| now().saturating_since(*since) <= FRESH;
        let mut connection = match slot.take().filter(is_fresh) {
            Some((_, connection)) => connection,
            None => BufStream::new(self.connect().await?),
        };
        let reply = exchange(&mut connection, &line).await.map_err(|error| {
            Error::new(ErrorKind::OutcomeUnknown, "the reply was lost: retry").with_source(error)
        })?;
        *slot = Some((now(), connection));
        drop(slot);
        self.clock.observe(reply.store_time);
        reply
            .reply
            .or_error()
            .map_err(|error| error.with_store("served"))
    }

    async fn connect(&self) -> Result<TcpStream, Error> {
        let stream = TcpStream::connect(self.addr).await.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the store cannot be reached").with_source(error)
        })?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

async fn exchange(connection: &mut BufStream<TcpStream>, line: &[u8]) -> std::io::Result<Timed> {
    connection.write_all(line).await?;
    connection.flush().await?;
    let mut reply = String::new();
    connection.read_line(&mut reply).await?;
    if reply.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&reply)?)
}

fn unexpected(reply: &Reply) -> Error {
    Error::new(ErrorKind::Internal, format!("the store answered {reply:?}"))
}

impl LockProvider for ServedProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            request.validate()?;
            if request.completion.retries().is_some() {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "slots cannot be kept open here",
                ));
            }
            let send = |not_after| async move {
                let attempt = match self.call(Call::attempt(request, not_after)).await? {
                    Reply::Acquired(granted) => {
                        Attempt::Acquired(granted.onto(Lease::granted(request)))
                    }
                    Reply::Skipped(refused) => Attempt::Skipped(refused.skip()?),
                    Reply::TooLate(store_time) => {
                        return Ok(BoundedAttempt::TooLate { store_time });
                    }
                    reply => return Err(unexpected(&reply)),
                };
                Ok(BoundedAttempt::Judged(attempt))
            };
            self.clock.attempt(request, send).await
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            match self.call(Call::Withdraw(request.into())).await? {
                Reply::Withdrawn(there_was) => Ok(there_was),
                reply => Err(unexpected(&reply)),
            }
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            request.validate(lease.lock_at_least_for())?;
            match self.call(Call::extend(lease, request)).await? {
                Reply::Extended(granted) => {
                    let before = lease.acquired_at();
                    let mut extended = granted.onto(lease.extended(request));
                    if let Some(at) = before {
                        extended = extended.with_acquired_at(at);
                    }
                    Ok(Extension::Extended(extended))
                }
                Reply::Lost => Ok(Extension::Lost),
                reply => Err(unexpected(&reply)),
            }
        })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            match self.call(Call::unlock(lease, request)).await {
                Ok(Reply::Unlocked) => Ok(Unlock::Unlocked),
                Ok(Reply::Lost) => Ok(Unlock::Lost),
                Ok(reply) => Err(unexpected(&reply)),
                Err(error) if error.is_outcome_unknown() && self.reads_unlocks_back => {
                    self.read_back(lease, error).await
                }
                Err(error) => Err(error),
            }
        })
    }

    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        Box::pin(async move {
            match self.call(Call::Inspect(name.to_string())).await? {
                Reply::Found(found) => found.map(super::wire::Record::record).transpose(),
                reply => Err(unexpected(&reply)),
            }
        })
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(async move {
            match self.call(Call::list(request)).await? {
                Reply::Listed(page) => page.into_iter().map(super::wire::Record::record).collect(),
                reply => Err(unexpected(&reply)),
            }
        })
    }

    fn look<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>> {
        Box::pin(async move {
            match self.call(Call::Look(name.to_string())).await? {
                Reply::Seen(None) => Ok(None),
                Reply::Seen(Some((number, record))) => {
                    let unit = Duration::from_micros(1);
                    Ok(Some(Seen::new(record.record()?, unit, number)))
                }
                reply => Err(unexpected(&reply)),
            }
        })
    }

    fn change<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async move {
            let last = change.slots.and_then(|slots| slots.last);
            let call = Call::Change {
                name: name.to_string(),
                seen: *seen.version()?,
                lease: change.lease.clone().into(),
                last_slot: last.map(Slot::as_micros),
            };
            self.changed(call).await
        })
    }

    fn remove<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async move {
            let (name, seen) = (name.to_string(), *seen.version()?);
            self.changed(Call::Remove { name, seen }).await
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            let nothing = LockName::new("check")?;
            self.inspect(&nothing).await.map(drop)
        })
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(ClockSource::Store);
        capabilities.durable = false;
        // That of the store that it serves.
        capabilities.granularity = Duration::from_millis(1);
        capabilities.completion = false;
        // An attempt may be sent twice.
        capabilities.longest_call = 2 * TIMEOUT;
        capabilities.longest_lock_at_most_for = Duration::from_secs(100 * 366 * 86_400);
        capabilities
    }

    fn identity(&self) -> ProviderIdentity {
        self.identity.clone()
    }

    fn store(&self) -> &str {
        "served"
    }
}

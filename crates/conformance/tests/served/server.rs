//! The store: the in-memory provider behind a socket.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use shedlock_conformance::BoxError;
use shedlock_core::admin::{Change, Changed, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, Clock, Error, ErrorKind, ExtendRequest, Extension, ListRequest,
    LockName, LockProvider, LockState, Slot, SlotEnd, SlotState, SystemClock, Unlock,
    UnlockRequest,
};
use shedlock_proof::{At, Mistake, Mistaken, Surroundings};
use shedlock_provider::MemoryProvider;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::wire::{Call, Reply, Timed, clear};

/// A store that can be stopped and started again, with its data.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    pub(crate) store: MemoryProvider,
    pub(crate) has_container: Arc<AtomicBool>,
    /// Whether the container has settings that break promises.
    pub(crate) is_weak: Arc<AtomicBool>,
    wrong: Option<Mistake>,
    /// Reserves the address while nothing listens on it, so that no other server gets it.
    _reserved: TcpSocket,
    /// Serves until the sender is dropped.
    running: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl Server {
    pub(crate) async fn start(wrong: Option<Mistake>) -> Result<Self, BoxError> {
        let reserved = bound(([127, 0, 0, 1], 0).into())?;
        let server = Self {
            addr: reserved.local_addr()?,
            store: MemoryProvider::new(),
            has_container: Arc::new(AtomicBool::new(true)),
            is_weak: Arc::default(),
            wrong,
            _reserved: reserved,
            running: Mutex::new(None),
        };
        server.start_again()?;
        Ok(server)
    }

    /// Stops the server and all of its connections.
    pub(crate) async fn stop(&self) -> Result<(), BoxError> {
        let running = self.running.lock().expect("no one panics with it").take();
        if let Some((stop, running)) = running {
            drop(stop);
            running.await?;
        }
        Ok(())
    }

    pub(crate) fn start_again(&self) -> Result<(), BoxError> {
        let listener = bound(self.addr)?.listen(64)?;
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(self.serving(listener, stopped));
        *self.running.lock().expect("no one panics with it") = Some((stop, running));
        Ok(())
    }

    /// The store with its mistake, unless that is one of the wire or of the client.
    fn mistaken_store(&self) -> Arc<dyn LockProvider> {
        let elsewhere = [Mistake::LateAttempt, Mistake::ClaimSentAgain];
        let of_store = |it: &Mistake| it.at() == At::Provider && !elsewhere.contains(it);
        let surroundings = Surroundings {
            records: Some(Arc::new(self.store.clone())),
            ..Surroundings::new(0)
        };
        let wrong = self.wrong.filter(of_store);
        Arc::new(Mistaken::new(
            wrong,
            Arc::new(self.store.clone()),
            surroundings,
        ))
    }

    fn serving(
        &self,
        listener: TcpListener,
        mut stopped: oneshot::Receiver<()>,
    ) -> impl Future<Output = ()> + use<> {
        let has_container = Arc::clone(&self.has_container);
        let desk = Desk {
            store: self.mistaken_store(),
            is_weak: Arc::clone(&self.is_weak),
            wrong: self.wrong,
            turn: Arc::default(),
            looks: Arc::default(),
        };
        async move {
            let mut connections = JoinSet::new();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = &mut stopped => break,
                };
                let Ok((stream, _)) = accepted else { break };
                let _ = stream.set_nodelay(true);
                connections.spawn(serve(stream, desk.clone(), Arc::clone(&has_container)));
            }
            drop(listener);
            connections.shutdown().await;
        }
    }
}

fn bound(addr: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

async fn serve(
    mut stream: TcpStream,
    desk: Desk,
    has_container: Arc<AtomicBool>,
) -> Result<(), BoxError> {
    let (reading, mut writing) = stream.split();
    let mut lines = BufReader::new(reading).lines();
    while let Some(line) = lines.next_line().await? {
        let reply = if has_container.load(Ordering::SeqCst) {
            desk.answer(serde_json::from_str(&clear(&line)?)?)
                .await
                .unwrap_or_else(|error| Reply::failed(&error))
        } else {
            Reply::failed(&Error::new(
                ErrorKind::Configuration,
                "there is no container: restore it",
            ))
        };
        let store_time = SystemClock.system_time();
        let mut line = serde_json::to_vec(&Timed { store_time, reply })?;
        line.push(b'\n');
        writing.write_all(&line).await?;
    }
    Ok(())
}

/// Processes the calls of all connections.
#[derive(Clone)]
struct Desk {
    store: Arc<dyn LockProvider>,
    is_weak: Arc<AtomicBool>,
    wrong: Option<Mistake>,
    turn: Arc<tokio::sync::Mutex<()>>,
    looks: Arc<Mutex<Vec<Seen>>>,
}

impl Desk {
    async fn answer(&self, call: Call) -> Result<Reply, Error> {
        // Calls with two statements are one step.
        let _turn = self.turn.lock().await;
        if self.is_weak.load(Ordering::SeqCst) && self.wrong != Some(Mistake::AcceptsWeakContainer)
        {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the container has settings that break promises: change them",
            ));
        }
        let store = &self.store;
        Ok(match call {
            Call::Attempt { request, not_after } => {
                self.attempt(&request.attempt()?, not_after).await?
            }
            Call::Withdraw(request) => Reply::Withdrawn(store.withdraw(&request.attempt()?).await?),
            Call::Extend {
                lease,
                at_most,
                at_least,
            } => {
                let mut request = ExtendRequest::new(at_most);
                if let Some(at_least) = at_least {
                    request = request.with_lock_at_least_for(at_least);
                }
                match store.extend(&lease.lease()?, &request).await? {
                    Extension::Extended(lease) => Reply::Extended((&lease).into()),
                    _ => Reply::Lost,
                }
            }
            Call::Unlock {
                lease,
                ignores_at_least,
                never_started,
            } => {
                let mut request = UnlockRequest::new();
                if ignores_at_least {
                    request = request.ignoring_at_least();
                }
                if never_started {
                    request = request.with_slot_end(SlotEnd::NotStarted);
                }
                let lease = lease.lease()?;
                match store.unlock(&lease, &request).await? {
                    Unlock::Unlocked => Reply::Unlocked,
                    _ => Reply::Lost,
                }
            }
            Call::Inspect(name) => {
                let found = store.inspect(&LockName::of_record(name)?).await?;
                Reply::Found(found.map(Into::into))
            }
            Call::List {
                after,
                limit,
                held_only,
            } => {
                let mut request = ListRequest::new().with_limit(limit);
                if let Some(after) = after {
                    request = request.with_after(LockName::new(after)?);
                }
                if held_only {
                    request = request.held_only();
                }
                let page = store.list(&request).await?;
                Reply::Listed(page.into_iter().map(Into::into).collect())
            }
            Call::Look(name) => {
                let seen = store.look(&LockName::of_record(name)?).await?;
                Reply::Seen(seen.map(|seen| {
                    let record = seen.record.clone().into();
                    let mut looks = self.looks.lock().expect("no one panics with it");
                    looks.push(seen);
                    (looks.len() as u64 - 1, record)
                }))
            }
            Call::Change {
                name,
                seen,
                lease,
                last_slot,
            } => {
                let last = last_slot.map(Slot::from_micros).transpose()?;
                let change = Change {
                    lease: lease.into(),
                    slots: last.map(|last| SlotState::new(Some(last), None, None)),
                };
                let name = LockName::of_record(name)?;
                match self.seen(seen) {
                    Some(seen) => changed(store.change(&name, &seen, &change).await?),
                    None => Reply::Changed(false),
                }
            }
            Call::Remove { name, seen } => {
                let name = LockName::of_record(name)?;
                match self.seen(seen) {
                    Some(seen) => changed(store.remove(&name, &seen).await?),
                    None => Reply::Changed(false),
                }
            }
        })
    }

    /// What a look has read; none if that was before a restart.
    fn seen(&self, number: u64) -> Option<Seen> {
        let looks = self.looks.lock().expect("no one panics with it");
        looks.get(usize::try_from(number).ok()?).cloned()
    }

    async fn attempt(
        &self,
        request: &AttemptRequest,
        not_after: SystemTime,
    ) -> Result<Reply, Error> {
        let store_time = SystemClock.system_time();
        let is_late = store_time > not_after && self.wrong != Some(Mistake::LateAttempt);
        if is_late && self.grants(request).await? {
            if self.wrong == Some(Mistake::TakesSlotOfLateAttempt) {
                let _ = self.store.attempt(request).await?;
                self.store.withdraw(request).await?;
            }
            return Ok(Reply::TooLate(store_time));
        }
        match self.store.attempt(request).await? {
            Attempt::Acquired(lease) => Ok(Reply::Acquired((&lease).into())),
            Attempt::Skipped(skip) => Ok(Reply::Skipped(skip.into())),
            _ => Err(unknown_answer()),
        }
    }

    /// Whether the lock and the slot are free. False while a lease of this owner already runs.
    async fn grants(&self, request: &AttemptRequest) -> Result<bool, Error> {
        let Some(record) = self.store.inspect(&request.name).await? else {
            return Ok(true);
        };
        let has_slot = request
            .slot
            .is_none_or(|slot| record.last_slot < Some(slot));
        Ok(record.state == LockState::Free && has_slot)
    }
}

fn changed(changed: Changed) -> Reply {
    Reply::Changed(changed == Changed::Done)
}

fn unknown_answer() -> Error {
    Error::new(ErrorKind::Internal, "an answer without a place on the wire")
}

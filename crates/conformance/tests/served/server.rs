//! The store: the in-memory provider behind a socket.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use shedlock_conformance::BoxError;
use shedlock_core::{
    Attempt, Error, ErrorKind, ExtendRequest, Extension, ForceUnlock, ForceUnlockRequest,
    ListRequest, LockName, LockProvider, MemoryProvider, Unlock, UnlockRequest,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::wire::{Call, Reply};

/// A store that can be stopped and started again, with its data.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    pub(crate) store: MemoryProvider,
    pub(crate) has_container: Arc<AtomicBool>,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl Server {
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = Self {
            addr: listener.local_addr()?,
            store: MemoryProvider::new(),
            has_container: Arc::new(AtomicBool::new(true)),
            running: Mutex::new(None),
        };
        server.run(listener);
        Ok(server)
    }

    /// Ends it with all of its connections.
    pub(crate) async fn stop(&self) {
        let running = self.running.lock().expect("nobody panics with it").take();
        if let Some(running) = running {
            running.abort();
            let _ = running.await;
        }
    }

    pub(crate) fn start_again(&self) -> Result<(), BoxError> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(self.addr)?;
        self.run(socket.listen(64)?);
        Ok(())
    }

    fn run(&self, listener: TcpListener) {
        let (store, has_container) = (self.store.clone(), Arc::clone(&self.has_container));
        let running = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                connections.spawn(serve(stream, store.clone(), Arc::clone(&has_container)));
            }
        });
        *self.running.lock().expect("nobody panics with it") = Some(running);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.lock().expect("nobody panics with it").take() {
            running.abort();
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    store: MemoryProvider,
    has_container: Arc<AtomicBool>,
) -> Result<(), BoxError> {
    let (reading, mut writing) = stream.split();
    let mut lines = BufReader::new(reading).lines();
    while let Some(line) = lines.next_line().await? {
        let reply = if has_container.load(Ordering::SeqCst) {
            answer(&store, serde_json::from_str(&line)?)
                .await
                .unwrap_or_else(|error| Reply::failed(&error))
        } else {
            Reply::failed(&Error::new(
                ErrorKind::Configuration,
                "there is no container: restore it",
            ))
        };
        let mut line = serde_json::to_vec(&reply)?;
        line.push(b'\n');
        writing.write_all(&line).await?;
    }
    Ok(())
}

async fn answer(store: &MemoryProvider, call: Call) -> Result<Reply, Error> {
    Ok(match call {
        Call::Attempt(request) => match store.attempt(&request.attempt()?).await? {
            Attempt::Acquired(lease) => Reply::Acquired((&lease).into()),
            Attempt::Skipped(skip) => Reply::Skipped(skip.into()),
            _ => return Err(unknown_answer()),
        },
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
        } => {
            let mut request = UnlockRequest::new();
            if ignores_at_least {
                request = request.ignoring_at_least();
            }
            match store.unlock(&lease.lease()?, &request).await? {
                Unlock::Unlocked => Reply::Unlocked,
                _ => Reply::Lost,
            }
        }
        Call::Inspect(name) => {
            let found = store.inspect(&LockName::new(name)?).await?;
            Reply::Found(found.map(Into::into))
        }
        Call::List {
            after,
            limit,
            held_only,
        } => {
            let mut request = ListRequest::new().limit(limit);
            if let Some(after) = after {
                request = request.after(LockName::new(after)?);
            }
            if held_only {
                request = request.held_only();
            }
            let page = store.list(&request).await?;
            Reply::Listed(page.into_iter().map(Into::into).collect())
        }
        Call::ForceUnlock {
            name,
            expected_owner,
        } => {
            let mut request = ForceUnlockRequest::new(LockName::new(name)?);
            if let Some(owner) = expected_owner {
                request = request.expecting_owner(owner);
            }
            match store.force_unlock(&request).await? {
                ForceUnlock::Freed(record) => Reply::Freed(record.into()),
                ForceUnlock::NotHeld => Reply::NotHeld,
                ForceUnlock::OwnerDiffers(record) => Reply::OwnerDiffers(record.into()),
                _ => return Err(unknown_answer()),
            }
        }
    })
}

fn unknown_answer() -> Error {
    Error::new(ErrorKind::Internal, "an answer without a place on the wire")
}

//! A TCP proxy on loopback that loses, delays and cuts traffic on demand.
//!
//! It stands between a client and its store and does not parse their protocol: the data of one read
//! from a client is a *request*, and the data from the store is a *reply*. A fault applies to all
//! connections ([`Proxy::set`]) or strikes once, at the request that matches
//! ([`Proxy::on_request`]).
//!
//! ```
//! use shedlock_conformance::proxy::{Proxy, Strike, contains};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! # async fn echo() -> std::io::Result<std::net::SocketAddr> {
//! #     let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! #     let addr = listener.local_addr()?;
//! #     tokio::spawn(async move {
//! #         while let Ok((mut stream, _)) = listener.accept().await {
//! #             tokio::spawn(async move {
//! #                 let (mut read, mut write) = stream.split();
//! #                 tokio::io::copy(&mut read, &mut write).await
//! #             });
//! #         }
//! #     });
//! #     Ok(addr)
//! # }
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let store = echo().await?;
//! let proxy = Proxy::start(store).await?;
//! let armed = proxy.on_request(contains("payroll"), 1, Strike::CutBeforeReply);
//!
//! let mut client = tokio::net::TcpStream::connect(proxy.addr()).await?;
//! client.write_all(b"lock payroll").await?;
//! let mut reply = Vec::new();
//! // The store received the request; its reply is lost.
//! let _ = client.read_to_end(&mut reply).await;
//! assert!(reply.is_empty() && armed.has_struck());
//! # Ok::<(), std::io::Error>(()) }).unwrap();
//! ```

mod connection;
mod meter;
mod rules;
mod trap;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use meter::{Meter, Traffic};
use rules::Rules;
pub use rules::{Counter, Matcher, Strike, contains, contains_any, http2_control};
pub use trap::{Delivery, Trap};

/// A fault that applies to all connections until it is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Everything passes.
    #[default]
    None,
    /// Connections are cut, and new ones are refused.
    Refuse,
    /// Connections stay open, but nothing passes (half-open connections).
    Swallow,
    /// Everything passes after this delay.
    Delay {
        /// From the client to the store.
        to_store: Duration,
        /// From the store to the client.
        to_client: Duration,
    },
}

/// The proxy. When it is dropped, it stops listening and cuts its connections.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    rules: Arc<Rules>,
    commands: mpsc::Sender<Command>,
    listening: JoinHandle<()>,
}

struct Command {
    listens: bool,
    done: oneshot::Sender<io::Result<()>>,
}

impl Proxy {
    /// Starts a proxy for this store on a free loopback port.
    ///
    /// # Errors
    /// If no port is available.
    pub async fn start(store: SocketAddr) -> io::Result<Self> {
        let keeper = bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let addr = keeper.local_addr()?;
        let (keeper, listener) = match listen(addr) {
            Ok(listener) => (Some(keeper), listener),
            // If the system does not allow two sockets on one port.
            Err(_) => (None, keeper.listen(128)?),
        };
        let rules = Arc::new(Rules::new());
        let (commands, inbox) = mpsc::channel(1);
        let door = Door {
            addr,
            store,
            rules: Arc::clone(&rules),
            _keeper: keeper,
        };
        let listening = tokio::spawn(door.attend(listener, inbox));
        Ok(Self {
            addr,
            rules,
            commands,
            listening,
        })
    }

    /// Returns the address for clients to connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the fault for all connections. It is in effect when this returns.
    ///
    /// # Errors
    /// If the proxy cannot listen on its port again after [`Fault::Refuse`].
    pub async fn set(&self, fault: Fault) -> io::Result<()> {
        self.rules.set(fault);
        if fault == Fault::Refuse {
            self.cut_all();
        }
        let (done, answer) = oneshot::channel();
        let command = Command {
            listens: fault != Fault::Refuse,
            done,
        };
        let gone = || io::Error::other("the proxy's listener is gone");
        self.commands.send(command).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Removes the fault and all armed strikes. Connections that were swallowed or cut stay that
    /// way.
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub async fn heal(&self) -> io::Result<()> {
        self.rules.disarm();
        self.set(Fault::None).await
    }

    /// Strikes once, at the `nth` request (from 1) that matches.
    pub fn on_request(&self, matcher: Matcher, nth: usize, strike: Strike) -> Trap {
        self.rules.arm(matcher, nth, strike)
    }

    /// Counts the matching requests from now on.
    pub fn count(&self, matcher: Matcher) -> Counter {
        self.rules.count(matcher)
    }

    /// Counts round trips and bytes from now on, except for packets that match `chatter`:
    /// heartbeats and control messages of the protocol.
    pub fn measure(&self, chatter: Option<Matcher>) -> Meter {
        self.rules.measure(chatter)
    }

    /// Cuts all current connections.
    pub fn cut_all(&self) {
        self.rules.cut_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.rules.cut_all();
    }
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    bind(addr)?.listen(128)
}

fn bind(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // So that the port can be bound again while old connections linger.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

/// Accepts clients.
struct Door {
    addr: SocketAddr,
    store: SocketAddr,
    rules: Arc<Rules>,
    /// Does not listen, but reserves the port while connections are refused, so that the system
    /// does not assign it to an outgoing connection.
    _keeper: Option<TcpSocket>,
}

impl Door {
    async fn attend(self, listener: TcpListener, mut inbox: mpsc::Receiver<Command>) {
        let mut listener = Some(listener);
        loop {
            tokio::select! {
                command = inbox.recv() => {
                    let Some(command) = command else { return };
                    // The caller may have given up; the result then has no receiver.
                    let _ = command.done.send(self.turn(&mut listener, command.listens));
                }
                Some(client) = accept(listener.as_ref()) => self.let_in(client),
            }
        }
    }

    fn turn(&self, listener: &mut Option<TcpListener>, listens: bool) -> io::Result<()> {
        match (listens, listener.is_some()) {
            (true, false) => *listener = Some(listen(self.addr)?),
            (false, true) => *listener = None,
            _ => {}
        }
        Ok(())
    }

    fn let_in(&self, client: TcpStream) {
        if self.rules.fault() == Fault::Refuse {
            return;
        }
        let (store, rules) = (self.store, Arc::clone(&self.rules));
        let (id, line) = rules.open();
        tokio::spawn(async move {
            // If the store cannot be reached, the client sees a closed connection.
            if let Ok(store) = TcpStream::connect(store).await {
                connection::run(client, store, &rules, id, line).await;
            }
        });
    }
}

/// Returns the next client; `None` if it disconnected immediately. Waits forever without a
/// listener.
async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.ok().map(|(client, _)| client),
        None => std::future::pending().await,
    }
}

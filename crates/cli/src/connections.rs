//! Connections of clients: how long one may take to send a request, and how many one client may have.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::Server;
use axum_server::accept::Accept;
use rustix::net::sockopt;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How long a browser may take to send the headers of a request, or stay idle before the next one. Pages update every
/// 10 seconds.
const OF_BROWSER: Duration = Duration::from_secs(15);

/// The same for a program. Proxies and Prometheus keep idle connections for up to 60 s, and one that is closed under them
/// can fail a request.
const OF_PROGRAM: Duration = Duration::from_secs(75);

/// How many connections an address may have at once. A browser opens six.
const MOST: usize = 100;

/// How many connections there may be at once, but no more than half of the descriptors that the process may have.
const MOST_IN_ALL: usize = 1_000;

/// How long a connection may be silent before the operating system asks whether its client still exists.
const SILENCE: Duration = Duration::from_secs(60);

/// Accepts connections, as many as there may be, and as many as each address may have.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    most_in_all: usize,
    /// A proxy has the connections of all its clients, so its address has no limit of its own.
    is_behind_proxy: bool,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    of: HashMap<IpAddr, usize>,
    in_all: usize,
    /// A connection was refused because there are too many.
    is_over: bool,
}

impl Limiter {
    pub(crate) fn new(is_behind_proxy: bool) -> Self {
        let descriptors = getrlimit(Resource::Nofile).current;
        let half = descriptors.and_then(|most| usize::try_from(most / 2).ok());
        Self {
            most_in_all: half.map_or(MOST_IN_ALL, |half| half.min(MOST_IN_ALL)),
            is_behind_proxy,
            open: Arc::default(),
        }
    }

    fn admit(&self, stream: TcpStream) -> io::Result<Counted> {
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, SILENCE)?;
        let address = client(stream.peer_addr()?.ip());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.in_all >= self.most_in_all {
            let most = self.most_in_all;
            if !mem::replace(&mut open.is_over, true) {
                tracing::warn!(
                    "connections are refused: there are {most} already; close some, or raise the limit of open files \
                     (ulimit -n) if it is below {}",
                    2 * MOST_IN_ALL
                );
            }
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let count = open.of.entry(address).or_default();
        if *count >= MOST && !self.is_behind_proxy {
            tracing::info!(%address, "a connection was refused: this address has {MOST} already");
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        *count += 1;
        open.in_all += 1;
        drop(open);
        let open = self.open.clone();
        Ok(Counted {
            stream,
            _place: Place { open, address },
        })
    }
}

/// The address by which a client is counted. One client usually has a whole network of IPv6 addresses.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

/// Sets how long clients may take to send the headers of a request.
pub(crate) fn limit_headers<A: axum_server::Address, B>(
    server: Server<A, B>,
    is_for_browsers: bool,
) -> Server<A, B> {
    let limit = if is_for_browsers {
        OF_BROWSER
    } else {
        OF_PROGRAM
    };
    // Without this, a client may also take any time to choose between HTTP/1 and HTTP/2.
    let mut server = server.http1_only();
    server.http_builder().http1().header_read_timeout(limit);
    server
}

impl<S> Accept<TcpStream, S> for Limiter {
    type Stream = Counted;
    type Service = S;
    type Future = Ready<io::Result<(Counted, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        ready(self.admit(stream).map(|stream| (stream, service)))
    }
}

/// A connection that counts until it is closed.
#[derive(Debug)]
pub(crate) struct Counted {
    stream: TcpStream,
    _place: Place,
}

#[derive(Debug)]
struct Place {
    open: Arc<Mutex<Open>>,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.in_all -= 1;
        open.is_over = false;
        if let Some(count) = open.of.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.of.remove(&self.address);
            }
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn all_connections_together_are_bounded_and_notice_a_client_that_is_gone() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let limiter = Limiter {
            most_in_all: 3,
            ..Limiter::new(true)
        };
        let mut clients = Vec::new();
        let mut connect = async || {
            clients.push(TcpStream::connect(address).await.unwrap());
            let (stream, _) = listener.accept().await.unwrap();
            limiter.admit(stream)
        };
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(connect().await.unwrap());
        }
        for _ in 0..2 {
            assert!(connect().await.is_err());
        }
        let first = open.remove(0);
        assert!(sockopt::socket_keepalive(&first.stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&first.stream).unwrap(), SILENCE);
        drop(first);
        open.push(connect().await.unwrap());
        assert!(connect().await.is_err());
        drop(open);
        assert_eq!(limiter.open.lock().unwrap().in_all, 0);
    }

    #[test]
    fn a_client_with_many_addresses_of_ipv6_is_counted_once() {
        let of = |text: &str| client(text.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2::7"));
        assert_ne!(of("2001:db8:1:2::7"), of("2001:db8:1:3::7"));
    }
}

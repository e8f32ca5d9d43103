//! Connections of clients: how long one may take to send a request, and how many one client may have.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::Server;
use axum_server::accept::Accept;
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

/// Accepts connections, as many as each address may have.
#[derive(Clone, Debug)]
pub(crate) struct Limiter(Option<Arc<Mutex<HashMap<IpAddr, usize>>>>);

impl Limiter {
    /// A proxy has the connections of all its clients, so it has no limit.
    pub(crate) fn new(is_behind_proxy: bool) -> Self {
        Self((!is_behind_proxy).then(Arc::default))
    }

    fn admit(&self, stream: TcpStream) -> io::Result<Counted> {
        let Some(open) = &self.0 else {
            return Ok(Counted {
                stream,
                _place: None,
            });
        };
        let address = client(stream.peer_addr()?.ip());
        let mut counts = open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= MOST {
            drop(counts);
            tracing::info!(%address, "a connection was refused: this address has {MOST} already");
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        *count += 1;
        drop(counts);
        let open = open.clone();
        Ok(Counted {
            stream,
            _place: Some(Place { open, address }),
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
    _place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
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

    #[test]
    fn a_client_with_many_addresses_of_ipv6_is_counted_once() {
        let of = |text: &str| client(text.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2::7"));
        assert_ne!(of("2001:db8:1:2::7"), of("2001:db8:1:3::7"));
    }
}

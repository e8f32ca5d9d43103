//! An address that stays the same while what is behind it changes, as of a proxy or a virtual IP.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on to the current server.
#[derive(Debug)]
pub(crate) struct Address {
    here: SocketAddr,
    server: watch::Sender<Option<SocketAddr>>,
}

impl Address {
    /// Leads nowhere yet: connections are closed at once.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let here = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        let (server, current) = watch::channel(None);
        tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else {
                    continue;
                };
                tokio::spawn(pass(client, current.clone()));
            }
        });
        Ok(Self { here, server })
    }

    pub(crate) const fn here(&self) -> SocketAddr {
        self.here
    }

    /// Leads to this server from now on. Connections to another one are cut.
    pub(crate) fn lead_to(&self, server: Option<&str>) -> anyhow::Result<()> {
        let server = server.map(|url| {
            let sockets = url::Url::parse(url)?.socket_addrs(|| None)?;
            sockets.first().copied().context("no address")
        });
        self.server.send_replace(server.transpose()?);
        Ok(())
    }
}

async fn pass(mut client: TcpStream, mut server: watch::Receiver<Option<SocketAddr>>) {
    let now = *server.borrow_and_update();
    let Some(now) = now else { return };
    let Ok(mut there) = TcpStream::connect(now).await else {
        return;
    };
    // Both sides see the end of the connection when this returns.
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut there) => {}
        _ = server.changed() => {}
    }
}

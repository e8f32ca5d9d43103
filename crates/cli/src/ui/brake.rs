//! A brake on guesses of passwords.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use shedlock::{Clock as _, Moment, SystemClock};

use crate::connections::client;

/// How many refused sign-ins an address may have within [`WINDOW`].
const MOST: u32 = 5;

const WINDOW: Duration = Duration::from_secs(60);

/// The refused sign-ins of each address.
#[derive(Debug, Default)]
pub(super) struct Brake(Mutex<HashMap<IpAddr, Refused>>);

#[derive(Clone, Copy, Debug)]
struct Refused {
    count: u32,
    /// The first of them. For an address that is refused for now, the last one.
    since: Moment,
}

impl Refused {
    fn left(self, now: Moment) -> Duration {
        WINDOW.saturating_sub(now.saturating_since(self.since))
    }
}

impl Brake {
    /// For how long this address is not answered, if it had too many refused sign-ins.
    pub(super) fn wait(&self, address: IpAddr) -> Option<Duration> {
        let refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = refused.get(&client(address))?;
        let left = found.left(SystemClock.now());
        (found.count >= MOST && !left.is_zero()).then_some(left)
    }

    /// Counts a refused sign-in.
    pub(super) fn count(&self, address: IpAddr) {
        let now = SystemClock.now();
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Each refused sign-in takes a while, one at a time, so there are few.
        refused.retain(|_, it| !it.left(now).is_zero());
        let found = refused.entry(client(address)).or_insert(Refused {
            count: 0,
            since: now,
        });
        found.count += 1;
        if found.count >= MOST {
            found.since = now;
        }
    }
}

/// The address that a request came from.
///
/// Behind a proxy it is the last one in `X-Forwarded-For`, which the proxy has added; the client may have sent those
/// before it. `None` if the proxy adds none: its own address is that of all clients.
pub(super) fn address(request: &Request, is_behind_proxy: bool) -> Option<IpAddr> {
    if !is_behind_proxy {
        let connection = request.extensions().get::<ConnectInfo<SocketAddr>>();
        return connection.map(|ConnectInfo(peer)| peer.ip().to_canonical());
    }
    let last = request
        .headers()
        .get_all("x-forwarded-for")
        .iter()
        .next_back()?;
    let last = last.to_str().ok()?.rsplit(',').next()?.trim();
    let with_port = |text: &str| text.parse().ok().map(|it: SocketAddr| it.ip());
    last.parse().ok().or_else(|| with_port(last))
}

//! The time within which a store must be connected.

use std::time::Duration;

use shedlock::{Error, ErrorKind, SystemClock};
use shedlock_core::within;

use super::Address;
use super::url::with_option;
use crate::output;

/// The store's client knows what went wrong, so it gets the same limit, and this long to report it.
const REPORT: Duration = Duration::from_millis(500);

impl Address {
    /// The same with this limit for connecting, unless it is a file or in memory.
    pub(super) fn limited(&self, limit: Option<Duration>) -> Self {
        let limited = |limit: Duration| {
            let Self::Url(url) = self else { return None };
            let (scheme, _) = url.split_once("://")?;
            let is_server = ["sqlite", "memory"]
                .iter()
                .all(|it| !scheme.eq_ignore_ascii_case(it));
            let limit = format!("{}ms", limit.as_millis().max(1));
            is_server.then(|| Self::Url(with_option(url, "connect_timeout", &limit)))
        };
        limit.and_then(limited).unwrap_or_else(|| self.clone())
    }
}

/// Opens a store within the shorter of these times, if there is one: that of --connect-timeout, and
/// what is left of a wait for the lock.
pub(super) async fn in_time<T, E: From<Error>>(
    own: Option<Duration>,
    wait: Option<Duration>,
    place: &str,
    opening: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let longest = own.map(|own| own + REPORT);
    let Some(limit) = longest.into_iter().chain(wait).min() else {
        return opening.await;
    };
    let (shown, option) = match own.filter(|_| longest == Some(limit)) {
        Some(own) => (own, " (--connect-timeout)"),
        None => (limit, ""),
    };
    within(&SystemClock, limit, opening)
        .await
        .unwrap_or_else(|| {
            let within = output::duration(shown);
            let what = format!("cannot connect to {place} within {within}{option}");
            let error = Error::new(ErrorKind::Unavailable, what);
            let error = error.advise("check that the store is running and its URL is right");
            Err(E::from(error))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_replaces_the_connect_timeout_of_the_url_of_a_server() {
        let limited = |url: &str, limit| match Address::Url(url.to_owned()).limited(limit) {
            Address::Url(url) => url,
            other => panic!("{other:?}"),
        };
        let limit = Some(Duration::from_secs(2));
        for (url, expected) in [
            ("redis://h:1", "redis://h:1?connect_timeout=2000ms"),
            (
                "etcd://h/?connect_timeout=1s&tls_ca=/a",
                "etcd://h/?tls_ca=/a&connect_timeout=2000ms",
            ),
        ] {
            assert_eq!(limited(url, limit), expected);
            assert_eq!(limited(url, None), url);
        }
        for url in ["sqlite:/a.db", "sqlite:///a.db", "memory:", "memory://"] {
            assert_eq!(limited(url, limit), url);
        }
    }
}

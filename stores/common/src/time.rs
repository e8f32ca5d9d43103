//! The clock that leases are judged by, for stores that offer a choice.

use std::time::Duration;

use shedlock_core::ClockSource;

use crate::errors::{Result, invalid};
use crate::url::UrlOptions;

/// The clock that leases are judged by, in stores that support either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeMode {
    /// The store's clock. The clients' clocks may be wrong by any amount.
    #[default]
    Store,
    /// Each client's own clock, as ShedLock uses by default. Among clients of shedlock, exclusion holds as long as
    /// their clocks differ by less than the tolerated skew, which you have to ensure. The provider declares the skew in
    /// its capabilities, and the runtime stops relying on a lease before its end, by that skew. The store's
    /// documentation describes what holds when you share locks with ShedLock for Java.
    Client {
        /// The tolerated difference between clocks, as declared.
        tolerated_skew: Duration,
    },
}

impl TimeMode {
    /// Returns the clients' clocks, with a declared skew of one second.
    pub const fn client() -> Self {
        Self::Client {
            tolerated_skew: Duration::from_secs(1),
        }
    }

    /// Whether leases are judged by the clients' clocks.
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client { .. })
    }

    /// Returns the clock source that capabilities declare.
    pub const fn source(self) -> ClockSource {
        match self {
            Self::Store => ClockSource::Store,
            Self::Client { tolerated_skew } => ClockSource::Clients { tolerated_skew },
        }
    }

    /// Takes `time` (`store` or `client`) from a URL and, for the clients' clocks, `tolerated_skew`.
    pub fn take(options: &mut UrlOptions) -> Result<Self> {
        let modes = [("store", Self::Store), ("client", Self::client())];
        let mode = options.choice("time", &modes)?.unwrap_or_default();
        match options.duration("tolerated_skew")? {
            None => Ok(mode),
            Some(tolerated_skew) if mode.is_client() => Ok(Self::Client { tolerated_skew }),
            Some(_) => Err(invalid(
                "option \"tolerated_skew\" in the URL requires time=client: with the store's \
                 clock, there is no skew to tolerate",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skew_is_tolerated_only_where_clients_judge() {
        let take = |text| TimeMode::take(&mut UrlOptions::parse(text));
        assert_eq!(take("").unwrap(), TimeMode::Store);
        assert_eq!(take("time=client").unwrap(), TimeMode::client());
        let tolerated_skew = Duration::from_millis(250);
        let client = take("time=client&tolerated_skew=250ms").unwrap();
        assert_eq!(client, TimeMode::Client { tolerated_skew });
        for text in [
            "time=mine",
            "tolerated_skew=1s",
            "time=store&tolerated_skew=1s",
        ] {
            assert!(take(text).is_err(), "{text}");
        }
    }
}

//! The two ways to make a provider: from a client that the user has, and from a URL.

use std::sync::Arc;

use shedlock_core::{ErrorKind, Schema};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use crate::errors::Result;
use crate::url::Host;
use crate::{Store, StoreProvider, Versioned, VersionedStore};

/// A store that a builder makes from a client that the user has: [`StoreProvider::builder`].
///
/// The builder has one method per setting, with the setting's name, and a `build` method that checks the settings
/// without any I/O.
pub trait FromClient {
    /// The client that reaches the store.
    type Client;
    /// The builder that holds the settings.
    type Builder;

    /// Returns a builder with ShedLock's own defaults, if ShedLock has any for this store.
    fn builder(client: Self::Client) -> Self::Builder;
}

/// A store whose client is enough to make a provider: [`StoreProvider::new`].
pub trait NeedsNoSettings: FromClient {
    /// The store behind the provider: `Self`, or [`Versioned`] around it.
    type Store: Store;

    /// Makes a provider with default settings.
    fn with_defaults(client: Self::Client) -> StoreProvider<Self::Store>;
}

/// A store that opens connections of its own beside a client: [`StoreProvider::beside`].
pub trait BesideClient: NeedsNoSettings {
    /// Makes a provider with default settings, over connections with the options that the client has now.
    fn beside(client: &Self::Client) -> StoreProvider<Self::Store>;
}

/// Why [`NeedsNoSettings`] cannot fail.
#[doc(hidden)]
pub const VALID: &str = "the default settings are valid";

/// A store that a URL describes: [`StoreProvider::connect`].
pub trait FromUrl {
    /// The same name as [`Store::name`].
    const NAME: &'static str;

    /// The store behind the provider: `Self`, or [`Versioned`] around it.
    type Store: Store;

    /// Makes the provider that a URL describes. Reads the files that the URL names. Returns `InvalidInput` if the URL
    /// is wrong and `Configuration` if a file cannot be used. Other kinds are possible if making the client requires a
    /// connection.
    fn from_url(url: &str) -> impl Future<Output = Result<StoreProvider<Self::Store>>> + Send;

    /// Makes another provider over connections of its own, for
    /// [`for_duties`](shedlock_core::LockProvider::for_duties). Creates nothing in the store, even if
    /// [`from_url`](Self::from_url) does.
    fn again_from_url(
        url: &str,
    ) -> impl Future<Output = Result<StoreProvider<Self::Store>>> + Send {
        Self::from_url(url)
    }

    /// Returns what the store of this URL needs, as [`Store::schema`]. Nothing is connected to or created.
    fn schema(url: &str) -> impl Future<Output = Result<Schema>> + Send {
        async { Ok(Self::from_url(url).await?.backend().schema()) }
    }

    /// Returns the address that the client connects to, for errors, if the client may choose another one than the URL
    /// contains.
    fn address(_store: &Self::Store, _url: &str) -> Option<String> {
        None
    }

    /// Checks that the store can be reached: [`Store::check`] unless overridden.
    fn reach(store: &Self::Store) -> impl Future<Output = Result<()>> + Send {
        store.check()
    }
}

impl<S: FromClient> FromClient for Versioned<S> {
    type Client = S::Client;
    type Builder = S::Builder;

    fn builder(client: S::Client) -> S::Builder {
        S::builder(client)
    }
}

impl<S: NeedsNoSettings<Store = Self> + VersionedStore> NeedsNoSettings for Versioned<S> {
    type Store = Self;

    fn with_defaults(client: S::Client) -> StoreProvider<Self> {
        S::with_defaults(client)
    }
}

impl<S: FromUrl<Store = Self> + VersionedStore> FromUrl for Versioned<S> {
    const NAME: &'static str = S::NAME;

    type Store = Self;

    async fn from_url(url: &str) -> Result<StoreProvider<Self>> {
        S::from_url(url).await
    }

    async fn schema(url: &str) -> Result<Schema> {
        <S as FromUrl>::schema(url).await
    }

    fn address(store: &Self, url: &str) -> Option<String> {
        S::address(store, url)
    }

    async fn reach(store: &Self) -> Result<()> {
        S::reach(store).await
    }
}

impl<S: NeedsNoSettings<Store = S> + Store> StoreProvider<S> {
    /// Makes a provider from the client that you have, with default settings. Nothing is sent before the first use.
    pub fn new(client: impl Into<S::Client>) -> Self {
        S::with_defaults(client.into())
    }
}

impl<S: BesideClient<Store = S> + Store> StoreProvider<S> {
    /// Makes a provider with default settings that opens a few connections of its own, with the options of your client,
    /// and leaves yours alone. The store's crate says how many. Nothing is sent before the first use.
    pub fn beside(client: &S::Client) -> Self {
        <S as BesideClient>::beside(client)
    }
}

impl<S: FromClient> StoreProvider<S> {
    /// Makes a provider from the client that you have. The store's crate documents the settings.
    pub fn builder(client: impl Into<S::Client>) -> S::Builder {
        S::builder(client.into())
    }
}

impl<S: FromUrl<Store = S> + Store> StoreProvider<S> {
    /// Makes a provider from a URL, and checks that the store can be reached. The store's crate documents the options.
    ///
    /// # Errors
    /// `InvalidInput` if the URL is wrong; `Configuration` if a file that it names cannot be used, or if the store
    /// refuses the user; `Unavailable` if the store does not reply. Errors show the hosts and the path of the URL, never
    /// its user, password or options.
    pub async fn connect(url: &str) -> Result<Self> {
        let address = address(url);
        let provider = S::from_url(url).await.map_err(|error| {
            let error = error.of_url(url).with_store(S::NAME);
            match &address {
                // In a URL that cannot be read, a password may stand where a host should.
                Some(address) if error.kind() != ErrorKind::InvalidInput => {
                    error.with_address(address)
                }
                _ => error,
            }
        });
        let provider = provider?;
        let chosen = Some(url).filter(|url| !hides_password(url));
        let chosen = chosen.and_then(|url| S::address(provider.backend(), url));
        let provider = provider.at(chosen.or(address));
        let reached = provider.bounded(ErrorKind::Unavailable, S::reach(provider.backend()));
        reached.await?;
        let again: Arc<str> = Arc::from(url);
        Ok(provider.reopened_by(move || {
            let url = Arc::clone(&again);
            async move {
                S::again_from_url(&url)
                    .await
                    .map_err(|error| error.of_url(&url))
            }
        }))
    }

    /// Returns what the store at this URL needs before it can keep locks. Connects to nothing and creates nothing: the
    /// server need not exist.
    ///
    /// # Errors
    /// `InvalidInput` if the URL is wrong; `Configuration` if a file that it names cannot be used.
    pub async fn schema_of(url: &str) -> Result<Schema> {
        // Warnings about a connection that is never made would only confuse.
        let schema = <S as FromUrl>::schema(url).with_subscriber(NoSubscriber::default());
        schema
            .await
            .map_err(|error| error.of_url(url).with_store(S::NAME))
    }
}

/// The hosts and the path of a URL, without user, password and options. `None` if they are not certain, or if there are
/// none.
fn address(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    if hides_password(url) {
        return None;
    }
    let place = rest.split(['?', '#']).next()?;
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let hosts = authority
        .rsplit_once('@')
        .map_or(authority, |(_, hosts)| hosts);
    let address = format!("{hosts}{}", path.trim_end_matches('/'));
    let are_hosts = hosts.split(',').all(|host| Host::parse(host).is_some());
    let is_shown = are_hosts && !address.contains(char::is_control);
    is_shown.then_some(address)
}

/// Whether a part of the URL that seems to be a host may belong to a password: one that contains a `/`, `?` or `#` would
/// end at that character, and the `@` after it would come too late.
fn hides_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let after = rest.find(['/', '?', '#']).map_or("", |end| &rest[end..]);
    after.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_hosts_and_path_and_nothing_secret() {
        for (url, shown) in [
            (
                "postgres://app:secret@db:5432/app?sslmode=secret",
                Some("db:5432/app"),
            ),
            ("redis://:secret@a,b:1/", Some("a,b:1")),
            (
                "mongodb://a:s@e@[::1]:27017/app/locks",
                Some("[::1]:27017/app/locks"),
            ),
            ("nats://127.0.0.1", Some("127.0.0.1")),
            ("postgres://app:se/cret@db/app", None),
            ("postgres://app:se?cret@db/app", None),
            ("postgres://app:se#cret@db/app", None),
            ("postgres:///app", None),
            ("etcd://u:secret", None),
            ("sqlite:locks.db", None),
        ] {
            assert_eq!(address(url).as_deref(), shown, "{url}");
        }
    }
}

//! The two ways to make a provider: from a client that the user has, and from a URL.

use shedlock_core::ErrorKind;

use crate::errors::Result;
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

impl<S: FromUrl<Store = Self> + VersionedStore> FromUrl for Versioned<S> {
    const NAME: &'static str = S::NAME;

    type Store = Self;

    async fn from_url(url: &str) -> Result<StoreProvider<Self>> {
        S::from_url(url).await
    }

    async fn reach(store: &Self) -> Result<()> {
        S::reach(store).await
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
    /// refuses the user; `Unavailable` if the store does not reply. No message contains the URL.
    pub async fn connect(url: &str) -> Result<Self> {
        let provider = S::from_url(url).await.map_err(|error| error.of_url(url));
        let provider = provider.map_err(|error| error.with_store(S::NAME))?;
        let reached = provider.bounded(ErrorKind::Unavailable, S::reach(provider.backend()));
        reached.await?;
        Ok(provider)
    }
}

//! The two ways to a provider: over a client that the user has, and from a URL.

use shedlock_core::ErrorKind;

use crate::errors::Result;
use crate::{Store, StoreProvider, Versioned, VersionedStore};

/// A store that a builder makes over a client of the user's: [`StoreProvider::builder`].
///
/// The builder has a method for each setting, called like it, and a `build` that checks them without any I/O.
pub trait FromClient {
    /// What the store is reached through.
    type Client;
    /// Sets how.
    type Builder;

    /// A builder with ShedLock's own settings, where it has any.
    fn builder(client: Self::Client) -> Self::Builder;
}

/// A store that a URL describes: [`StoreProvider::connect`].
pub trait FromUrl {
    /// As [`Store::name`].
    const NAME: &'static str;

    /// What the provider is made over: `Self`, or [`Versioned`] around it.
    type Store: Store;

    /// The provider that a URL describes. Reads the files that it names.
    /// `InvalidInput` for what is wrong with the URL; `Configuration` for a file that cannot be used; others where it
    /// takes a connection to make a client.
    fn from_url(url: &str) -> impl Future<Output = Result<StoreProvider<Self::Store>>> + Send;

    /// Reaches the store, or reports why not: [`Store::check`], unless overridden.
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
    /// Makes a provider over the client that you have. The crate of the store documents the settings.
    pub fn builder(client: impl Into<S::Client>) -> S::Builder {
        S::builder(client.into())
    }
}

impl<S: FromUrl<Store = S> + Store> StoreProvider<S> {
    /// Makes a provider from a URL, and reaches the store. The crate of the store documents the options.
    ///
    /// # Errors
    /// `InvalidInput` for what is wrong with the URL, and `Configuration` for a file that it names and that cannot be
    /// used, or where the store refuses the user; `Unavailable` where it does not answer. No message shows the URL.
    pub async fn connect(url: &str) -> Result<Self> {
        let provider = S::from_url(url).await.map_err(|error| error.of_url(url));
        let provider = provider.map_err(|error| error.with_store(S::NAME))?;
        let reached = provider.bounded(ErrorKind::Unavailable, S::reach(provider.backend()));
        reached.await?;
        Ok(provider)
    }
}

//! Namespaces.

use std::sync::Arc;

use crate::BoxFuture;
use crate::contract::{
    Attempt, AttemptRequest, Capabilities, Change, Changed, Error, ExtendRequest, Extension, Lease,
    ListRequest, LockName, LockProvider, LockRecord, ProviderIdentity, Seen, Unlock, UnlockRequest,
};

/// Puts a prefix before every name, so that teams can share one store.
///
/// The prefix is used as given, so include a separator if you want one. Choose prefixes so that
/// none is the beginning of another, such as "billing:" and "billing-eu:". Otherwise their names
/// can collide. Errors and the store show the whole name. Leases, records and lists show the name
/// without the prefix.
///
/// ```
/// use shedlock::{LockProvider, MemoryProvider, PrefixProvider};
/// use std::sync::Arc;
/// let provider = PrefixProvider::new(Arc::new(MemoryProvider::new()), "billing:")?;
/// assert_eq!(provider.store(), "memory");
/// # Ok::<(), shedlock::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PrefixProvider {
    inner: Arc<dyn LockProvider>,
    prefix: LockName,
}

impl PrefixProvider {
    /// Wraps a provider.
    ///
    /// # Errors
    /// `InvalidInput` for a prefix that cannot begin a name: empty, blank, or with control
    /// characters.
    pub fn new(inner: Arc<dyn LockProvider>, prefix: &str) -> Result<Self, Error> {
        Ok(Self {
            inner,
            prefix: LockName::new(prefix)?,
        })
    }

    fn inside(&self, name: &LockName) -> Result<LockName, Error> {
        if name.is_of_store() {
            return Ok(name.clone());
        }
        LockName::new(format!("{}{name}", self.prefix))
    }

    /// Returns the name without the prefix, or `None` if the name does not start with it.
    fn outside(&self, name: &LockName) -> Option<LockName> {
        let rest = name.as_str().strip_prefix(self.prefix.as_str())?;
        LockName::new(rest).ok()
    }

    fn record_outside(&self, mut record: LockRecord) -> LockRecord {
        if let Some(name) = self.outside(&record.name) {
            record.name = name;
        }
        record
    }
}

impl LockProvider for PrefixProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            let inner = request.clone().with_name(self.inside(&request.name)?);
            Ok(match self.inner.attempt(&inner).await? {
                Attempt::Acquired(lease) => {
                    Attempt::Acquired(lease.with_name(request.name.clone()))
                }
                Attempt::Skipped(skip) => Attempt::Skipped(skip),
            })
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let inner = request.clone().with_name(self.inside(&request.name)?);
            self.inner.withdraw(&inner).await
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            let inner = lease.clone().with_name(self.inside(lease.name())?);
            Ok(match self.inner.extend(&inner, request).await? {
                Extension::Extended(extended) => {
                    Extension::Extended(extended.with_name(lease.name().clone()))
                }
                Extension::Lost => Extension::Lost,
            })
        })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            let inner = lease.clone().with_name(self.inside(lease.name())?);
            self.inner.unlock(&inner, request).await
        })
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(async move {
            // Names with the prefix are contiguous in byte order, right after the prefix itself.
            let after = match request.after.as_ref() {
                Some(name) => self.inside(name)?,
                None => self.prefix.clone(),
            };
            let page = self.inner.list(&request.clone().with_after(after)).await?;
            Ok(page
                .into_iter()
                .take_while(|record| record.name.as_str().starts_with(self.prefix.as_str()))
                .map(|record| self.record_outside(record))
                .collect())
        })
    }

    fn look<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>> {
        Box::pin(async move {
            let mut seen = self.inner.look(&self.inside(name)?).await?;
            if let Some(seen) = &mut seen {
                seen.record.name = name.clone();
            }
            Ok(seen)
        })
    }

    fn change<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async move { self.inner.change(&self.inside(name)?, seen, change).await })
    }

    fn remove<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async move { self.inner.remove(&self.inside(name)?, seen).await })
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.longest_name = capabilities
            .longest_name
            .saturating_sub(self.prefix.as_str().len());
        capabilities
    }

    fn identity(&self) -> ProviderIdentity {
        self.inner.identity().scoped(self.prefix.as_str())
    }

    fn identity_of(&self, name: &LockName) -> ProviderIdentity {
        match self.inside(name) {
            Ok(inside) => self.inner.identity_of(&inside).scoped(self.prefix.as_str()),
            Err(_) => self.identity(),
        }
    }

    fn for_duties(&self) -> Option<BoxFuture<'_, Result<Arc<dyn LockProvider>, Error>>> {
        let opened = self.inner.for_duties()?;
        Some(Box::pin(async move {
            let inner = opened.await?;
            let prefix = self.prefix.clone();
            Ok(Arc::new(Self { inner, prefix }) as Arc<dyn LockProvider>)
        }))
    }

    // The journal is that of the whole store, and has whole names.
    crate::delegate!(inner except attempt, withdraw, extend, unlock, inspect, list, look, change,
        remove, capabilities, identity, identity_of, journal, for_duties);
}

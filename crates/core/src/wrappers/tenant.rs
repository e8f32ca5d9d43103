//! One provider per tenant.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::admin::{Change, Changed, Seen};
use crate::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, Error, ErrorKind, ExtendRequest, Extension,
    Finding, Lease, ListRequest, LockName, LockProvider, LockRecord, Owner, ProviderIdentity,
    Unlock, UnlockRequest,
};

/// Determines the tenant of a lock, and creates the provider of a tenant.
pub trait TenantRouter: fmt::Debug + Send + Sync + 'static {
    /// Returns the tenant of this lock: from its name, or from the context of the call (a
    /// task-local).
    ///
    /// # Errors
    /// `InvalidInput` if there is none.
    fn tenant(&self, name: &LockName) -> Result<String, Error>;

    /// Creates the provider of a tenant. It is called once, at first use; a failure is not cached.
    fn provider<'a>(
        &'a self,
        tenant: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn LockProvider>, Error>>;

    /// Returns what the providers of all tenants can do.
    fn capabilities(&self) -> Capabilities;
}

/// Routes each lock to the provider of its tenant.
///
/// A lease carries its tenant: unlock and extension go to the provider that granted it, whatever
/// the router returns later. An attempt that is repeated or withdrawn goes to the provider that
/// received it first. The same name in two tenants is two locks, for reentrancy too. Listing is per
/// tenant: use the tenant's provider.
#[derive(Clone, Debug)]
pub struct TenantProvider {
    router: Arc<dyn TenantRouter>,
    tenants: Arc<Mutex<HashMap<String, Made>>>,
    /// The tenants that attempts went to. An attempt that is repeated or withdrawn goes there
    /// again, while its owner is still in use elsewhere.
    routes: Arc<Mutex<HashMap<Owner, String>>>,
    identity: ProviderIdentity,
}

type Made = Arc<OnceCell<Arc<dyn LockProvider>>>;

/// The state that our leases carry.
struct Routed {
    provider: Arc<dyn LockProvider>,
    inner: Option<Arc<dyn Any + Send + Sync>>,
}

impl TenantProvider {
    /// Creates a provider that creates the tenants' providers on demand.
    pub fn new(router: Arc<dyn TenantRouter>) -> Self {
        Self {
            router,
            tenants: Arc::default(),
            routes: Arc::default(),
            identity: ProviderIdentity::unique(),
        }
    }

    /// Returns the provider of a tenant, and creates it if necessary.
    ///
    /// # Errors
    /// The errors of the router.
    pub async fn tenant(&self, tenant: &str) -> Result<Arc<dyn LockProvider>, Error> {
        let made = lock(&self.tenants)
            .entry(tenant.to_owned())
            .or_default()
            .clone();
        made.get_or_try_init(|| self.router.provider(tenant))
            .await
            .cloned()
    }

    async fn of(&self, name: &LockName) -> Result<Arc<dyn LockProvider>, Error> {
        self.tenant(&self.router.tenant(name)?).await
    }

    async fn of_attempt(&self, request: &AttemptRequest) -> Result<Arc<dyn LockProvider>, Error> {
        let known = lock(&self.routes).get(request.owner()).cloned();
        let tenant = match known {
            Some(tenant) => tenant,
            None => {
                let tenant = self.router.tenant(request.name())?;
                let mut routes = lock(&self.routes);
                // These attempts can no longer be repeated or withdrawn.
                routes.retain(|owner, _| owner.is_shared());
                routes.insert(request.owner().clone(), tenant.clone());
                tenant
            }
        };
        self.tenant(&tenant).await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn routed(lease: Lease, provider: Arc<dyn LockProvider>) -> Lease {
    let inner = lease.raw_state().cloned();
    lease.with_state(Arc::new(Routed { provider, inner }))
}

/// Returns the provider that granted this lease, and the lease in that provider's form.
fn unrouted(lease: &Lease) -> Result<(Arc<dyn LockProvider>, Lease), Error> {
    let Some(routed) = lease.state::<Routed>() else {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "this lease was not granted by a tenant provider",
        )
        .with_lock(lease.name().as_str()));
    };
    Ok((
        routed.provider.clone(),
        lease.clone().with_raw_state(routed.inner.clone()),
    ))
}

impl LockProvider for TenantProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            let provider = self.of_attempt(request).await?;
            Ok(match provider.attempt(request).await? {
                Attempt::Acquired(lease) => Attempt::Acquired(routed(lease, provider)),
                Attempt::Skipped(skip) => Attempt::Skipped(skip),
            })
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let provider = self.of_attempt(request).await?;
            provider.withdraw(request).await
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            let (provider, inner) = unrouted(lease)?;
            Ok(match provider.extend(&inner, request).await? {
                Extension::Extended(lease) => Extension::Extended(routed(lease, provider)),
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
            let (provider, inner) = unrouted(lease)?;
            provider.unlock(&inner, request).await
        })
    }

    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        Box::pin(async move { self.of(name).await?.inspect(name).await })
    }

    fn list<'a>(&'a self, _: &'a ListRequest) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(async {
            Err(Error::new(
                ErrorKind::Unsupported,
                "locks are listed per tenant: use one tenant's provider",
            )
            .with_store(self.store()))
        })
    }

    fn look<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>> {
        Box::pin(async move { self.of(name).await?.look(name).await })
    }

    fn change<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async move { self.of(name).await?.change(name, seen, change).await })
    }

    fn remove<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async move { self.of(name).await?.remove(name, seen).await })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let made: Vec<_> = lock(&self.tenants)
                .values()
                .filter_map(|made| made.get().cloned())
                .collect();
            for provider in made {
                provider.check().await?;
            }
            Ok(())
        })
    }

    /// Diagnoses the stores of the tenants that were used so far.
    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>> {
        Box::pin(async move {
            let made: Vec<_> = lock(&self.tenants)
                .iter()
                .filter_map(|(tenant, made)| Some((tenant.clone(), made.get()?.clone())))
                .collect();
            let mut findings = Vec::new();
            for (tenant, provider) in made {
                let found = provider.diagnose().await?.into_iter();
                let tenant = format!("tenant {tenant:?}");
                findings.extend(found.map(|finding| finding.about(&tenant)));
            }
            Ok(findings)
        })
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.router.capabilities();
        capabilities.list = false;
        // Each tenant has connections of its own.
        capabilities.duties = false;
        capabilities
    }

    fn identity(&self) -> ProviderIdentity {
        self.identity.clone()
    }

    fn identity_of(&self, name: &LockName) -> ProviderIdentity {
        match self.router.tenant(name) {
            Ok(tenant) => self.identity.scoped(&tenant),
            Err(_) => self.identity.clone(),
        }
    }

    fn store(&self) -> &str {
        "tenants"
    }
}

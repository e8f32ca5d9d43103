//! Harnesses over the small store behind a socket: once directly, and once behind each wrapper.

use std::sync::Arc;

use shedlock_conformance::{Harness, Provider, Tag, wrapped};
use shedlock_core::{
    BoxFuture, Capabilities, Error, LockName, PrefixProvider, TenantProvider, TenantRouter,
    TrackingProvider,
};

use crate::harness::Served;

/// What a wrapper may do to a call on its way to the store and back. `tests/memory` covers the
/// rest without a socket.
const BEHIND: &[Tag] = &[Tag::Cost, Tag::Processes, Tag::Names];

pub(crate) fn harnesses() -> impl Iterator<Item = Arc<dyn Harness>> {
    let straight = || -> Arc<dyn Harness> { Arc::new(Served::RIGHT) };
    let prefixed = wrapped(straight(), "prefixed", |provider| {
        Ok(Arc::new(PrefixProvider::new(provider, "team:")?))
    })
    .with_names(|name| LockName::new(format!("team:{name}")))
    .about(BEHIND);
    let tracked = wrapped(straight(), "tracked", |provider| {
        Ok(Arc::new(TrackingProvider::new(provider)))
    })
    .about(BEHIND);
    let tenants = wrapped(straight(), "tenants", |inner| {
        Ok(Arc::new(TenantProvider::new(Arc::new(OneTenant { inner }))))
    })
    .about(BEHIND);
    let wrappers: [Arc<dyn Harness>; 3] =
        [Arc::new(prefixed), Arc::new(tracked), Arc::new(tenants)];
    [straight()].into_iter().chain(wrappers)
}

#[derive(Debug)]
struct OneTenant {
    inner: Provider,
}

impl TenantRouter for OneTenant {
    fn tenant(&self, _: &LockName) -> Result<String, Error> {
        Ok("only".to_owned())
    }

    fn provider<'a>(&'a self, _tenant: &'a str) -> BoxFuture<'a, Result<Provider, Error>> {
        Box::pin(async { Ok(Arc::clone(&self.inner)) })
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}

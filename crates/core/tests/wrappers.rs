//! Wrappers of a provider, and the identity of its store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use shedlock_core::{
    BoxFuture, Error, ErrorKind, ExtendRequest, Extension, Lease, ListRequest, LockName,
    LockProvider, Owner, PrefixProvider, delegate, identify_store, store_identity,
};
use shedlock_provider::MemoryProvider;

#[derive(Debug)]
struct Wrapper {
    inner: Arc<dyn LockProvider>,
}

/// The lint reports a method that the trait has and the macro lacks.
#[deny(clippy::missing_trait_methods)]
impl LockProvider for Wrapper {
    fn store(&self) -> &str {
        "wrapped"
    }

    delegate!(inner except store);
}

#[test]
fn a_wrapper_has_its_own_methods_and_all_others_of_what_it_wraps() {
    let inner: Arc<dyn LockProvider> = Arc::new(MemoryProvider::new());
    let wrapper = Wrapper {
        inner: Arc::clone(&inner),
    };
    assert_eq!(wrapper.store(), "wrapped");
    assert_eq!(wrapper.identity(), inner.identity());
    assert_eq!(wrapper.capabilities(), inner.capabilities());
    assert!(wrapper.for_duties().is_some());
}

#[derive(Debug)]
struct Extending {
    inner: Arc<dyn LockProvider>,
}

impl LockProvider for Extending {
    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        self.inner.extend(lease, request)
    }

    delegate!(inner except extend);
}

#[test]
fn a_wrapper_with_extensions_of_its_own_is_not_bypassed_by_duties() {
    let inner: Arc<dyn LockProvider> = Arc::new(MemoryProvider::new());
    assert!(Extending { inner }.for_duties().is_none());
}

#[tokio::test]
async fn an_identity_is_no_lock() {
    let provider = MemoryProvider::new();
    assert_eq!(store_identity(&provider).await.unwrap(), None);
    let owner = Owner::generate();
    let identity = identify_store(&provider, Some(owner.clone()))
        .await
        .unwrap();
    assert_eq!(identity, owner.as_str());
    assert_eq!(identify_store(&provider, None).await.unwrap(), identity);
    let locks = provider.list(&ListRequest::new()).await.unwrap();
    assert!(locks.is_empty(), "{locks:?}");
    // No user can name it, so no operator can free or remove it.
    let refused = LockName::new("shedlock:identity").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    // A namespace is a part of the same store.
    let part = PrefixProvider::new(Arc::new(provider), "billing:").unwrap();
    assert_eq!(store_identity(&part).await.unwrap(), Some(identity));
}

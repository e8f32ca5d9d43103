//! Identifies the provider that a lock belongs to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Distinguishes providers for reentrancy: a lock taken again inside its own task is reentrant only
/// on the same provider.
///
/// Clones of a provider share one identity. A wrapper that leaves names unchanged returns the inner
/// provider's identity. A wrapper that changes names returns a [scoped](Self::scoped) identity.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProviderIdentity {
    id: u64,
    scope: Option<Arc<str>>,
}

impl ProviderIdentity {
    /// Creates an identity that no other provider of this process has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            scope: None,
        }
    }

    /// Returns the identity of the part of this provider that a wrapper maps names into. It is
    /// equal for equal scopes and different for all others.
    #[must_use]
    pub fn scoped(&self, scope: &str) -> Self {
        let scope = match &self.scope {
            // The length distinguishes ("a", "bc") from ("ab", "c").
            Some(outer) => format!("{}:{outer}{scope}", outer.len()).into(),
            None => scope.into(),
        };
        Self {
            id: self.id,
            scope: Some(scope),
        }
    }
}

impl fmt::Debug for ProviderIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Some(scope) => write!(f, "ProviderIdentity({} in {scope:?})", self.id),
            None => write!(f, "ProviderIdentity({})", self.id),
        }
    }
}

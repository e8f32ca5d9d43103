//! Which provider a lock belongs to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells providers apart for reentrancy: a lock taken again inside its own task is reentrant only
/// on the same provider.
///
/// Clones of a provider share one; wrappers that add nothing to the name pass the inner one on;
/// wrappers that change names [`scope`](Self::scoped) it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProviderIdentity {
    id: u64,
    scope: Option<Arc<str>>,
}

impl ProviderIdentity {
    /// An identity that no other provider of this process has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            scope: None,
        }
    }

    /// The identity of the part of this provider that a wrapper maps names into: the same for the
    /// same scope, different for every other one.
    #[must_use]
    pub fn scoped(&self, scope: &str) -> Self {
        let scope = match &self.scope {
            // The length keeps ("a", "bc") and ("ab", "c") apart.
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

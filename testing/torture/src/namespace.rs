//! What the torture needs from a store in addition to what the laws need.

use std::any::Any;
use std::net::SocketAddr;
use std::ops::Deref;
use std::process::Command;

use shedlock_conformance::{Namespace, OptionalAction, Stop, TestContext};

use crate::StoreFault;

/// What can be done to a store while it is tortured. Each action that is supported makes the
/// torture harder.
pub trait TortureNamespace: Namespace {
    /// Like [`child_spec`](Namespace::child_spec), but the other process connects to the store
    /// through this address, on which a [fault proxy](shedlock_conformance::proxy::Proxy) listens.
    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        let _ = addr;
        None
    }

    /// Returns a command that starts a process of real ShedLock over this namespace. The process
    /// executes the commands on its standard input, as `testing/interop/java` does. It writes this
    /// host as its owner, connects to the store through this address if one is given, and closes
    /// connections that are silent for four seconds.
    ///
    /// If each lease of ShedLock has its own value, the record may name another host. The client
    /// must not resend requests that got no reply.
    ///
    /// Return a command only if ShedLock's unlock compares the owner. If it frees any holder's
    /// lock, a process that was stopped for too long lawfully breaks exclusion.
    fn shedlock(&self, host: &str, through: Option<SocketAddr>) -> Option<Command> {
        let _ = (host, through);
        None
    }

    /// Returns the store's own description of itself, with its version, for reports of long runs.
    fn store_version(&self) -> OptionalAction<'_, String> {
        None
    }

    /// Brings the store into this fault, which lasts until it is [ended](Self::end_fault). Called
    /// only on a namespace on a [store of its
    /// own](shedlock_conformance::Harness::namespace_on_own_store).
    fn begin_fault(&self, fault: StoreFault) -> OptionalAction<'_, ()> {
        let _ = fault;
        None
    }

    /// Ends this fault: once this completes, the store serves as before.
    fn end_fault(&self, fault: StoreFault) -> OptionalAction<'_, ()> {
        let _ = fault;
        None
    }
}

/// A context whose namespace can be tortured.
#[derive(Clone)]
pub(crate) struct Arena {
    context: TestContext,
    known: fn(&dyn Namespace) -> Option<&dyn TortureNamespace>,
}

impl Arena {
    /// Wraps this context, whose namespace is an `N` or wraps one.
    ///
    /// # Errors
    /// If it is neither.
    pub(crate) fn over<N: TortureNamespace>(context: &TestContext) -> Result<Self, Stop> {
        Self::checked(context.clone(), |namespace| {
            let namespace: &dyn Any = namespace;
            Some(namespace.downcast_ref::<N>()? as &dyn TortureNamespace)
        })
    }

    /// A new arena over a separate instance of the store.
    pub(crate) async fn on_own_store(&self) -> Result<Self, Stop> {
        Self::checked(self.context.on_own_store().await?, self.known)
    }

    fn checked(
        context: TestContext,
        known: fn(&dyn Namespace) -> Option<&dyn TortureNamespace>,
    ) -> Result<Self, Stop> {
        let harness = context.harness().name();
        let is_known = known(innermost(context.namespace())).is_some();
        let wrong = format!(
            "the namespaces of {harness} are not of the type that \
             `shedlock_torture::main` was given"
        );
        is_known
            .then_some(Self { context, known })
            .ok_or(Stop::Failed(wrong))
    }

    /// Returns the namespace as the torture uses it.
    pub(crate) fn tortured(&self) -> &dyn TortureNamespace {
        let namespace = innermost(self.context.namespace());
        (self.known)(namespace).expect("the type was seen when the arena was made")
    }

    /// Returns what another process needs to open the namespace, through this address if one is
    /// given.
    ///
    /// # Errors
    /// [`Stop::NotApplicable`] if other processes cannot open it.
    pub(crate) fn child_spec_via(&self, addr: Option<SocketAddr>) -> Result<String, Stop> {
        let Some(addr) = addr else {
            return self.context.child_spec();
        };
        let through = self.tortured().child_spec_via(addr);
        through.ok_or_else(|| {
            let method = "TortureNamespace::child_spec_via, through a proxy";
            Stop::lacking("open a namespace from another process", method)
        })
    }

    /// Returns a command for a process of ShedLock; see [`TortureNamespace::shedlock`]. Not through
    /// a wrapper: it may map names, which ShedLock does not.
    pub(crate) fn shedlock(&self, host: &str, through: Option<SocketAddr>) -> Option<Command> {
        let is_wrapped = self.context.namespace().inner().is_some();
        (!is_wrapped).then(|| self.tortured().shedlock(host, through))?
    }
}

impl Deref for Arena {
    type Target = TestContext;

    fn deref(&self) -> &TestContext {
        &self.context
    }
}

fn innermost(mut namespace: &dyn Namespace) -> &dyn Namespace {
    while let Some(inner) = namespace.inner() {
        namespace = inner;
    }
    namespace
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shedlock_conformance::{BoxError, Harness, Provider, wrapped};
    use shedlock_core::BoxFuture;
    use shedlock_provider::MemoryProvider;

    use super::*;

    struct Memory;

    impl Harness for Memory {
        fn name(&self) -> &str {
            "memory"
        }

        fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
            Box::pin(async { Ok(Arc::new(Map(MemoryProvider::new())) as Arc<dyn Namespace>) })
        }
    }

    struct Map(MemoryProvider);

    impl Namespace for Map {
        fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
            Box::pin(async { Ok(Arc::new(self.0.another_client()) as Provider) })
        }
    }

    impl TortureNamespace for Map {
        fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
            Some(addr.to_string())
        }
    }

    struct Other;

    impl Namespace for Other {
        fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
            Box::pin(async { Err("it is never made".into()) })
        }
    }

    impl TortureNamespace for Other {}

    #[tokio::test]
    async fn what_a_store_tolerates_is_not_lost_behind_wrappers() {
        let once = wrapped(Arc::new(Memory), "once", Ok);
        let twice = wrapped(Arc::new(once), "twice", Ok);
        let context = TestContext::new(Arc::new(twice)).await.unwrap();
        let arena = Arena::over::<Map>(&context).unwrap();
        let addr = ([127, 0, 0, 1], 6379).into();
        let spec = arena.child_spec_via(Some(addr));
        assert_eq!(spec, Ok("127.0.0.1:6379".to_owned()));
    }

    #[tokio::test]
    async fn a_target_that_names_another_type_does_not_pass_as_not_applicable() {
        let context = TestContext::new(Arc::new(Memory)).await.unwrap();
        let arena = Arena::over::<Other>(&context);
        assert!(matches!(arena, Err(Stop::Failed(_))));
    }
}

//! A harness over an in-memory store whose time only the cases advance.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shedlock_conformance::{BoxError, Harness, Namespace, OptionalAction, Provider, action};
use shedlock_core::{BoxFuture, LockName, ManualClock, MemoryProvider};

use crate::fault::Fault;
use crate::provider::{Store, WrongProvider};

/// All of its providers are wrong in this way.
pub(crate) struct WrongHarness(pub(crate) Fault);

impl Harness for WrongHarness {
    fn name(&self) -> &str {
        "wrong"
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        let clock = ManualClock::new();
        let namespace = WrongNamespace {
            fault: self.0,
            store: Arc::new(Store::new(
                MemoryProvider::with_clock(Arc::new(clock.clone())),
                clock.clone(),
            )),
            clock,
        };
        Box::pin(async { Ok(Arc::new(namespace) as Arc<dyn Namespace>) })
    }
}

struct WrongNamespace {
    fault: Fault,
    store: Arc<Store>,
    clock: ManualClock,
}

impl Namespace for WrongNamespace {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        let provider = WrongProvider::new(self.fault, Arc::clone(&self.store));
        Box::pin(async { Ok(Arc::new(provider) as Provider) })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            self.store.records.remove(name);
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            self.store.records.clear();
            self.store.is_gone.store(true, Ordering::SeqCst);
            Ok(())
        })
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            self.store.is_gone.store(false, Ordering::SeqCst);
            Ok(())
        })
    }

    fn advance(&self, by: Duration) -> Option<()> {
        self.clock.advance(by);
        Some(())
    }
}

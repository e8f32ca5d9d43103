//! A harness over a store in memory whose time only the cases move.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shedlock_conformance::{BoxError, Harness, Power, Provider, Space, power};
use shedlock_core::{BoxFuture, LockName, ManualClock, MemoryProvider};

use crate::fault::Fault;
use crate::provider::{Store, WrongProvider};

/// All of its providers are wrong in this way.
pub(crate) struct WrongHarness(pub(crate) Fault);

impl Harness for WrongHarness {
    fn name(&self) -> &str {
        "wrong"
    }

    fn space(&self) -> BoxFuture<'_, Result<Arc<dyn Space>, BoxError>> {
        let clock = ManualClock::new();
        let space = WrongSpace {
            fault: self.0,
            store: Arc::new(Store::new(
                MemoryProvider::with_clock(Arc::new(clock.clone())),
                clock.clone(),
            )),
            clock,
        };
        Box::pin(async { Ok(Arc::new(space) as Arc<dyn Space>) })
    }
}

struct WrongSpace {
    fault: Fault,
    store: Arc<Store>,
    clock: ManualClock,
}

impl Space for WrongSpace {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        let provider = WrongProvider::new(self.fault, Arc::clone(&self.store));
        Box::pin(async { Ok(Arc::new(provider) as Provider) })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> Power<'a, ()> {
        power(async {
            self.store.records.remove(name);
            Ok(())
        })
    }

    fn drop_container(&self) -> Power<'_, ()> {
        power(async {
            self.store.records.clear();
            self.store.is_gone.store(true, Ordering::SeqCst);
            Ok(())
        })
    }

    fn restore_container(&self) -> Power<'_, ()> {
        power(async {
            self.store.is_gone.store(false, Ordering::SeqCst);
            Ok(())
        })
    }

    fn advance(&self, by: Duration) -> Option<()> {
        self.clock.advance(by);
        Some(())
    }
}

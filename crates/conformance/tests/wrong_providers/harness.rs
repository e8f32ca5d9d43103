//! A harness over an in-memory store whose time only the cases advance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shedlock_conformance::{BoxError, Harness, Namespace, OptionalAction, Provider, action};
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Error, ErrorKind, LockName, LockProvider, ManualClock,
    Migration,
};
use shedlock_proof::{Mistake, Mistaken, Shared, Surroundings};
use shedlock_provider::MemoryProvider;

/// All of its providers make this mistake.
pub(crate) struct WrongHarness(pub(crate) Option<Mistake>);

impl Harness for WrongHarness {
    fn name(&self) -> &str {
        "wrong"
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        let clock = ManualClock::new();
        let namespace = WrongNamespace {
            mistake: self.0,
            records: MemoryProvider::with_clock(Arc::new(clock.clone())),
            is_gone: Arc::default(),
            shared: Shared::default(),
            clock,
        };
        Box::pin(async { Ok(Arc::new(namespace) as Arc<dyn Namespace>) })
    }
}

struct WrongNamespace {
    mistake: Option<Mistake>,
    records: MemoryProvider,
    is_gone: Arc<AtomicBool>,
    shared: Shared,
    clock: ManualClock,
}

impl Namespace for WrongNamespace {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        let contained = Contained {
            inner: self.records.another_client(),
            is_gone: Arc::clone(&self.is_gone),
        };
        let surroundings = Surroundings {
            records: Some(Arc::new(self.records.clone())),
            shared: self.shared.clone(),
            ..Surroundings::new(0)
        };
        let provider = Mistaken::new(self.mistake, Arc::new(contained), surroundings);
        Box::pin(async { Ok(Arc::new(provider) as Provider) })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            self.records.delete(name);
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            self.records.clear();
            self.is_gone.store(true, Ordering::SeqCst);
            Ok(())
        })
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            self.is_gone.store(false, Ordering::SeqCst);
            Ok(())
        })
    }

    fn advance(&self, by: Duration) -> Option<()> {
        self.clock.advance(by);
        Some(())
    }
}

/// Records in a container that may be gone, such as a table.
#[derive(Debug)]
struct Contained {
    inner: MemoryProvider,
    is_gone: Arc<AtomicBool>,
}

impl LockProvider for Contained {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            self.is_there()?;
            self.inner.attempt(request).await
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { self.is_there() })
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(async {
            self.is_gone.store(false, Ordering::SeqCst);
            self.inner.migrate().await
        })
    }

    shedlock_core::delegate!(inner except attempt, check, migrate);
}

impl Contained {
    fn is_there(&self) -> Result<(), Error> {
        if self.is_gone.load(Ordering::SeqCst) {
            let why = "there is no container";
            return Err(Error::new(ErrorKind::Configuration, why));
        }
        Ok(())
    }
}

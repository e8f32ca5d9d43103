//! A harness over the store behind a socket, and over its wrong variants.

mod provider;
mod server;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shedlock_conformance::{
    BoxError, Call, Harness, JavaRecord, Namespace, OptionalAction, Provider, RoundTrips, action,
};
use shedlock_core::{BoxFuture, Clock, LockName, LockProvider};
use shedlock_proof::{Mistake, Mistaken, Surroundings};

use provider::ServedProvider;
use server::Server;

/// A harness over that store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// The mistake that the store makes.
    pub(crate) wrong: Option<Mistake>,
    /// Whether the requests of an unlock cannot be recognized on the wire.
    pub(crate) obscures_unlocks: bool,
    /// Whether the harness declares that.
    pub(crate) admits_it: bool,
}

impl Served {
    /// A correct store.
    pub(crate) const RIGHT: Self = Self {
        wrong: None,
        obscures_unlocks: false,
        admits_it: false,
    };
}

impl Harness for Served {
    fn name(&self) -> &str {
        "served"
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            let server = Server::start(self.wrong).await?;
            let harness = *self;
            Ok(Arc::new(Own { server, harness }) as Arc<dyn Namespace>)
        })
    }

    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        Some(self.namespace())
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(async { Ok(provider(spec.parse()?)) })
    }

    fn round_trips(&self) -> Option<RoundTrips> {
        Some(RoundTrips::ONE)
    }
}

/// A separate server for each case.
pub(crate) struct Own {
    server: Server,
    harness: Served,
}

fn provider(addr: SocketAddr) -> Provider {
    Arc::new(ServedProvider::new(addr))
}

impl Own {
    fn provider_at(&self, addr: SocketAddr) -> Provider {
        let mut provider = ServedProvider::new(addr);
        if self.harness.obscures_unlocks {
            provider = provider.obscuring_unlocks();
        }
        if self.harness.wrong == Some(Mistake::UnlockReadBack) {
            provider = provider.reading_unlocks_back();
        }
        let wrong = self
            .harness
            .wrong
            .filter(|it| *it == Mistake::ClaimSentAgain);
        Arc::new(Mistaken::new(
            wrong,
            Arc::new(provider),
            Surroundings::new(0),
        ))
    }
}

impl Namespace for Own {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(async { Ok(self.provider_at(self.server.addr)) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(self.server.stop())
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            self.server.store.delete(name);
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            self.server.store.clear();
            self.server.has_container.store(false, Ordering::SeqCst);
            Ok(())
        })
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            self.server.has_container.store(true, Ordering::SeqCst);
            Ok(())
        })
    }

    fn weaken_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            self.server.is_weak.store(true, Ordering::SeqCst);
            Ok(())
        })
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async {
            let host = &record.locked_by;
            self.server
                .store
                .write_as_shedlock(name, host, record.locked_at, record.lock_until);
            Ok(())
        })
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async {
            let record = self.server.store.inspect(name).await?;
            Ok(record.and_then(|record| {
                Some(JavaRecord {
                    locked_by: record.owner?,
                    locked_at: record.locked_at?,
                    lock_until: record.locked_until?,
                })
            }))
        })
    }

    /// The client has no clock that could be wrong.
    fn provider_with_clock(&self, _clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        Some(self.provider())
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        Some(self.server.addr)
    }

    fn hides(&self, call: Call) -> Option<String> {
        let hidden = self.harness.admits_it && call == Call::Unlock;
        hidden.then(|| "unlocks are obscured".to_owned())
    }

    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        action(async move { Ok(self.provider_at(addr)) })
    }

    fn child_spec(&self) -> Option<String> {
        Some(self.server.addr.to_string())
    }

    fn stop_store(&self) -> OptionalAction<'_, ()> {
        action(self.server.stop())
    }

    fn start_store(&self) -> OptionalAction<'_, ()> {
        action(async { self.server.start_again() })
    }
}

//! The kit over a small store behind a socket: what several processes and a fault proxy need, and
//! an example of a harness with all powers.

mod provider;
mod server;
mod wire;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shedlock_conformance::{BoxError, Harness, JavaRecord, Power, Provider, Space, Turns, power};
use shedlock_core::{BoxFuture, Clock, LockName, LockProvider};

use provider::ServedProvider;
use server::Server;

fn main() -> ExitCode {
    let harness: Arc<dyn Harness> = Arc::new(Served);
    shedlock_conformance::main([harness])
}

struct Served;

impl Harness for Served {
    fn name(&self) -> &str {
        "served"
    }

    fn space(&self) -> BoxFuture<'_, Result<Arc<dyn Space>, BoxError>> {
        Box::pin(async {
            let server = Server::start().await?;
            Ok(Arc::new(Own(server)) as Arc<dyn Space>)
        })
    }

    fn space_on_own_store(&self) -> Power<'_, Arc<dyn Space>> {
        Some(self.space())
    }

    fn finds_wrong_protocols_out(&self) -> bool {
        true
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> Power<'a, Provider> {
        power(async { Ok(provider(spec.parse()?)) })
    }

    fn turns(&self) -> Option<Turns> {
        Some(Turns::ONE)
    }
}

/// A server for each case.
struct Own(Server);

fn provider(addr: SocketAddr) -> Provider {
    Arc::new(ServedProvider::new(addr))
}

impl Space for Own {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(async { Ok(provider(self.0.addr)) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            self.0.stop().await;
            Ok(())
        })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> Power<'a, ()> {
        power(async {
            self.0.store.remove(name);
            Ok(())
        })
    }

    fn drop_container(&self) -> Power<'_, ()> {
        power(async {
            self.0.store.clear();
            self.0.has_container.store(false, Ordering::SeqCst);
            Ok(())
        })
    }

    fn restore_container(&self) -> Power<'_, ()> {
        power(async {
            self.0.has_container.store(true, Ordering::SeqCst);
            Ok(())
        })
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> Power<'a, ()> {
        power(async {
            let host = &record.locked_by;
            self.0
                .store
                .write_as_shedlock(name, host, record.locked_at, record.lock_until);
            Ok(())
        })
    }

    fn read_as_shedlock<'a>(&'a self, name: &'a LockName) -> Power<'a, Option<JavaRecord>> {
        power(async {
            let record = self.0.store.inspect(name).await?;
            Ok(record.and_then(|record| {
                Some(JavaRecord {
                    locked_by: record.owner?,
                    locked_at: record.locked_at?,
                    lock_until: record.locked_until?,
                })
            }))
        })
    }

    /// The client has no clock that it could be wrong by.
    fn provider_with_clock(&self, _clock: Arc<dyn Clock>) -> Power<'_, Provider> {
        Some(self.provider())
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        Some(self.0.addr)
    }

    fn provider_via(&self, addr: SocketAddr) -> Power<'_, Provider> {
        power(async move { Ok(provider(addr)) })
    }

    fn child_spec(&self) -> Option<String> {
        Some(self.0.addr.to_string())
    }

    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        Some(addr.to_string())
    }

    fn stop_store(&self) -> Power<'_, ()> {
        power(async {
            self.0.stop().await;
            Ok(())
        })
    }

    fn start_store(&self) -> Power<'_, ()> {
        power(async { self.0.start_again() })
    }
}

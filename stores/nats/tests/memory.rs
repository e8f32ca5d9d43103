//! A bucket in memory, as ShedLock makes it: what a restart of the server takes away.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{MINUTE, Own, give_back, pause, take};
use shedlock_core::{
    ErrorKind, ExtendRequest, Extension, Failover, LockProvider, Unlock, UnlockRequest,
};
use shedlock_nats::NatsProvider;

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_restart_frees_all_locks_and_it_is_said_before() {
    let log = Log::default();
    let writer = log.clone();
    let logger = tracing_subscriber::fmt().with_writer(move || writer.clone());
    let _logger = tracing::subscriber::set_default(logger.finish());
    let server = Own::start("jetstream { store_dir: \"$DIR\" }").await;
    let url = format!(
        "nats://{}?storage=memory&response_timeout=1s",
        server.address()
    );
    let provider = NatsProvider::connect(&url).await.unwrap();
    provider.migrate().await.unwrap();
    provider.check().await.unwrap();
    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        said.contains("WARN") && said.contains("kept in memory"),
        "{said}"
    );
    let declared = provider.capabilities();
    assert!(!declared.durable);
    assert_eq!(declared.failover, Failover::Never);

    let lease = take(&provider, "job").await;
    server.stop();
    server.begin().await;
    // The bucket is gone with its locks, until somebody makes it again.
    let error = loop {
        match provider.check().await {
            Err(error) if error.kind() == ErrorKind::Configuration => break error,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
            Ok(()) => panic!("a bucket in memory does not outlive its server"),
        }
        pause(Duration::from_millis(50)).await;
    };
    assert!(error.message().contains("migrate"), "{error}");
    provider.migrate().await.unwrap();
    let next = take(&provider, "job").await;
    assert!(next.fencing_token() > lease.fencing_token());
    let longer = ExtendRequest::new(2 * MINUTE);
    let extended = provider.extend(&lease, &longer).await.unwrap();
    assert!(matches!(extended, Extension::Lost), "{extended:?}");
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Lost);
    give_back(&provider, &next).await;
}

//! Shared parts of harnesses over real servers: their addresses, unique names, and what the provider logs.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use shedlock_core::{
    Error, ErrorKind, Executor, LockConfig, LockProvider, Outcome, Owner, Release,
};

pub use crate::warnings::{Warnings, warns_of_unverified};

/// Returns a name that no other test in any process uses: a prefix, then letters, digits and `_`.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let owner = Owner::generate();
    let random = owner.as_str().rsplit('/').next().unwrap_or_default();
    format!("{prefix}_{}_{number}_{random}", std::process::id())
}

/// Checks that a task whose end finds the client of its store closed, as after a shutdown in the wrong order, returns its
/// value without waiting for the end of the lease, and that nothing is called retryable. `close` closes the client.
///
/// # Panics
/// If the value is lost, or the errors are of another kind.
pub async fn assert_value_outlives_client(
    provider: Arc<dyn LockProvider>,
    close: impl Future<Output = ()>,
) {
    let executor = Executor::new(provider);
    let config = LockConfig::new(unique("closed")).lock_at_most_for("1h");
    let task = async {
        close.await;
        7
    };
    match executor.execute(&config, task).await {
        Ok(Outcome::Executed {
            value: 7,
            release: Release::Failed(error),
            ..
        }) => assert_eq!(error.kind(), ErrorKind::Configuration, "{error:#}"),
        other => panic!("the value is lost, or the lock was given back: {other:?}"),
    }
    let later = executor.execute(&config, async {}).await;
    let kind = later.as_ref().map_err(Error::kind).map(drop);
    assert_eq!(kind, Err(ErrorKind::Configuration), "{later:?}");
}

/// Returns the address of the server in a URL, for
/// [`Namespace::store_addr`](crate::Namespace::store_addr): the first host in the URL.
///
/// ```
/// let at = shedlock_conformance::support::address("redis://u:p@127.0.0.1/0", 6379);
/// assert_eq!(at, Some(([127, 0, 0, 1], 6379).into()));
/// ```
pub fn address(url: &str, default_port: u16) -> Option<SocketAddr> {
    let rest = url.split_once("://")?.1;
    let hosts = rest.split(['/', '?', '#']).next()?;
    let first = hosts.rsplit('@').next()?.split(',').next()?;
    let has_port = first
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let first = if has_port {
        first.to_owned()
    } else {
        format!("{first}:{default_port}")
    };
    first.to_socket_addrs().ok()?.next()
}

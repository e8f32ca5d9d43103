//! Helpers for tests over real servers.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test target uses a part of it"
)]

pub(crate) mod exhausted;
mod jdbc;
pub(crate) mod silence;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use jdbc::shedlock;
pub(crate) use shedlock_conformance::support::{Warnings, address, unique};
use shedlock_conformance::{Harness, Scope, prefixed};
pub(crate) use shedlock_rig::given::{server, server_if_any};

/// The harnesses of one server. Those that run all cases, one over each driver, are also tested behind a wrapper.
pub(crate) fn harnesses<H: Harness + 'static>(
    variants: impl IntoIterator<Item = H>,
) -> Vec<Arc<dyn Harness>> {
    let mut harnesses: Vec<Arc<dyn Harness>> = Vec::new();
    for variant in variants {
        let harness: Arc<dyn Harness> = Arc::new(variant);
        if matches!(harness.scope(), Scope::Whole) {
            harnesses.push(Arc::new(prefixed(&harness)));
        }
        harnesses.push(harness);
    }
    harnesses
}

/// The same URL with another database.
pub(crate) fn with_database(url: &str, database: &str) -> String {
    let mut url = url::Url::parse(url).expect("the server's URL can be read");
    url.set_path(database);
    url.into()
}

/// The same URL with one more option.
pub(crate) fn with_option(url: &str, key: &str, value: &str) -> String {
    let mut url = url::Url::parse(url).expect("the server's URL can be read");
    url.query_pairs_mut().append_pair(key, value);
    url.into()
}

/// The future's output, or `None` after this long by the real clock: a limit for calls that must
/// not hang.
#[expect(
    clippy::disallowed_methods,
    reason = "a hang cannot be seen on a clock that stands still"
)]
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}

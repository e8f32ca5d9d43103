//! What the tests over real servers share.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::time::Duration;

/// The URL of a throw-away server.
///
/// Where the run was narrowed to other stores (`cargo xtask test --store …`), which xtask says by
/// the word "unavailable" and in its summary, this ends the test target: all of it is about the one
/// server.
///
/// # Panics
/// Where there is none: a test that needs a server does not pass without.
#[expect(clippy::print_stderr, reason = "what is not tested is said")]
pub(crate) fn server(variable: &str) -> String {
    let asked = variable.trim_end_matches("_URL");
    match std::env::var(variable) {
        Ok(url) => url,
        Err(_) if std::env::var(asked).is_ok_and(|word| word == "unavailable") => {
            eprintln!("NOT TESTED: {asked} is unavailable, or another store was asked for");
            std::process::exit(0)
        }
        Err(_) => panic!("{variable} is not set: run `cargo xtask test`"),
    }
}

/// The URL of a server that need not be there, such as PgBouncer, which the machine may lack.
///
/// # Panics
/// Where it is neither given nor said to be missing.
pub(crate) fn server_if_any(variable: &str) -> Option<String> {
    match std::env::var(format!("{variable}_URL")) {
        Ok(url) => Some(url),
        Err(_) if std::env::var(variable).is_ok_and(|word| word == "unavailable") => None,
        Err(_) => panic!("{variable}_URL is not set: run `cargo xtask test`"),
    }
}

/// A name that no other test of any process uses.
pub(crate) fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let owner = shedlock_core::Owner::generate();
    let random = owner.as_str().rsplit('/').next().unwrap_or_default();
    format!("{prefix}_{}_{number}_{random}", std::process::id())
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

/// Waits by the real clock: only where a real store's time must pass.
#[expect(
    clippy::disallowed_methods,
    reason = "a real store's time cannot be moved"
)]
pub(crate) async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}

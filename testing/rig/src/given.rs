//! The servers that `cargo xtask test` has started, from its variables. For a store, say `redis`,
//! `SHEDLOCK_TEST_REDIS_URL` holds the URL of a throw-away server, or `SHEDLOCK_TEST_REDIS` is set to `unavailable`. If
//! the run is restricted to some stores, `SHEDLOCK_TEST_STORES` lists them.

use std::env;

/// The URL of a throw-away server from this variable (`SHEDLOCK_TEST_…_URL`).
///
/// If the run is restricted to other stores, this ends the whole test target, because all of its
/// tests need this server.
///
/// # Panics
/// If there is no URL: a test that needs a server must not pass without one.
#[must_use]
pub fn server(variable: &str) -> String {
    let name = variable.trim_end_matches("_URL");
    server_if_any(name).unwrap_or_else(|| not_tested(name))
}

/// The URL of an optional server, which the machine may lack, from this variable
/// (`SHEDLOCK_TEST_…`, without `_URL`).
///
/// # Panics
/// If the server is neither given nor marked as unavailable.
#[must_use]
pub fn server_if_any(variable: &str) -> Option<String> {
    match env::var(format!("{variable}_URL")) {
        Ok(url) => Some(url),
        Err(_) if is_unavailable(variable) => None,
        Err(_) => panic!("{variable}_URL is not set: run `cargo xtask test`"),
    }
}

/// Whether the tests of this store are to run. For a store that needs no server and therefore has no URL.
#[must_use]
pub fn is_wanted(store: &str) -> bool {
    let wanted = env::var("SHEDLOCK_TEST_STORES");
    wanted.map_or(true, |wanted| wanted.split(',').any(|name| name == store))
}

/// Ends the test target if the run is restricted to other stores than this one.
pub fn needs_store(name: &str) {
    if !is_wanted(name) {
        not_tested(name);
    }
}

/// Whether this variable (`SHEDLOCK_TEST_…`) reports that there is none.
#[must_use]
pub fn is_unavailable(variable: &str) -> bool {
    env::var(variable).is_ok_and(|word| word == "unavailable")
}

fn not_tested(what: &str) -> ! {
    eprintln!("NOT TESTED: {what} is unavailable, or another store was selected");
    std::process::exit(0)
}

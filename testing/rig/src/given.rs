//! The servers that `cargo xtask test` has started, from its variables. For a store, say `redis`,
//! `SHEDLOCK_TEST_REDIS_URL` holds the URL of a throw-away server, or `SHEDLOCK_TEST_REDIS` is set to `unavailable`. If
//! the run is restricted to some stores, `SHEDLOCK_TEST_STORES` lists them.

use std::env;

/// The URL of this server (`redis`, `mariadb-tz`), or what is missing for it.
///
/// # Errors
/// If there is no URL: a test that needs a server must not pass without one.
pub fn url(server: &str) -> Result<String, String> {
    let variable = url_variable(server);
    env::var(&variable).map_err(|_| format!("{variable} is not set: run `cargo xtask test`"))
}

/// Whether the machine lacks this server: its tests do not run.
#[must_use]
pub fn is_absent(server: &str) -> bool {
    env::var(variable(server)).is_ok_and(|word| word == "unavailable")
}

/// Whether the tests of this store are to run.
#[must_use]
pub fn is_wanted(store: &str) -> bool {
    let wanted = env::var("SHEDLOCK_TEST_STORES");
    wanted.map_or(true, |wanted| wanted.split(',').any(|name| name == store))
}

/// The URL of this server. If the machine lacks it or the run is restricted to other stores, this ends the whole test
/// target, because all of its tests need this server.
///
/// # Panics
/// If there is no URL.
pub fn server(name: &str) -> String {
    server_if_any(name).unwrap_or_else(|| not_tested(name))
}

/// The URL of this server, unless the machine lacks it or the run is restricted to other stores.
///
/// # Panics
/// If there is no URL.
#[must_use]
pub fn server_if_any(name: &str) -> Option<String> {
    match url(name) {
        Ok(url) => Some(url),
        Err(_) if is_absent(name) => None,
        Err(why) => panic!("{why}"),
    }
}

/// Ends the test target if the run is restricted to other stores than this one. For a store that needs no server and
/// therefore has no URL.
pub fn needs_store(name: &str) {
    if !is_wanted(name) {
        not_tested(name);
    }
}

/// The variable that is `unavailable` if the machine lacks this server.
pub(crate) fn variable(server: &str) -> String {
    format!("SHEDLOCK_TEST_{}", server.replace('-', "_").to_uppercase())
}

/// The variable with the URL of this server.
pub(crate) fn url_variable(server: &str) -> String {
    format!("{}_URL", variable(server))
}

fn not_tested(what: &str) -> ! {
    eprintln!("NOT TESTED: {what} is unavailable, or another store was selected");
    std::process::exit(0)
}

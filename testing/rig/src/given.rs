//! What `cargo xtask test` has started and installed, from its variables. For a store, say `redis`,
//! `SHEDLOCK_TEST_REDIS_URL` holds the URL of a throw-away server, or `SHEDLOCK_TEST_REDIS` is set to `unavailable`.
//! `SHEDLOCK_TEST_STORES` lists the stores of the run.
//!
//! Without that variable, in a plain `cargo test`, a test that needs a server without a URL or a tool is left out. With
//! it, nothing is left out in silence: what is missing fails.

use crate::engine::Kind;
use crate::host::find_program;
use libtest_mimic::{Arguments, Completion, Trial};
use std::env;
use std::path::PathBuf;

const STORES: &str = "SHEDLOCK_TEST_STORES";

/// Whether `cargo xtask test` runs the tests: then all that they need is there.
#[must_use]
pub fn is_prepared() -> bool {
    env::var_os(STORES).is_some()
}

/// The URL of this server (`redis`, `mariadb-tz`), or what is missing for it.
///
/// # Errors
/// If there is no URL: a test that needs a server must not pass without one.
pub fn url(server: &str) -> Result<String, String> {
    let variable = url_variable(server);
    env::var(&variable).map_err(|_| format!("{variable} is not set: run `cargo xtask test`"))
}

/// Whether the machine lacks this server, or it was not started: its tests do not run.
#[must_use]
pub fn is_absent(server: &str) -> bool {
    match env::var(variable(server)) {
        Ok(word) => word == "unavailable",
        Err(_) => !is_prepared() && Kind::of(server).is_some() && url(server).is_err(),
    }
}

/// Whether the run is about this store.
#[must_use]
pub fn is_listed(store: &str) -> bool {
    let stores = env::var(STORES);
    stores.map_or(true, |names| names.split(',').any(|name| name == store))
}

/// Whether the tests of this store are to run.
#[must_use]
pub fn is_wanted(store: &str) -> bool {
    is_listed(store) && !is_absent(store)
}

/// The URL of this server. If there is none for it in this run, this ends the whole test target, because all of its
/// tests need this server.
///
/// # Panics
/// If the run should have one.
pub fn server(name: &str) -> String {
    server_if_any(name).unwrap_or_else(|| leave_out(name, name))
}

/// The URL of this server, unless the machine lacks it or it was not started.
///
/// # Panics
/// If the run should have one.
#[must_use]
pub fn server_if_any(name: &str) -> Option<String> {
    match url(name) {
        Ok(url) => Some(url),
        Err(_) if is_absent(name) => None,
        Err(why) => panic!("{why}"),
    }
}

/// Ends the test target unless the tests of this store are to run. For a store whose tests start their own servers, or
/// need none.
pub fn needs_store(name: &str) {
    if !is_wanted(name) {
        leave_out(name, name);
    }
}

/// Ends the test target unless `cargo xtask test` runs it, which installs `what` it needs.
pub fn needs(what: &str) {
    if !is_prepared() {
        leave_out(what, "");
    }
}

/// The program of a server of this store, which a test starts with settings of its own. Ends the test target unless
/// the tests of this store are to run.
///
/// # Panics
/// If it is not installed.
pub fn program(name: &str, store: &str) -> PathBuf {
    needs_store(store);
    let program = find_program(name);
    program.unwrap_or_else(|| panic!("{name} is not installed: run `cargo xtask test`"))
}

/// The variable that is `unavailable` if the machine lacks this server.
pub(crate) fn variable(server: &str) -> String {
    format!("SHEDLOCK_TEST_{}", server.replace('-', "_").to_uppercase())
}

/// The variable with the URL of this server.
pub(crate) fn url_variable(server: &str) -> String {
    format!("{}_URL", variable(server))
}

/// Ends the test target with one ignored test.
fn leave_out(what: &str, store: &str) -> ! {
    let option = match store {
        "" => String::new(),
        store => format!(" --store {store}"),
    };
    let why = match is_prepared() {
        true => "unavailable, or another store was selected".to_owned(),
        false => format!("`cargo xtask test{option}` starts what it needs"),
    };
    let ignored = || Ok(Completion::ignored_with(why));
    let trial = Trial::ignorable_test(what, ignored);
    let arguments = Arguments {
        list: env::args().any(|argument| argument == "--list"),
        ..Arguments::default()
    };
    libtest_mimic::run(&arguments, vec![trial]).exit()
}

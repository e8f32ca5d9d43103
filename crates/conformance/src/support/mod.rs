//! Shared parts of harnesses over real servers: server addresses, unique names, and servers that a
//! test owns.
//!
//! In the repository of shedlock, `cargo xtask test` sets the environment variables. For a store,
//! say `redis`, `SHEDLOCK_TEST_REDIS_URL` holds the URL of a throw-away server, or
//! `SHEDLOCK_TEST_REDIS` is set to `unavailable`. If the run is restricted to some stores,
//! `SHEDLOCK_TEST_STORES` lists them.

mod own_server;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use shedlock_core::Owner;

use crate::BoxError;
pub use crate::warnings::{Warnings, warns_of_unverified};
pub use own_server::OwnServer;

/// Returns the URL of a throw-away server from this variable (`SHEDLOCK_TEST_…_URL`).
///
/// If the run is restricted to other stores, this ends the whole test target, because all of its
/// tests need this server.
///
/// # Panics
/// If there is no URL: a test that needs a server must not pass without one.
pub fn server(variable: &str) -> String {
    let asked = variable.trim_end_matches("_URL");
    match std::env::var(variable) {
        Ok(url) => url,
        Err(_) if is_unavailable(asked) => not_tested(asked),
        Err(_) => panic!("{variable} is not set: run `cargo xtask test`"),
    }
}

/// Returns the URL of an optional server, which the machine may lack, from this variable
/// (`SHEDLOCK_TEST_…`, without `_URL`).
///
/// # Panics
/// If the server is neither given nor marked as unavailable.
pub fn server_if_any(variable: &str) -> Option<String> {
    match std::env::var(format!("{variable}_URL")) {
        Ok(url) => Some(url),
        Err(_) if is_unavailable(variable) => None,
        Err(_) => panic!("{variable}_URL is not set: run `cargo xtask test`"),
    }
}

/// Ends the test target if the run is restricted to other stores than this one. For a store that
/// needs no server and therefore has no URL variable.
pub fn needs_store(name: &str) {
    let asked = std::env::var("SHEDLOCK_TEST_STORES");
    if asked.is_ok_and(|asked| !asked.split(',').any(|store| store == name)) {
        not_tested(name);
    }
}

/// Returns a name that no other test in any process uses: a prefix, then letters, digits and `_`.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let owner = Owner::generate();
    let random = owner.as_str().rsplit('/').next().unwrap_or_default();
    format!("{prefix}_{}_{number}_{random}", std::process::id())
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

/// Finds the program of this name in `PATH` or in the folder of system daemons (`/usr/sbin`).
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Returns a loopback port for a server that a test starts itself. The port lies below the
/// ephemeral range, so that it is still free when the server restarts. Different tests and
/// processes start their search at different ports.
///
/// # Errors
/// If no port is free.
pub fn free_port() -> Result<u16, BoxError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(7, Ordering::Relaxed);
    let start = 10_000 + u16::try_from((std::process::id().wrapping_mul(31) + number) % 9_000)?;
    (start..20_000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .ok_or_else(|| "no port is free".into())
}

fn is_unavailable(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|word| word == "unavailable")
}

#[expect(clippy::print_stderr, reason = "what is not tested is printed")]
fn not_tested(what: &str) -> ! {
    eprintln!("NOT TESTED: {what} is unavailable, or another store was selected");
    std::process::exit(0)
}

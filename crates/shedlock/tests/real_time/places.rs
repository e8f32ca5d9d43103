//! The servers of these tests.

use std::net::{SocketAddr, ToSocketAddrs};

use url::Url;

#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    variable: &'static str,
    port: u16,
    /// Whether this server was deselected or could not be started.
    pub(crate) is_left_out: bool,
}

impl Place {
    /// Returns the server's URL, or a message that explains what is missing.
    pub(crate) fn url(&self) -> Result<String, String> {
        std::env::var(self.variable)
            .map_err(|_| format!("{} is not set: run `cargo xtask test`", self.variable))
    }

    /// Returns the URL for a provider, with a lock table that only this process uses.
    pub(crate) fn locks(&self, table: &str) -> String {
        let url = self.url().unwrap();
        let separator = if url.contains('?') { '&' } else { '?' };
        format!("{url}{separator}table={}", own(table))
    }

    /// Returns the address that the server listens on.
    pub(crate) fn addr(&self) -> SocketAddr {
        let url = Url::parse(&self.url().unwrap()).unwrap();
        let place = (url.host_str().unwrap(), url.port().unwrap_or(self.port));
        let mut found = place.to_socket_addrs().unwrap();
        found.find(SocketAddr::is_ipv4).unwrap()
    }
}

/// Returns a name in the database that no other run of the tests uses.
pub(crate) fn own(name: &str) -> String {
    format!("{name}_{}", std::process::id())
}

/// Returns this URL with another address in it.
pub(crate) fn behind(url: &str, addr: SocketAddr) -> String {
    let mut url = Url::parse(url).unwrap();
    url.set_ip_host(addr.ip()).unwrap();
    url.set_port(Some(addr.port())).unwrap();
    url.into()
}

/// Returns all servers.
pub(crate) fn all() -> [Place; 3] {
    let wanted = std::env::var("SHEDLOCK_TEST_STORES");
    let place = |name, variable: &'static str, port| {
        let is_unwanted = |wanted: &String| !wanted.split(',').any(|store| store == name);
        let is_there = std::env::var(variable.trim_end_matches("_URL"));
        Place {
            name,
            variable,
            port,
            is_left_out: wanted.as_ref().is_ok_and(is_unwanted)
                || is_there.as_deref() == Ok("unavailable"),
        }
    };
    [
        place("postgres", "SHEDLOCK_TEST_POSTGRES_URL", 5432),
        place("mariadb", "SHEDLOCK_TEST_MARIADB_URL", 3306),
        place("mysql", "SHEDLOCK_TEST_MYSQL_URL", 3306),
    ]
}

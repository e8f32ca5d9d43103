//! The servers of these tests.

use std::net::{SocketAddr, ToSocketAddrs};

use shedlock_rig::given;
use url::Url;

#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    port: u16,
    /// Whether this server was deselected or could not be started.
    pub(crate) is_left_out: bool,
}

impl Place {
    /// Returns the server's URL, or a message that explains what is missing.
    pub(crate) fn url(&self) -> Result<String, String> {
        given::url(self.name)
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
    let place = |name, port| Place {
        name,
        port,
        is_left_out: !given::is_wanted(name),
    };
    [
        place("postgres", 5432),
        place("mariadb", 3306),
        place("mysql", 3306),
    ]
}

//! The stores: each server of the registry, and the other servers that the tests of a store use.

use std::path::Path;

use shedlock::__stores::{STORES, StoreEntry};
use shedlock_conformance::support::unique;
use shedlock_rig::given;

/// The other servers of a store, as `cargo xtask` names them.
const BESIDE: [(&str, &[&str]); 3] = [
    ("postgres", &["pgbouncer"]),
    ("redis", &["valkey"]),
    ("nats", &["nats210", "nats212"]),
];

/// A server, or a store without one.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The word for it in `SHEDLOCK_TEST_STORES` and, in capitals, in names of variables.
    pub(crate) name: &'static str,
    pub(crate) store: &'static StoreEntry,
    pub(crate) has_server: bool,
}

/// All that can be shared by processes and that this run asks for.
///
/// A server that does not run fails its tests, unless the code that starts the servers declares it
/// absent.
pub(crate) fn all() -> Vec<Place> {
    let mut places = Vec::new();
    for store in STORES.iter().filter(|store| store.name != "memory") {
        let place = |name, has_server| Place {
            name,
            store,
            has_server,
        };
        if store.servers.is_empty() && given::is_wanted(store.name) {
            places.push(place(store.name, false));
        }
        let beside = BESIDE.iter().filter(|(name, _)| *name == store.name);
        let beside = beside.flat_map(|(_, servers)| servers.iter());
        let servers = store.servers.iter().chain(beside);
        places.extend(servers.map(|name| place(*name, true)));
    }
    places.retain(|place| !place.is_absent());
    places
}

impl Place {
    fn is_absent(&self) -> bool {
        given::is_absent(self.name)
    }

    /// The word for the store in messages.
    pub(crate) fn kind(&self) -> &'static str {
        self.store.name
    }

    /// The URL of the server, or what is missing for it.
    pub(crate) fn server(&self) -> Result<String, String> {
        given::url(self.name)
    }

    /// The URL of locks that no other test uses. A file is in this folder.
    pub(crate) fn locks(&self, folder: &Path) -> Result<Locks, String> {
        let server = match self.has_server {
            true => self.server()?,
            false => format!("sqlite:{}", folder.join("locks.db").display()),
        };
        let name = unique("cli");
        let url = self.store.url_of_place(&server, &name);
        let proxied = match self.name {
            "pgbouncer" => "&prepared=false",
            _ => "",
        };
        Ok(Locks {
            url: url + proxied,
            name,
        })
    }
}

/// Where locks are.
pub(crate) struct Locks {
    pub(crate) url: String,
    /// The name of the table, bucket or prefix.
    pub(crate) name: String,
}

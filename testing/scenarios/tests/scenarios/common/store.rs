//! The stores on which the scenarios run.

use shedlock_rig::given::{is_wanted, server_if_any};
use url::Url;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Postgres,
    Mariadb,
}

impl Store {
    /// Returns all stores, unless the run is restricted (`cargo xtask test --store postgres`).
    pub(crate) fn wanted() -> Vec<Self> {
        let mut stores = vec![Self::Postgres, Self::Mariadb];
        stores.retain(|store| is_wanted(store.name()));
        stores
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
        }
    }

    /// Returns the URL of the throw-away server.
    ///
    /// # Panics
    /// If there is none: a test that needs a server must not pass without one.
    pub(crate) fn server(self) -> Url {
        let url = server_if_any(self.name()).expect("unavailable stores are not wanted");
        url.parse().expect("the server's URL can be read")
    }

    /// Returns a statement that removes a database even if clients are still connected to it.
    pub(crate) fn drop_database(self, name: &str) -> String {
        match self {
            Self::Postgres => format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
            Self::Mariadb => format!("DROP DATABASE IF EXISTS {name}"),
        }
    }
}

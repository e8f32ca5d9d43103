//! The stores on which the scenarios run.

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
        if let Ok(wanted) = std::env::var("SHEDLOCK_TEST_STORES") {
            stores.retain(|store| wanted.split(',').any(|name| name == store.name()));
        }
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
        let variable = match self {
            Self::Postgres => "SHEDLOCK_TEST_POSTGRES_URL",
            Self::Mariadb => "SHEDLOCK_TEST_MARIADB_URL",
        };
        let url = std::env::var(variable)
            .unwrap_or_else(|_| panic!("{variable} is not set: run `cargo xtask test`"));
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

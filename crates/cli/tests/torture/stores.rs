//! The stores that the processes contend for.

use std::path::Path;

/// A store of one kind.
pub(crate) struct Store {
    name: &'static str,
    place: Place,
}

enum Place {
    File,
    Server {
        /// The variable that contains its URL.
        variable: &'static str,
        /// The option of the URL that selects a separate namespace.
        room: &'static str,
    },
}

impl Store {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// A URL with a separate namespace, or what is missing for one.
    pub(crate) fn url(&self, folder: &Path) -> Result<String, String> {
        let (variable, room) = match self.place {
            Place::File => return Ok(format!("sqlite:{}", folder.join("locks.db").display())),
            Place::Server { variable, room } => (variable, room),
        };
        let url = std::env::var(variable)
            .map_err(|_| format!("{variable} is not set: run `cargo xtask test`"))?;
        let sign = if url.contains('?') { '&' } else { '?' };
        let name = format!("shedlock_torture_{}", std::process::id());
        Ok(format!("{url}{sign}{room}={name}"))
    }
}

/// All stores that the command supports.
///
/// An unavailable server fails its test. Only MySQL, which not every system has, may be declared
/// absent by the code that starts the servers. To run only some of them (`cargo xtask test --store
/// sqlite`), SHEDLOCK_TEST_STORES names them.
pub(crate) fn all() -> Vec<Store> {
    let server = |name, variable, room| Store {
        name,
        place: Place::Server { variable, room },
    };
    let mut stores = vec![
        Store {
            name: "sqlite",
            place: Place::File,
        },
        server("postgres", "SHEDLOCK_TEST_POSTGRES_URL", "table"),
        server("mariadb", "SHEDLOCK_TEST_MARIADB_URL", "table"),
        server("redis", "SHEDLOCK_TEST_REDIS_URL", "environment"),
    ];
    if std::env::var("SHEDLOCK_TEST_MYSQL").as_deref() != Ok("unavailable") {
        stores.push(server("mysql", "SHEDLOCK_TEST_MYSQL_URL", "table"));
    }
    if let Ok(wanted) = std::env::var("SHEDLOCK_TEST_STORES") {
        stores.retain(|store| wanted.split(',').any(|name| name == store.name));
    }
    stores
}

//! The stores that are fought over.

use std::path::Path;

/// A store of one kind.
pub(crate) struct Store {
    name: &'static str,
    place: Place,
}

enum Place {
    File,
    Server {
        /// The variable that holds its URL.
        variable: &'static str,
        /// The option of the URL that makes a room of its own.
        room: &'static str,
    },
}

impl Store {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// A URL with a room of its own in it, or what is missing to have one.
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

/// All stores that the command speaks to.
///
/// A server that cannot be had fails its test; only MySQL, which not every system has, may be
/// declared absent by whoever sets the servers up. Who wants only some of them (`cargo xtask test
/// --store sqlite`) has said so in SHEDLOCK_TEST_STORES.
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

//! The stores that are fought over.

use std::path::Path;

/// A store of one kind.
pub(crate) struct Store {
    name: &'static str,
    place: Place,
}

enum Place {
    File,
    /// The variable that holds a server's URL.
    Server(&'static str),
}

impl Store {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// A URL with a table of its own in it, or what is missing to have one.
    pub(crate) fn url(&self, folder: &Path) -> Result<String, String> {
        let variable = match self.place {
            Place::File => return Ok(format!("sqlite:{}", folder.join("locks.db").display())),
            Place::Server(variable) => variable,
        };
        let url = std::env::var(variable)
            .map_err(|_| format!("{variable} is not set: run `cargo xtask test`"))?;
        let sign = if url.contains('?') { '&' } else { '?' };
        let table = format!("shedlock_torture_{}", std::process::id());
        Ok(format!("{url}{sign}table={table}"))
    }
}

/// All stores that the command speaks to.
///
/// A server that cannot be had fails its test; only MySQL, which not every system has, may be
/// declared absent by whoever sets the servers up. Who wants only some of them (`cargo xtask test
/// --store sqlite`) has said so in SHEDLOCK_TEST_STORES.
pub(crate) fn all() -> Vec<Store> {
    let server = |name, variable| Store {
        name,
        place: Place::Server(variable),
    };
    let mut stores = vec![
        Store {
            name: "sqlite",
            place: Place::File,
        },
        server("postgres", "SHEDLOCK_TEST_POSTGRES_URL"),
        server("mariadb", "SHEDLOCK_TEST_MARIADB_URL"),
    ];
    if std::env::var("SHEDLOCK_TEST_MYSQL").as_deref() != Ok("unavailable") {
        stores.push(server("mysql", "SHEDLOCK_TEST_MYSQL_URL"));
    }
    if let Ok(wanted) = std::env::var("SHEDLOCK_TEST_STORES") {
        stores.retain(|store| wanted.split(',').any(|name| name == store.name));
    }
    stores
}

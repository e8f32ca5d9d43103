//! The stores that the processes contend for.

use std::path::Path;

use shedlock_rig::given;

/// A store of one kind.
pub(crate) struct Store {
    name: &'static str,
    place: Place,
}

enum Place {
    File,
    Server {
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
        let room = match self.place {
            Place::File => return Ok(format!("sqlite:{}", folder.join("locks.db").display())),
            Place::Server { room } => room,
        };
        let url = given::url(self.name)?;
        let sign = if url.contains('?') { '&' } else { '?' };
        let name = format!("shedlock_torture_{}", std::process::id());
        Ok(format!("{url}{sign}{room}={name}"))
    }
}

/// All stores that the command supports.
///
/// Those that this run is not about, and servers that are declared absent, are not among them.
pub(crate) fn all() -> Vec<Store> {
    let server = |name, room| Store {
        name,
        place: Place::Server { room },
    };
    let mut stores = vec![
        Store {
            name: "sqlite",
            place: Place::File,
        },
        server("postgres", "table"),
        server("mariadb", "table"),
        server("redis", "environment"),
        server("mysql", "table"),
    ];
    stores.retain(|store| given::is_wanted(store.name));
    stores
}

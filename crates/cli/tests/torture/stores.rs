//! The stores that the processes contend for.

use std::path::Path;
use std::time::Duration;

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

    /// How long its torture lasts: a short time by default, and most of it where all faults are possible and the command is
    /// used most.
    #[allow(dead_code, reason = "each test program uses its part of it")]
    pub(crate) fn lasts(&self) -> Duration {
        let is_full = std::env::var_os("SHEDLOCK_TEST_FULL").is_some_and(|value| !value.is_empty());
        let default = match self.name {
            _ if is_full => 100,
            "postgres" | "redis" => 25,
            _ => 8,
        };
        let seconds = std::env::var("SHEDLOCK_TORTURE_SECONDS").map_or(default, |seconds| {
            seconds
                .parse()
                .expect("SHEDLOCK_TORTURE_SECONDS is a number")
        });
        Duration::from_secs(seconds)
    }

    #[allow(dead_code, reason = "each test program uses its part of it")]
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.place, Place::Server { .. })
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

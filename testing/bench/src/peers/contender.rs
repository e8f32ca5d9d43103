//! The contenders, and how each is started.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use url::Url;

use crate::site::Site;
use crate::store::Store;

/// The variable that contains the URL for a contender. It is not visible to other users.
pub(crate) const URL: &str = "SHEDLOCK_BENCH_CONTEND_URL";

/// The folder in which Maven has built `testing/bench/java`.
const JAVA: &str = "SHEDLOCK_BENCH_JAVA";

/// The program of `testing/bench/peers`.
const PEERS: &str = "SHEDLOCK_BENCH_PEERS";

/// A contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Our provider, made by `connect(url)`.
    Ours,
    /// The same with unlocks that return when they are on disk.
    OursDurable,
    /// Our provider over an application's pool of sqlx 0.8.
    OursSqlx08,
    /// The same over tokio-postgres in a pool of deadpool.
    OursDeadpool,
    /// The same over diesel-async in a pool of bb8.
    OursDiesel,
    /// The minimum that a lock over the same client must do.
    Bare,
    /// ShedLock over Spring's JdbcTemplate, which most of its users have.
    Template,
    /// ShedLock over plain JDBC.
    Plain,
    /// ShedLock over Spring Data Redis with Lettuce.
    Lettuce,
    /// The crate `distributed-lock`.
    Distributed,
    /// The crate `rslock`.
    Rslock,
    /// The crate `dist_lock`.
    DistLock,
}

impl Contender {
    const ALL: [Self; 12] = [
        Self::Bare,
        Self::Ours,
        Self::OursDurable,
        Self::OursSqlx08,
        Self::OursDeadpool,
        Self::OursDiesel,
        Self::Template,
        Self::Plain,
        Self::Lettuce,
        Self::Distributed,
        Self::Rslock,
        Self::DistLock,
    ];

    /// The contenders that support this store, the bare one and ours first.
    pub(crate) fn of(store: Store) -> Vec<Self> {
        let speaks = |contender: &Self| match contender {
            Self::Ours | Self::Bare | Self::Distributed => true,
            Self::OursSqlx08 | Self::OursDiesel | Self::Template | Self::Plain => store.is_sql(),
            Self::OursDurable | Self::OursDeadpool => store == Store::POSTGRES,
            Self::Lettuce | Self::Rslock | Self::DistLock => store == Store::REDIS,
        };
        Self::ALL.into_iter().filter(speaks).collect()
    }

    /// The key in the outcome, and the prefix of its locks' names.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::OursDurable => "ours-durable",
            Self::OursSqlx08 => "ours-sqlx08",
            Self::OursDeadpool => "ours-deadpool",
            Self::OursDiesel => "ours-diesel",
            Self::Bare => "bare",
            Self::Template => "template",
            Self::Plain => "plain",
            Self::Lettuce => "lettuce",
            Self::Distributed => "distributed",
            Self::Rslock => "rslock",
            Self::DistLock => "dist_lock",
        }
    }

    /// The contender with this key.
    pub(crate) fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.key() == key)
    }

    /// For people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ours => "**ours**",
            Self::OursDurable => "ours, `durable_unlock=true`",
            Self::OursSqlx08 => "ours, sqlx 0.8",
            Self::OursDeadpool => "ours, deadpool-postgres",
            Self::OursDiesel => "ours, diesel-async",
            Self::Bare => "bare statements",
            Self::Template => "ShedLock, JdbcTemplate",
            Self::Plain => "ShedLock, plain JDBC",
            Self::Lettuce => "ShedLock, Lettuce",
            Self::Distributed => "`distributed-lock`",
            Self::Rslock => "`rslock`",
            Self::DistLock => "`dist_lock`",
        }
    }

    /// Whether it excludes others. Bare statements take a lock whoever holds it.
    pub(crate) fn excludes(self) -> bool {
        self != Self::Bare
    }

    /// Whether it runs slowly until a JIT compiler has optimized it.
    pub(crate) fn warms_up(self) -> bool {
        self.is_java()
    }

    pub(crate) fn is_java(self) -> bool {
        matches!(self, Self::Template | Self::Plain | Self::Lettuce)
    }

    /// A process that runs rounds, with at most this many connections.
    pub(crate) fn serve(self, site: &Site, connections: usize) -> anyhow::Result<Command> {
        Ok(match self {
            Self::Template | Self::Plain | Self::Lettuce => {
                self.java("serve", site, connections)?
            }
            Self::Ours | Self::OursDurable | Self::OursDeadpool | Self::OursDiesel | Self::Bare => {
                let mut command = Command::new(env::current_exe()?);
                command.args(["peer", self.key(), site.store.name()]);
                command.arg(connections.to_string()).env(URL, site.url());
                command
            }
            Self::OursSqlx08 | Self::Distributed | Self::Rslock | Self::DistLock => {
                let mut command = Command::new(built(PEERS)?);
                let word = match (self, site.store) {
                    (Self::Rslock, _) => "rslock",
                    (Self::DistLock, _) => "dist_lock",
                    (Self::OursSqlx08, Store::POSTGRES) => "shedlock-sqlx08-postgres",
                    (Self::OursSqlx08, _) => "shedlock-sqlx08-mysql",
                    (_, Store::POSTGRES) => "distributed-lock-postgres",
                    (_, Store::REDIS) => "distributed-lock-redis",
                    _ => "distributed-lock-mysql",
                };
                command.arg(word).arg(connections.to_string());
                command.env(URL, site.url_for_others()?);
                command
            }
        })
    }

    /// A program that takes one lock, gives it back, prints its peak memory in KiB, and exits. Only for ours and
    /// ShedLock's.
    pub(crate) fn once(self, site: &Site) -> anyhow::Result<Option<Command>> {
        Ok(match self {
            Self::Template | Self::Plain | Self::Lettuce => Some(self.java("once", site, 1)?),
            Self::Ours => {
                let here = env::current_exe()?;
                let mut command = Command::new(here.with_file_name("shedlock-one-lock"));
                command.env(URL, site.url());
                Some(command)
            }
            _ => None,
        })
    }

    fn java(self, what: &str, site: &Site, connections: usize) -> anyhow::Result<Command> {
        let (module, class) = if self == Self::Template {
            ("current", "shedlock.bench.Current")
        } else {
            ("older", "shedlock.bench.Older")
        };
        let folder = built(JAVA)?.join(module);
        let path = env::join_paths([folder.join("bench.jar"), folder.join("lib/*")])?;
        let mut command = Command::new("java");
        command
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .arg("-cp")
            .arg(path)
            .args([class, what, self.key(), &jdbc(site)?])
            .arg(connections.to_string());
        Ok(command)
    }
}

fn built(variable: &str) -> anyhow::Result<PathBuf> {
    let path = env::var_os(variable);
    let path =
        path.with_context(|| format!("{variable} is not set: run `cargo xtask bench --peers`"))?;
    Ok(PathBuf::from(path))
}

/// The address as a JDBC URL. Throw-away servers have no passwords.
fn jdbc(site: &Site) -> anyhow::Result<String> {
    let url = Url::parse(site.url())?;
    let host = url.host_str().unwrap_or_default();
    let port = url.port().context("a throw-away server has a port")?;
    Ok(match site.store {
        Store::REDIS => format!("redis://{host}:{port}"),
        store => {
            // Like all others here, it connects to a server without TLS.
            let (driver, options) = match store {
                Store::POSTGRES => ("postgresql", ""),
                _ => ("mariadb", "&sslMode=disable"),
            };
            let (database, user) = (url.path(), url.username());
            format!("jdbc:{driver}://{host}:{port}{database}?user={user}{options}")
        }
    })
}

//! The snapshots that are not the same on every store.

/// A snapshot of its own for some servers.
struct Difference {
    page: &'static str,
    /// All widths if there is none.
    columns: Option<usize>,
    servers: &'static [&'static str],
    /// Added to the name of the snapshot.
    variant: &'static str,
}

/// Their tables are created.
const TABLES: &[&str] = &["postgres", "pgbouncer", "mariadb", "mysql"];

const NO_JOURNAL: &[&str] = &["nats", "nats210", "nats212", "zookeeper", "etcd", "consul"];

const fn everywhere(
    page: &'static str,
    servers: &'static [&'static str],
    variant: &'static str,
) -> Difference {
    Difference {
        page,
        columns: None,
        servers,
        variant,
    }
}

const DIFFERENCES: &[Difference] = &[
    everywhere("migrate", TABLES, "table"),
    everywhere("migrate", &["sqlite"], "file"),
    everywhere("migrate", &["nats", "nats210", "nats212"], "bucket"),
    everywhere("migrate", &["zookeeper"], "nodes"),
    everywhere("journal", NO_JOURNAL, "none"),
    everywhere("journal", &["redis", "valkey"], "keys"),
    everywhere("journal", &["mongodb"], "collections"),
    everywhere("jobs", NO_JOURNAL, "none"),
    everywhere("history", NO_JOURNAL, "none"),
    everywhere("metrics", NO_JOURNAL, "none"),
    // Its checks depend on the store, and those of durability on the settings of these servers.
    everywhere("doctor", &["postgres", "pgbouncer"], "postgres"),
    everywhere("doctor", &["mariadb", "mysql"], "mysql"),
    everywhere("doctor", &["redis", "valkey"], "redis"),
    everywhere("doctor", &["nats", "nats210", "nats212"], "nats"),
    everywhere("doctor", &["zookeeper"], "zookeeper"),
    everywhere("doctor", &["etcd"], "etcd"),
    everywhere("doctor", &["mongodb"], "mongodb"),
    everywhere("doctor", &["consul"], "consul"),
    // Their tokens are short, so there is room for their column.
    Difference {
        page: "list",
        columns: Some(80),
        servers: &["zookeeper", "etcd", "consul"],
        variant: "tokens",
    },
];

/// The variant of this snapshot that this server has.
pub(crate) fn variant(page: &str, columns: usize, server: &str) -> Option<&'static str> {
    let mut differences = DIFFERENCES.iter();
    let found = differences.find(|it| {
        it.page == page && it.columns.is_none_or(|it| it == columns) && it.servers.contains(&server)
    })?;
    Some(found.variant)
}

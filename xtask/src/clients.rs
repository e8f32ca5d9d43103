//! Which feature brings which client: a user who enables one store compiles no other store's
//! client.

use crate::host;
use crate::steps::{self, Outcome};
use shedlock::__stores::STORES;

/// The facade's features for stores, and the crates that only the store of each may bring.
fn features() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    STORES.iter().flat_map(|entry| entry.features).copied()
}

/// Clients that none of our stores uses.
const STRANGERS: [&str; 5] = ["deadpool", "fred", "mysql_async", "postgres", "rusqlite"];

/// Tests every driver whose client is built without TLS. All other tests run with it.
pub(crate) const WITHOUT_TLS: [&str; 8] = [
    "test",
    "--lib",
    "--test=connect",
    "--package=shedlock",
    "--package=shedlock-tokio-postgres",
    "--package=shedlock-zookeeper",
    "--features",
    "shedlock/consul,shedlock/etcd,shedlock/mysql,shedlock/pings,shedlock/postgres,shedlock/redis,shedlock/sqlite,\
     shedlock/tokio-postgres,shedlock/zookeeper",
];

/// Builds every driver with aws-lc-rs alone. With all features, `ring` is used in its place.
pub(crate) const WITH_AWS_LC: [&str; 4] = [
    "check",
    "--package=shedlock",
    "--features",
    "stores,etcd,pings,tokio-postgres,tls-aws-lc",
];

/// Fails if the facade, with the feature of one store alone, brings a client of another.
pub(crate) fn one_store_brings_no_other() -> anyhow::Result<Outcome> {
    let mut complaints = Vec::new();
    for (feature, own) in features() {
        let tree = ["-p", "shedlock", "--no-default-features", "--features"];
        let listed = tree_of(&[&tree[..], &[feature]].concat())?;
        let missing = own.iter().filter(|client| !names(&listed, client));
        let missing: Vec<_> = missing.copied().collect();
        if !missing.is_empty() {
            // Otherwise the check would look for a name that no crate has.
            complaints.push(format!("{feature} lacks {}", missing.join(", ")));
        }
        complaints.extend(complaint(feature, &unwanted(&listed, own)));
    }
    Ok(judged(&complaints))
}

/// Fails if the contract brings any client.
pub(crate) fn core_brings_none() -> anyhow::Result<Outcome> {
    let listed = tree_of(&["-p", "shedlock-core", "--all-features"])?;
    let found = complaint("shedlock-core", &unwanted(&listed, &[]));
    Ok(judged(&Vec::from_iter(found)))
}

/// The packages that these arguments of `cargo tree` compile for users, one per line.
fn tree_of(which: &[&str]) -> anyhow::Result<String> {
    host::output(
        steps::cargo()
            .args(["tree", "-e", "normal", "--prefix", "none"])
            .args(which),
    )
}

fn names(listed: &str, package: &str) -> bool {
    listed
        .lines()
        .any(|line| line.split(' ').next() == Some(package))
}

/// The clients in the output of `cargo tree --prefix none` that do not belong to this store.
fn unwanted(listed: &str, own: &[&str]) -> Vec<&'static str> {
    let mut found: Vec<_> = features()
        .flat_map(|(_, clients)| clients)
        .chain(&STRANGERS)
        .copied()
        .filter(|client| !own.contains(client) && names(listed, client))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn complaint(who: &str, found: &[&str]) -> Option<String> {
    (!found.is_empty()).then(|| format!("{who} brings {}", found.join(", ")))
}

fn judged(complaints: &[String]) -> Outcome {
    if complaints.is_empty() {
        return Outcome::Passed;
    }
    Outcome::Failed(complaints.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSTGRES: &[&str] = STORES[0].features[0].1;

    #[test]
    fn a_client_of_another_store_is_found_and_the_own_one_is_not() {
        let tree =
            "shedlock v0.1.0 (/w)\nsqlx-postgres v0.9.0\nsqlx-mysql v0.9.0\nsqlx v0.9.0 (*)\n";
        assert_eq!(unwanted(tree, POSTGRES), ["sqlx-mysql"]);
        assert_eq!(unwanted(tree, &[]), ["sqlx", "sqlx-mysql", "sqlx-postgres"]);
        assert_eq!(
            judged(&Vec::from_iter(complaint("postgres", &["redis"]))),
            Outcome::Failed("postgres brings redis".to_owned())
        );
    }

    #[test]
    fn every_store_of_the_facade_is_looked_at() {
        let manifest = steps::workspace_root().join("crates/shedlock/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let features = manifest.lines().skip_while(|line| *line != "[features]");
        let features = features.skip(1).take_while(|line| !line.starts_with('['));
        let features = features.filter_map(|line| line.split_once(" = "));
        let mut stores: Vec<_> = features
            .filter(|(_, brings)| brings.contains("\"dep:shedlock-"))
            .map(|(feature, _)| feature)
            .filter(|feature| !["macros", "metrics", "pings", "scheduler"].contains(feature))
            .collect();
        let mut known: Vec<_> = super::features().map(|(feature, _)| feature).collect();
        stores.sort_unstable();
        known.sort_unstable();
        assert_eq!(
            known, stores,
            "the registry and the manifest of the facade differ"
        );
    }
}

//! `shedlock doctor` on real servers with planted faults, and on healthy ones.
//!
//! Each check has a test that plants its fault. `stores::faults` stands for `tests/stores/faults.rs`, which
//! runs on every store, as `tests/stores/story.md` does, which shows `doctor` on healthy ones.
//!
//! | fault | planted by |
//! |---|---|
//! | unreachable | `sqlite::a_store_that_is_unreachable_is_a_finding` |
//! | slow replies | the unit test of `diagnose/clocks.rs` in `stores/common` |
//! | version | none: it is shown in the story |
//! | clock ahead or behind, with its round trip | `clock` (PostgreSQL, MariaDB, MySQL, Redis, Valkey, MongoDB); the other stores return no time |
//! | privileges | `postgres`, `mysql`, `mongodb`; ACLs: `redis`, `consul`, `zookeeper`; file and folder: `sqlite` |
//! | read-only server, standby, replica | `postgres`, `mysql`, `redis` |
//! | no table, missing primary key | `sqlite`, `postgres`, `mysql` |
//! | type of a column | `postgres` |
//! | missing columns | `sqlite`, `postgres`, `mysql` |
//! | storage engine, triggers, row-level security | `mysql`, `postgres` |
//! | time zone of the session | `mysql`; times from another zone (`acquired`): `sqlite`, `postgres`, `mysql` |
//! | a Java process whose clock is behind | `sqlite::a_clock_that_is_behind_is_not_missed` |
//! | a lock name in two tables | `a_second_lock_table_is_created_only_on_request` of `tests/sql` |
//! | durability | `postgres` (`synchronous_commit`, `fsync`, unlogged), `mysql` (`innodb_flush_log_at_trx_commit`, `sync_binlog`), `redis` (`appendonly`, `appendfsync`), `nats` (`sync_interval`, memory); MongoDB: the command always sets the write concern |
//! | eviction | `redis` |
//! | replicas that commits do not wait for | `postgres`, `mysql`, `redis` |
//! | cluster with several clocks, or that the URL does not name | `mysql`, `redis` |
//! | settings of the bucket | `nats` |
//! | rows of ShedLock for Java | `sqlite::a_healthy_file_has_no_faults` |
//! | names that differ only in case | `stores::faults`, `sqlite` |
//! | a lease that no one would wait for | `stores::faults`, `sqlite`, `postgres` |
//! | a record that no one can ever acquire | without an end: `sqlite`, `postgres`, `mysql`, `redis`; unreadable: `mongodb`, `redis` |
//! | slots in the future, paused jobs | `stores::faults`, `sqlite` |
//! | slots that stay open | `sqlite` |
//! | too few replicas for `wait_replicas` | `redis` |
//! | alarms | `etcd` |
//! | collation of the collection | `mongodb` |

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

#[path = "../command/common.rs"]
mod common;

mod clock;
mod consul;
#[cfg(feature = "etcd")]
mod etcd;
mod journal;
mod mongodb;
mod mysql;
mod nats;
mod postgres;
mod redis;
mod sqlite;
mod zookeeper;

use serde_json::Value;

use common::{Done, Sandbox, done};

/// The names of all checks that a healthy store passes, whatever store it is.
const COMMON: [&str; 10] = [
    "setup",
    "reachable",
    "clock",
    "java",
    "names",
    "end",
    "acquired",
    "slots",
    "paused",
    #[cfg(target_os = "linux")]
    "clock-rate",
];

/// What `doctor` found in a store.
#[derive(Debug)]
struct Report {
    code: i32,
    findings: Vec<Found>,
}

#[derive(Debug)]
struct Found {
    check: String,
    level: String,
    message: String,
    remedy: Option<String>,
}

fn doctor(store: &str) -> Report {
    doctor_with(store, &[])
}

fn doctor_with(store: &str, options: &[&str]) -> Report {
    let arguments = [&["doctor", "-o", "json", "--store", store], options].concat();
    report(&done(&mut Sandbox::new().bare(&arguments)))
}

fn report(ended: &Done) -> Report {
    let json: Value =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let findings = json["findings"].as_array().unwrap().iter();
    Report {
        code: ended.code,
        findings: findings
            .map(|finding| Found {
                check: text(&finding["check"]).unwrap(),
                level: text(&finding["level"]).unwrap(),
                message: text(&finding["message"]).unwrap(),
                remedy: text(&finding["remedy"]),
            })
            .collect(),
    }
}

/// `run` reports, with these words, that it cannot take this lock.
#[track_caller]
fn cannot_run(store: &str, name: &str, words: &str) {
    let run = ["run", "-n", name, "--lock-at-most-for", "1m", "--", "true"];
    // On the command line, a password gets a warning.
    let ran = done(Sandbox::new().bare(&run).env("SHEDLOCK_STORE", store));
    assert_eq!(ran.code, 69, "{ran:?}");
    let start = format!("shedlock: {name}: the command was not started: ");
    let error = ran
        .stderr
        .strip_prefix(&start)
        .unwrap_or_else(|| panic!("{ran:?}"));
    assert!(error.contains(words), "no {words:?} in {error}");
    // What failed: why; what to do.
    let (failure, remedy) = error.split_once("; ").unwrap_or_else(|| panic!("{error}"));
    assert!(failure.contains(": ") && !remedy.is_empty(), "{error}");
}

impl Report {
    /// The level of the finding about the journal, and its text.
    #[track_caller]
    fn journal(&self) -> (String, String) {
        let found = self.findings.iter().find(|it| it.check == "journal");
        let found = found.unwrap_or_else(|| panic!("{self:?}"));
        let remedy = found.remedy.as_deref().unwrap_or_default();
        (found.level.clone(), format!("{}; {remedy}", found.message))
    }

    /// Those that are not in order: their checks and levels.
    fn faults(&self) -> Vec<(&str, &str)> {
        self.all_faults()
            .map(|it| (&*it.check, &*it.level))
            .collect()
    }

    /// Most of these stores have no journal, which is a finding of its own.
    fn all_faults(&self) -> impl Iterator<Item = &Found> {
        let is_fault =
            |found: &&Found| found.level != "ok" && !found.message.starts_with("no journal:");
        self.findings.iter().filter(is_fault)
    }

    /// Whether this check has found something with these words.
    fn has(&self, check: &str, words: &str) -> bool {
        let mut findings = self.findings.iter();
        let in_remedy = |it: &Found| it.remedy.as_ref().is_some_and(|it| it.contains(words));
        let says = |it: &Found| it.message.contains(words) || in_remedy(it);
        findings.any(|it| it.check == check && it.level != "ok" && says(it))
    }

    #[track_caller]
    fn is_healthy(&self) {
        assert_eq!((self.faults(), self.code), (Vec::new(), 0), "{self:?}");
        for check in COMMON {
            let has = self.findings.iter().any(|found| found.check == check);
            assert!(has, "{check} is missing: {self:?}");
        }
    }

    /// Exactly this fault was found, with these words and with what to do.
    #[track_caller]
    fn has_only(&self, check: &str, level: &str, words: &str) {
        assert_eq!(self.faults(), [(check, level)], "{self:?}");
        assert_eq!(self.code, i32::from(level == "error"), "{self:?}");
        let fault = self.all_faults().next().unwrap();
        let remedy = fault.remedy.as_deref().unwrap_or_default();
        let text = format!("{}; {remedy}", fault.message);
        assert!(text.contains(words), "no {words:?} in {fault:?}");
    }
}

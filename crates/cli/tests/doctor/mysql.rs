//! MariaDB and MySQL.

use shedlock_conformance::support::unique;
use shedlock_rig::OwnServer;
use shedlock_rig::given::server_if_any;
use shedlock_rig::port;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};

use super::common::{Sandbox, done, eventually};
use super::{cannot_run, doctor};

/// A database with a lock table, and a user of its own.
pub(super) struct Room {
    connection: MySqlConnection,
    name: String,
    pub(super) url: String,
}

impl Room {
    pub(super) async fn in_server(server: &str) -> Self {
        let name: String = unique("doctor").chars().take(32).collect();
        let connection = MySqlConnection::connect(server).await.unwrap();
        let url = server.replacen("root@", &format!("{name}:x@"), 1);
        let url = url.replacen("/mysql", &format!("/{name}"), 1);
        let mut room = Self {
            connection,
            name,
            url,
        };
        room.run("CREATE DATABASE {user}").await;
        room.run("CREATE USER {user} IDENTIFIED BY 'x'").await;
        room.run("GRANT ALL ON {user}.* TO {user}").await;
        let arguments = ["migrate", "--no-journal", "--store", &room.url];
        let migrated = done(&mut Sandbox::new().bare(&arguments));
        assert_eq!(migrated.code, 0, "{}", migrated.stderr);
        room
    }

    /// Runs this statement as the administrator. `{user}` is the user, and also the database.
    pub(super) async fn run(&mut self, statement: &str) {
        let text = AssertSqlSafe(statement.replace("{user}", &self.name));
        let ran = sqlx::raw_sql(text).execute(&mut self.connection).await;
        ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// The servers that this machine has.
pub(super) fn servers() -> impl Iterator<Item = String> {
    ["mariadb", "mysql"].into_iter().filter_map(server_if_any)
}

#[tokio::test]
async fn a_healthy_server_has_no_faults() {
    for server in servers() {
        let room = Room::in_server(&server).await;
        doctor(&room.url).is_healthy();
    }
}

#[tokio::test]
async fn no_fault_in_a_right_or_the_table_is_missed() {
    for (statements, check, level, words) in [
        (
            &[
                "REVOKE ALL ON {user}.* FROM {user}",
                "GRANT SELECT, INSERT ON {user}.* TO {user}",
            ][..],
            "privileges",
            "error",
            "lacks a privilege",
        ),
        (
            &["ALTER TABLE {user}.shedlock ENGINE=MyISAM"],
            "engine",
            "warning",
            "ENGINE=InnoDB",
        ),
        (
            &["ALTER TABLE {user}.shedlock DROP PRIMARY KEY"],
            "setup",
            "error",
            "primary key",
        ),
        (
            &["ALTER TABLE {user}.shedlock DROP COLUMN shedlock_slot"],
            "setup",
            "error",
            "shedlock migrate",
        ),
        (
            &[
                "CREATE TRIGGER {user}.t BEFORE UPDATE ON {user}.shedlock FOR EACH ROW \
               SET NEW.locked_by = LOWER(NEW.locked_by)",
            ],
            "triggers",
            "warning",
            "drop them",
        ),
        (
            &[
                "INSERT INTO {user}.shedlock (name, lock_until, locked_at, locked_by) VALUES \
               ('a', UTC_TIMESTAMP() + INTERVAL 3 HOUR, UTC_TIMESTAMP() + INTERVAL 2 HOUR, \
               'web-3')",
            ],
            "acquired",
            "error",
            "time zone",
        ),
        (
            &[
                "ALTER TABLE {user}.shedlock MODIFY lock_until TIMESTAMP(3) NULL",
                "INSERT INTO {user}.shedlock (name, lock_until, locked_at, locked_by) VALUES \
                 ('a', NULL, UTC_TIMESTAMP(), 'web-3')",
            ],
            "end",
            "error",
            "\"a\" (no end)",
        ),
    ] {
        for server in servers() {
            let mut room = Room::in_server(&server).await;
            for statement in statements {
                room.run(statement).await;
            }
            doctor(&room.url).has_only(check, level, words);
            if words.contains("no end") {
                cannot_run(&room.url, "a", "can never be taken");
            }
        }
    }
}

/// Settings of the whole server.
#[tokio::test(flavor = "multi_thread")]
async fn no_fault_in_a_setting_of_the_server_is_missed() {
    if server_if_any("mariadb").is_none() {
        return;
    }
    let server = OwnServer::start("mariadb", &["--log-bin", "--sync-binlog=1"]).unwrap();
    let mut room = Room::in_server(server.url()).await;
    for (fault, repair, check, level, words) in [
        (
            "innodb_flush_log_at_trx_commit = 2",
            "innodb_flush_log_at_trx_commit = 1",
            "durability",
            "warning",
            "innodb_flush_log_at_trx_commit=1",
        ),
        (
            "sync_binlog = 0",
            "sync_binlog = 1",
            "durability",
            "warning",
            "sync_binlog=1",
        ),
        (
            "binlog_format = STATEMENT",
            "binlog_format = MIXED",
            "replicas",
            "warning",
            "binlog_format=ROW",
        ),
        (
            "time_zone = '+05:30'",
            "time_zone = '+00:00'",
            "zone",
            "warning",
            "shared_session_zone",
        ),
        (
            "read_only = ON",
            "read_only = OFF",
            "privileges",
            "error",
            "primary",
        ),
    ] {
        room.run(&format!("SET GLOBAL {fault}")).await;
        doctor(&room.url).has_only(check, level, words);
        room.run(&format!("SET GLOBAL {repair}")).await;
        doctor(&room.url).is_healthy();
    }
}

/// A primary whose replica commits do not wait for, and the replica itself.
#[tokio::test(flavor = "multi_thread")]
async fn no_replica_is_missed() {
    if server_if_any("mariadb").is_none() {
        return;
    }
    let binlog = ["--log-bin", "--sync-binlog=1", "--server-id=1"];
    let primary = OwnServer::start("mariadb", &binlog).unwrap();
    let replica = OwnServer::start("mariadb", &["--server-id=2", "--read-only"]).unwrap();
    let mut room = Room::in_server(primary.url()).await;
    // Otherwise it sees only sessions of its own.
    room.run("GRANT PROCESS ON *.* TO {user}").await;
    doctor(&room.url).is_healthy();

    let mut follower = MySqlConnection::connect(replica.url()).await.unwrap();
    let port = url::Url::parse(primary.url()).unwrap().port().unwrap();
    let source = format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'root'"
    );
    for statement in [source.as_str(), "START SLAVE"] {
        let text = AssertSqlSafe(statement.to_owned());
        let ran = sqlx::raw_sql(text).execute(&mut follower).await;
        ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let faults = |url: &str| format!("{:?}", doctor(url).faults());
    eventually("a replica", || faults(&room.url).contains("replicas"));
    doctor(&room.url).has_only("replicas", "warning", "semisynchronous");
    let here = url::Url::parse(replica.url()).unwrap().port().unwrap();
    let copy = room.url.replace(&format!(":{port}/"), &format!(":{here}/"));
    eventually("the replicated table", || {
        faults(&copy).contains("privileges")
    });
    doctor(&copy).has_only("privileges", "error", "primary");

    let mut on_replica = async |statement: &str| {
        let text = AssertSqlSafe(statement.replace("{user}", &room.name));
        let ran = sqlx::raw_sql(text).execute(&mut follower).await;
        ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
    };
    on_replica("SET GLOBAL read_only = OFF").await;
    doctor(&copy).has_only("source", "warning", "connect to the primary");
    on_replica("STOP SLAVE").await;
    let report = doctor(&copy);
    report.is_healthy();
    let found = format!("{report:?}");
    assert!(found.contains("SLAVE MONITOR"), "{found}");
    on_replica("GRANT SLAVE MONITOR ON *.* TO {user}").await;
    doctor(&copy).has_only("source", "warning", "connect to the primary");
    on_replica("RESET REPLICA ALL").await;
    doctor(&copy).is_healthy();
}

/// MySQL shows a source to users who have the privilege, even before the replication starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_writable_replica_of_mysql_is_not_missed() {
    if server_if_any("mysql").is_none() {
        return;
    }
    let server = OwnServer::start("mysql", &[]).unwrap();
    let mut room = Room::in_server(server.url()).await;
    room.run("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_USER = 'root'")
        .await;
    let report = format!("{:?}", doctor(&room.url));
    assert!(report.contains("REPLICATION CLIENT"), "{report}");
    room.run("GRANT REPLICATION CLIENT ON *.* TO {user}").await;
    doctor(&room.url).has_only("source", "warning", "connect to the primary");
}

/// A cluster of one node, which others may join.
#[tokio::test(flavor = "multi_thread")]
async fn several_clocks_are_not_missed() {
    let library = "/usr/lib/galera/libgalera_smm.so";
    if server_if_any("mariadb").is_none() || !std::path::Path::new(library).exists() {
        return;
    }
    let provider = format!("--wsrep-provider={library}");
    let [port, other] = [port::free().unwrap(), port::free().unwrap()];
    let options = format!(
        "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{port};\
         ist.recv_addr=127.0.0.1:{other};gcache.size=8M"
    );
    let arguments = [
        "--wsrep-on=ON",
        &provider,
        &options,
        "--wsrep-cluster-address=gcomm://",
        "--wsrep-node-address=127.0.0.1",
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
    ];
    let node = OwnServer::start("mariadb", &arguments).unwrap();
    let room = Room::in_server(node.url()).await;
    doctor(&room.url).has_only("cluster", "warning", "server_skew");
    doctor(&format!("{}?server_skew=1s", room.url)).is_healthy();
}

/// Beside ShedLock for Java, on a server that starts its sessions in another zone.
#[tokio::test]
async fn java_in_an_unknown_zone_stops_runs_and_is_an_error() {
    let Some(server) = server_if_any("mariadb-tz") else {
        return;
    };
    let mut room = Room::in_server(&server).await;
    room.run(
        "INSERT INTO {user}.shedlock (name, lock_until, locked_at, locked_by) \
         VALUES ('sendMails', UTC_TIMESTAMP(), UTC_TIMESTAMP(), 'web-3')",
    )
    .await;
    let run = |url: &str| {
        let arguments = [
            "run",
            "-q",
            "-n",
            "qtest",
            "--lock-at-most-for",
            "5s",
            "--store",
            url,
        ];
        done(Sandbox::new().bare(&arguments).args(["--", "echo", "ran"]))
    };
    let refused = run(&room.url);
    assert_eq!(
        (refused.code, &*refused.stdout),
        (69, ""),
        "{}",
        refused.stderr
    );
    for part in [
        "\"web-3\"",
        "\"sendMails\"",
        "shared_session_zone",
        "%2B00:00",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert!(doctor(&room.url).has("zone", "web-3"));
    // What it advises.
    let told = format!("{}?shared_session_zone=%2B05:30", room.url);
    let ran = run(&told);
    assert_eq!((ran.code, &*ran.stdout), (0, "ran\n"), "{}", ran.stderr);
}

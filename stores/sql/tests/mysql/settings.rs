//! What a server's settings mean for locks, on separate servers with different settings.

use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, Clock as _, Completion, ErrorKind, ExtendRequest, Extension, Level,
    LockProvider as _, Owner, Slot, SlotEnd, SystemClock, Unlock, UnlockRequest,
};
use shedlock_rig::given::{needs_store, server_if_any};
use shedlock_rig::{OwnServer, port};
use shedlock_sqlx::MySqlProvider;
use sqlx::mysql::{MySqlPoolOptions, MySqlRow};
use sqlx::{AssertSqlSafe, MySqlPool, Row as _};

use crate::common::with_option;
use crate::room::{HOUR, Room, request, run, skip, take};
use shedlock_rig::wait::{found_async, sleep};

/// With statement-based logging, a replica runs the statements again when it reaches them, possibly
/// long after the end of a lease that was extended in time.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_lags_loses_no_extension_and_no_done_mark() {
    needs_store("mariadb");
    for format in ["STATEMENT", "MIXED"] {
        let format = format!("--binlog-format={format}");
        let logs = ["--log-bin", &format, "--server-id=1"];
        let primary = OwnServer::start("mariadb", &logs).unwrap();
        let replica = OwnServer::start("mariadb", &["--server-id=2"]).unwrap();
        let of_replica = MySqlPool::connect(replica.url()).await.unwrap();
        let of_primary = MySqlPool::connect(primary.url()).await.unwrap();
        follow(&of_replica, &primary).await;
        let provider = MySqlProvider::connect(primary.url()).await.unwrap();
        let _ = provider.migrate().await.unwrap();
        catch_up(&of_primary, &of_replica).await;

        run(&of_replica, "STOP SLAVE SQL_THREAD").await;
        let short = Duration::from_secs(2);
        let name = |text: &str| request(text).name.clone();
        let brief = AttemptRequest::new(name("extended"), Owner::generate(), short);
        let Attempt::Acquired(lease) = provider.attempt(&brief).await.unwrap() else {
            panic!("the lock is free");
        };
        let longer = ExtendRequest::new(HOUR);
        let extended = provider.extend(&lease, &longer).await.unwrap();
        assert!(matches!(extended, Extension::Extended(_)));
        let brief = AttemptRequest::new(name("done"), Owner::generate(), short)
            .with_slot(Slot::at(SystemClock.system_time()).unwrap())
            .with_completion(Completion::on_success());
        let Attempt::Acquired(lease) = provider.attempt(&brief).await.unwrap() else {
            panic!("the lock is free");
        };
        let done = UnlockRequest::new().with_slot_end(SlotEnd::done(true));
        let unlocked = provider.unlock(&lease, &done).await.unwrap();
        assert_eq!(unlocked, Unlock::Unlocked);
        sleep(short + Duration::from_secs(1)).await;
        run(&of_replica, "START SLAVE SQL_THREAD").await;
        catch_up(&of_primary, &of_replica).await;

        let there = records(&of_replica).await;
        assert_eq!(there, records(&of_primary).await, "{format}");
        assert_eq!(there.len(), 2, "{there:?}");
        // The replica takes over.
        let promoted = MySqlProvider::connect(replica.url()).await.unwrap();
        skip(&promoted, "extended").await;
    }
}

/// A stopped replica is seen over each driver.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_stopped_is_no_primary() {
    needs_store("mariadb");
    let server = OwnServer::start("mariadb", &[]).unwrap();
    let pool = MySqlPool::connect(server.url()).await.unwrap();
    run(
        &pool,
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='root'",
    )
    .await;
    let by_sqlx = MySqlProvider::new(pool);
    let _ = by_sqlx.migrate().await.unwrap();
    let by_diesel = crate::diesel_pools::mysql::bb8(server.url(), 2);
    let by_diesel = shedlock_diesel_async::MySqlProvider::new(by_diesel);
    for findings in [by_sqlx.diagnose().await, by_diesel.diagnose().await] {
        let findings = findings.unwrap();
        let source = findings.iter().find(|finding| finding.check == "source");
        assert_eq!(source.unwrap().level, Level::Warning, "{findings:?}");
    }
}

async fn follow(replica: &MySqlPool, primary: &OwnServer) {
    let port = url::Url::parse(primary.url()).unwrap().port().unwrap();
    let follow = format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root', \
         MASTER_USE_GTID=slave_pos"
    );
    run(replica, &follow).await;
    run(replica, "START SLAVE").await;
}

async fn catch_up(primary: &MySqlPool, replica: &MySqlPool) {
    let row = sqlx::raw_sql("SELECT CAST(@@gtid_binlog_pos AS CHAR)").fetch_one(primary);
    let position: String = row.await.unwrap().get(0);
    let text = format!("SELECT MASTER_GTID_WAIT('{position}', 30)");
    let row = sqlx::raw_sql(AssertSqlSafe(text)).fetch_one(replica);
    assert_eq!(row.await.unwrap().get::<i32, _>(0), 0, "the replica runs");
}

/// The whole table as text.
async fn records(pool: &MySqlPool) -> Vec<String> {
    let text = "SELECT CAST(CONCAT_WS(', ', name, lock_until, locked_at, locked_by, \
                shedlock_fencing_token, shedlock_slot, shedlock_slot_done, \
                shedlock_slot_attempts) AS CHAR) FROM shedlock ORDER BY name";
    let rows = sqlx::raw_sql(text).fetch_all(pool).await.unwrap();
    rows.iter().map(|row: &MySqlRow| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_before_its_disk_does_is_not_called_durable() {
    needs_store("mariadb");
    let server = OwnServer::start("mariadb", &["--log-bin", "--sync-binlog=1"]).unwrap();
    let pool = MySqlPool::connect(server.url()).await.unwrap();
    let provider = MySqlProvider::connect(server.url()).await.unwrap();
    let _ = provider.migrate().await.unwrap();
    for (setting, is_durable) in [
        ("innodb_flush_log_at_trx_commit = 0", false),
        ("innodb_flush_log_at_trx_commit = 2", false),
        ("innodb_flush_log_at_trx_commit = 3", true),
        ("innodb_flush_log_at_trx_commit = 1", true),
        ("sync_binlog = 0", false),
        ("sync_binlog = 1", true),
    ] {
        run(&pool, &format!("SET GLOBAL {setting}")).await;
        provider.check().await.unwrap();
        assert_eq!(provider.capabilities().durable, is_durable, "{setting}");
        // Nothing else depends on it.
        let lease = take(&provider, "job").await;
        crate::room::free(&provider, &lease).await;
    }
}

#[tokio::test]
async fn a_url_sets_how_far_apart_the_clocks_of_servers_may_be() {
    let room = Room::migrated(&crate::common::server("mariadb")).await;
    assert_eq!(
        room.provider().await.capabilities().server_skew,
        Duration::ZERO
    );
    let url = with_option(&room.url, "server_skew", "2s");
    let provider = MySqlProvider::connect(&url).await.unwrap();
    assert_eq!(provider.capabilities().server_skew, Duration::from_secs(2));
    // The clients' clocks are declared separately.
    let url = with_option(&url, "time", "client");
    let provider = MySqlProvider::connect(&url).await.unwrap();
    assert_eq!(provider.capabilities().server_skew, Duration::ZERO);
}

/// Two nodes that accept writes at the same time. A statement that conflicts with the other node on
/// commit is retried. It is neither an error nor a second winner.
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_of_galera_grant_no_lock_twice() {
    needs_store("mariadb");
    let library = "/usr/lib/galera/libgalera_smm.so";
    if !std::path::Path::new(library).exists() {
        return;
    }
    let free_port = || port::free().unwrap();
    let ports = [free_port(), free_port()];
    let start = |at: usize, others: String| {
        let provider = format!("--wsrep-provider={library}");
        let options = format!(
            "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{0};\
             ist.recv_addr=127.0.0.1:{1};gcache.size=8M",
            ports[at],
            free_port()
        );
        let receiver = format!("--wsrep-sst-receive-address=127.0.0.1:{}", free_port());
        let address = format!("--wsrep-cluster-address=gcomm://{others}");
        let arguments = [
            "--wsrep-on=ON",
            &provider,
            &options,
            &address,
            "--wsrep-node-address=127.0.0.1",
            "--wsrep-sst-method=rsync",
            &receiver,
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
        ];
        OwnServer::start("mariadb", &arguments).unwrap()
    };
    let first = start(0, String::new());
    let second = start(1, format!("127.0.0.1:{}", ports[0]));
    let pools = [pool(&first).await, pool(&second).await];
    for pool in &pools {
        until_synced(pool).await;
    }
    let providers = [&first, &second]
        .map(|server| async { MySqlProvider::connect(server.url()).await.unwrap() });
    let [one, other] = providers;
    let (one, other) = (one.await, other.await);
    let _ = one.migrate().await.unwrap();
    until_there(&pools[1]).await;

    assert!(format!("{one:?}").contains("wsrep_on is ON"), "{one:?}");
    let mut wins = [0, 0];
    for round in 0..200 {
        // On a busy machine, the node that is asked first wins every time: they take turns.
        let asked = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        let [first, second] = asked.map(|at| [&one, &other][at]);
        let (early, late) = (request("job"), request("job"));
        let answers = tokio::join!(first.attempt(&early), second.attempt(&late));
        let leases = [(first, answers.0), (second, answers.1)];
        let mut winners = 0;
        for (at, (provider, answer)) in asked.into_iter().zip(leases) {
            if let Attempt::Acquired(lease) = answer.unwrap() {
                winners += 1;
                wins[at] += 1;
                crate::room::free(provider, &lease).await;
            }
        }
        assert!(winners < 2, "both nodes granted the lock");
    }
    assert!(wins[0] > 0 && wins[1] > 0, "{wins:?}");
}

/// Each member may become the one that judges.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_group_replication_is_seen_as_one() {
    if server_if_any("mysql").is_none() {
        return;
    }
    let member = [
        "--loose-plugin-load-add=group_replication.so",
        "--loose-group-replication-group-name=1f0e5b0a-6a1d-4b6e-9d59-3d6f0c7a2b11",
        "--loose-group-replication-start-on-boot=OFF",
    ];
    let member = OwnServer::start("mysql", &member).unwrap();
    let alone = Room::migrated(&crate::common::server("mysql")).await;
    let seen = "group_replication_group_name is set";
    let provider = Room::migrated(member.url()).await.provider().await;
    assert!(format!("{provider:?}").contains(seen), "{provider:?}");
    let provider = alone.provider().await;
    assert!(!format!("{provider:?}").contains(seen), "{provider:?}");
}

async fn pool(server: &OwnServer) -> MySqlPool {
    let pool = MySqlPoolOptions::new().max_connections(1);
    pool.connect(server.url()).await.unwrap()
}

async fn until_synced(pool: &MySqlPool) {
    let state = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
                 WHERE VARIABLE_NAME = 'wsrep_local_state_comment'";
    until(pool, state, "Synced").await;
}

async fn until_there(pool: &MySqlPool) {
    let tables = "SELECT CAST(COUNT(*) AS CHAR) FROM information_schema.TABLES \
                  WHERE TABLE_NAME = 'shedlock'";
    until(pool, tables, "1").await;
}

async fn until(pool: &MySqlPool, question: &'static str, answer: &str) {
    found_async(&format!("{question} is {answer}"), async || {
        let row = sqlx::raw_sql(question).fetch_one(pool).await.unwrap();
        (row.get::<String, _>(0) == answer).then_some(())
    })
    .await;
}

/// The state of a primary after another server has taken over: none of our connections stays with
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_set_to_read_only_keeps_no_connection_of_ours() {
    needs_store("mariadb");
    let server = OwnServer::start("mariadb", &[]).unwrap();
    let pool = MySqlPool::connect(server.url()).await.unwrap();
    let room = Room::migrated(server.url()).await;
    let database = room.url.rsplit('/').next().unwrap();
    // Administrators may write nevertheless.
    let grant = format!("GRANT SELECT, INSERT, UPDATE ON {database}.* TO worker");
    run(&pool, "CREATE USER worker").await;
    run(&pool, &grant).await;
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_username("worker").unwrap();
    let provider = MySqlProvider::connect(url.as_str()).await.unwrap();
    let lease = take(&provider, "job").await;
    let sessions = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'worker'";
    assert_eq!(room.number(sessions).await, 1);

    run(&pool, "SET GLOBAL read_only = 1").await;
    let error = provider.attempt(&request("other")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    found_async("no session is left", async || {
        (room.number(sessions).await == 0).then_some(())
    })
    .await;
    run(&pool, "SET GLOBAL read_only = 0").await;
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
}

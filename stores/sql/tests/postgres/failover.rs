//! A primary that fails, the standby that takes over, and the old primary as its standby.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{address, within};
use crate::room::{free, name, request, take};
use shedlock_core::{ErrorKind, ExtendRequest, Extension, LockProvider as _};
use shedlock_rig::OwnServer;
use shedlock_rig::given::needs_store;
use shedlock_rig::wait::sleep;
use shedlock_sql::PostgresProvider;
use sqlx::{AssertSqlSafe, PgPool, Row as _};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test(flavor = "multi_thread")]
async fn sessions_to_an_old_primary_that_follows_the_new_one_fail_no_call() {
    needs_store("postgres");
    let (old, new) = tokio::join!(Server::start(), Server::start());
    new.stop();
    new.follow(&old);
    let name_in_dns = Name::of(&old).await;
    let provider = PostgresProvider::connect(&name_in_dns.url).await.unwrap();
    let _ = provider.migrate().await.unwrap();
    let lease = take(&provider, "running").await;
    new.catch_up_with(&old).await;

    old.stop();
    assert!(new.fetch::<bool>("SELECT pg_promote()").await);
    old.follow(&new);
    // The name still leads to the old server, which serves reads on several sessions.
    let running = name("running");
    let read = || async {
        let reads = futures_util::future::join_all((0..4).map(|_| provider.inspect(&running)));
        for read in reads.await {
            assert!(read.unwrap().is_some());
        }
    };
    read().await;
    let refused = provider.attempt(&request("job")).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    read().await;
    // The sessions remain when the name leads to the new server.
    name_in_dns.lead_to(&new);
    let longer = ExtendRequest::new(Duration::from_secs(90));
    let extended = provider.extend(&lease, &longer).await.unwrap();
    assert!(matches!(extended, Extension::Extended(_)), "{extended:?}");
    for _ in 0..4 {
        free(&provider, &take(&provider, "job").await).await;
    }
    free(&provider, &lease).await;
}

/// A server for this test only, whose data can be replaced.
struct Server {
    server: OwnServer,
    data: PathBuf,
    programs: PathBuf,
}

impl Server {
    async fn start() -> Self {
        let start = || OwnServer::start("postgres", &["-cfsync=off"]).unwrap();
        let server = tokio::task::spawn_blocking(start).await.unwrap();
        let mut started = Self {
            server,
            data: PathBuf::new(),
            programs: PathBuf::new(),
        };
        started.data = started
            .fetch::<String>("SELECT current_setting('data_directory')")
            .await
            .into();
        started.programs = started
            .fetch::<String>("SELECT setting FROM pg_config WHERE name = 'BINDIR'")
            .await
            .into();
        started
    }

    fn stop(&self) {
        self.server.kill().unwrap();
    }

    /// Starts this stopped server as a standby of the other one.
    fn follow(&self, primary: &Self) {
        let owner = std::fs::metadata(&self.data).unwrap();
        std::fs::remove_dir_all(&self.data).unwrap();
        let mut copy = Command::new(self.programs.join("pg_basebackup"));
        copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"])
            .args(["--dbname", primary.server.url()])
            .arg("--pgdata")
            .arg(&self.data)
            // If this process is root, the server is not.
            .uid(owner.uid())
            .gid(owner.gid())
            .current_dir("/");
        let copied = copy.output().unwrap();
        let said = String::from_utf8_lossy(&copied.stderr);
        assert!(copied.status.success(), "{said}");
        self.server.start_again().unwrap();
    }

    /// Waits until this standby has everything that its primary has written so far.
    async fn catch_up_with(&self, primary: &Self) {
        let written: String = primary.fetch("SELECT pg_current_wal_lsn()::text").await;
        let is_here = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        let caught_up = async {
            while !self.fetch::<bool>(&is_here).await {
                sleep(Duration::from_millis(20)).await;
            }
        };
        within(Duration::from_secs(30), caught_up).await.unwrap();
    }

    async fn fetch<T>(&self, query: &str) -> T
    where
        T: sqlx::Type<sqlx::Postgres> + for<'a> sqlx::Decode<'a, sqlx::Postgres>,
    {
        let pool = PgPool::connect(self.server.url()).await.unwrap();
        let row = sqlx::raw_sql(AssertSqlSafe(query)).fetch_one(&pool).await;
        pool.close().await;
        row.unwrap().get(0)
    }

    fn address(&self) -> SocketAddr {
        address(self.server.url(), 5432).unwrap()
    }
}

/// A name that leads to one server and later to another. Open connections remain.
struct Name {
    url: String,
    target: Arc<Mutex<SocketAddr>>,
}

impl Name {
    async fn of(server: &Server) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut url = url::Url::parse(server.server.url()).unwrap();
        let port = listener.local_addr().unwrap().port();
        url.set_port(Some(port)).unwrap();
        let target = Arc::new(Mutex::new(server.address()));
        let leads_to = target.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let target = *leads_to.lock().unwrap();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(target).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        Self {
            url: url.into(),
            target,
        }
    }

    fn lead_to(&self, server: &Server) {
        *self.target.lock().unwrap() = server.address();
    }
}

//! A primary that fails, the standby that takes over, and the old primary as its standby.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::address;
use crate::room::{free, name, request, take};
use shedlock_core::{ErrorKind, ExtendRequest, Extension, LockProvider as _};
use shedlock_rig::PostgresServer;
use shedlock_rig::given::needs_store;
use shedlock_sqlx::PostgresProvider;
use tokio::net::{TcpListener, TcpStream};

#[tokio::test(flavor = "multi_thread")]
async fn sessions_to_an_old_primary_that_follows_the_new_one_fail_no_call() {
    needs_store("postgres");
    let old = PostgresServer::start(&[]).unwrap();
    let new = PostgresServer::start(&[]).unwrap();
    new.stop().unwrap();
    new.follow(&old).unwrap();
    let name_in_dns = Name::of(&old).await;
    let provider = PostgresProvider::connect(&name_in_dns.url).await.unwrap();
    let _ = provider.migrate().await.unwrap();
    assert_eq!(provider.written_until().await.unwrap(), None);
    let lease = take(&provider, "running").await;
    new.catch_up_with(&old).unwrap();
    let standby = PostgresProvider::connect(new.url()).await.unwrap();
    let seen = standby.written_until().await.unwrap().unwrap();
    assert!(Some(seen) >= lease.acquired_at());
    // It lags, and says so by the time of what it shows, not by its clock.
    let _ = new.sql("SELECT pg_wal_replay_pause()").unwrap();
    free(&provider, &take(&provider, "later").await).await;
    assert!(standby.inspect(&name("later")).await.unwrap().is_none());
    assert_eq!(standby.written_until().await.unwrap(), Some(seen));
    assert!(standby.store_time().await.unwrap() > Some(seen));
    let _ = new.sql("SELECT pg_wal_replay_resume()").unwrap();
    new.catch_up_with(&old).unwrap();
    assert!(standby.written_until().await.unwrap() > Some(seen));

    old.stop().unwrap();
    let _ = new.sql("SELECT pg_promote()").unwrap();
    assert_eq!(standby.written_until().await.unwrap(), None);
    old.follow(&new).unwrap();
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

/// A name that leads to one server and later to another. Open connections remain.
struct Name {
    url: String,
    target: Arc<Mutex<SocketAddr>>,
}

impl Name {
    async fn of(server: &PostgresServer) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut url = url::Url::parse(server.url()).unwrap();
        let port = listener.local_addr().unwrap().port();
        url.set_port(Some(port)).unwrap();
        let target = Arc::new(Mutex::new(address(server.url(), 5432).unwrap()));
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

    fn lead_to(&self, server: &PostgresServer) {
        *self.target.lock().unwrap() = address(server.url(), 5432).unwrap();
    }
}

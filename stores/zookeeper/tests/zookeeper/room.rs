//! A path of the test's own, and ShedLock's own operations in it.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use shedlock_conformance::support::{address, unique};
use shedlock_core::{
    Attempt, AttemptRequest, Error as LockError, ExtendRequest, Extension, Lease, LockName,
    LockProvider, Owner, Skip, Unlock, UnlockRequest,
};
use shedlock_rig::given::server;
use shedlock_zookeeper::ZooKeeperProvider;
use zookeeper_client::{Client, Error, Stat};

use crate::common::{OPEN, client};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// How long a lock that ShedLock has unlocked can still count as held, judged by its record.
pub(crate) const TOLERATED: Duration = Duration::from_millis(1_100);

pub(crate) struct Room {
    pub(crate) url: String,
    pub(crate) admin: Client,
    pub(crate) provider: ZooKeeperProvider,
    pub(crate) path: String,
}

impl Room {
    /// Creates a room on the shared server.
    pub(crate) async fn new() -> Self {
        Self::at(&common_server()).await
    }

    pub(crate) async fn at(server: &str) -> Self {
        let path = format!("/{}", unique("room"));
        let url = format!("{server}?path={path}");
        Self {
            admin: client(server).await.unwrap(),
            provider: ZooKeeperProvider::connect(&url).await.unwrap(),
            url,
            path,
        }
    }

    /// The lock's own node.
    pub(crate) fn lock(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// The companion node.
    pub(crate) fn beside(&self, name: &str) -> String {
        format!("{}.owners/{name}", self.path)
    }

    pub(crate) async fn text(&self, node: &str) -> (String, Stat) {
        let (data, stat) = self.admin.get_data(node).await.unwrap();
        (String::from_utf8(data).unwrap(), stat)
    }

    pub(crate) async fn take(&self, name: &str) -> Lease {
        take(&self.provider, name).await
    }

    pub(crate) async fn skip(&self, name: &str) -> Skip {
        match self.provider.attempt(&request(name)).await.unwrap() {
            Attempt::Skipped(skip) => skip,
            other => panic!("the lock should be held: {other:?}"),
        }
    }

    pub(crate) async fn refusal(&self, name: &str) -> LockError {
        self.provider.attempt(&request(name)).await.unwrap_err()
    }

    pub(crate) async fn unlock(&self, lease: &Lease) -> Unlock {
        let request = UnlockRequest::new();
        self.provider.unlock(lease, &request).await.unwrap()
    }

    /// Writes a node of ShedLock's by hand, including its parents.
    pub(crate) async fn put(&self, node: &str, data: &str) {
        for (end, _) in node.match_indices('/').skip(1) {
            match self.admin.create(&node[..end], b"", &OPEN).await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => panic!("{error}"),
            }
        }
        match self.admin.create(node, data.as_bytes(), &OPEN).await {
            Ok(_) => {}
            Err(Error::NodeExists) => {
                let set = self.admin.set_data(node, data.as_bytes(), None);
                set.await.unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// ShedLock's steps to take a lock. Returns whether it was acquired.
    pub(crate) async fn java_takes(&self, name: &str, at_most: Duration) -> bool {
        let node = self.lock(name);
        let until = shedlocks(SystemTime::from(jiff::Timestamp::now()) + at_most);
        let (data, stat) = match self.admin.get_data(&node).await {
            Ok(found) => found,
            Err(Error::NoNode) => {
                self.put(&node, &until).await;
                return true;
            }
            Err(error) => panic!("{error}"),
        };
        // Empty, or not an instant: held for ever.
        let held = std::str::from_utf8(&data)
            .unwrap()
            .parse::<jiff::Timestamp>();
        if held.is_ok_and(|held| held <= jiff::Timestamp::now()) {
            let version = Some(stat.version);
            let set = self.admin.set_data(&node, until.as_bytes(), version);
            return match set.await {
                Ok(_) => true,
                Err(Error::BadVersion) => false,
                Err(error) => panic!("{error}"),
            };
        }
        false
    }

    /// ShedLock's steps to unlock, without checking the owner.
    pub(crate) async fn java_unlocks(&self, name: &str) {
        let now = shedlocks(SystemTime::from(jiff::Timestamp::now()));
        let set = self.admin.set_data(&self.lock(name), now.as_bytes(), None);
        set.await.unwrap();
    }
}

/// Returns the URL of the shared server. Ends the test target if ZooKeeper was not selected.
pub(crate) fn common_server() -> String {
    server("zookeeper")
}

/// Returns the address of the shared server.
pub(crate) fn server_address() -> SocketAddr {
    address(&common_server(), 2181).unwrap()
}

/// Formats an instant as ShedLock does.
pub(crate) fn shedlocks(instant: SystemTime) -> String {
    let text = format!("{:.9}", jiff::Timestamp::try_from(instant).unwrap());
    format!("{}Z", &text[.."2026-11-21T10:00:00.000".len()])
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub(crate) fn request(text: &str) -> AttemptRequest {
    AttemptRequest::new(name(text), Owner::generate(), MINUTE)
}

pub(crate) async fn take(provider: &ZooKeeperProvider, name: &str) -> Lease {
    match provider.attempt(&request(name)).await.unwrap() {
        Attempt::Acquired(lease) => lease,
        other => panic!("the lock should be free: {other:?}"),
    }
}

pub(crate) async fn extend(provider: &ZooKeeperProvider, lease: &Lease) -> Extension {
    let request = ExtendRequest::new(2 * MINUTE);
    provider.extend(lease, &request).await.unwrap()
}

//! Users, ACLs and chroots.

use shedlock_conformance::support::unique;
use shedlock_core::{ErrorKind, LockProvider, Unlock, UnlockRequest};
use shedlock_rig::given::server;
use shedlock_zookeeper::ZooKeeperProvider;
use zookeeper_client::{Acl, Acls, CreateMode, Permission};

use crate::common::{OPEN, client};
use crate::room::{Room, request, take};

fn with_user(room: &Room, user: &str) -> String {
    room.url
        .replacen("zookeeper://", &format!("zookeeper://{user}@"), 1)
}

#[tokio::test]
async fn nodes_are_open_to_everyone_unless_restricted_to_their_creator() {
    let room = Room::new().await;
    let _ = room.take("open").await;
    for node in [room.lock("open"), room.beside("open"), room.path.clone()] {
        let (acl, _) = room.admin.get_acl(&node).await.unwrap();
        assert_eq!(acl, [Acl::new_const(Permission::ALL, "world", "anyone")]);
    }

    let room = Room::new().await;
    let ann = format!("{}&acl=creator", with_user(&room, "ann:s3cret%40"));
    let ann = ZooKeeperProvider::connect(&ann).await.unwrap();
    let lease = take(&ann, "job").await;
    for other in [&room.url, &with_user(&room, "ann:wrong")] {
        let provider = ZooKeeperProvider::connect(other).await.unwrap();
        let error = provider.attempt(&request("job")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains("ACL"), "{error}");
    }
    // Another session with the same user.
    let same = with_user(&room, "ann:s3cret%40");
    let same = ZooKeeperProvider::connect(&same).await.unwrap();
    let unlocked = same.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
}

/// A server does not report existing nodes to a client that may not create nodes in their parent.
#[tokio::test]
async fn what_is_above_the_locks_may_be_closed_where_it_is_there() {
    let room = Room::new().await;
    let acl = [Acl::new_const(Permission::READ, "world", "anyone")];
    let closed = CreateMode::Persistent.with_acls(Acls::new(&acl));
    // The parents of the locks, below it, are open.
    let base = format!("/{}", unique("closed"));
    let locks = format!("{base}/locks");
    room.admin.create(&base, b"", &OPEN).await.unwrap();
    for open in [locks.clone(), format!("{locks}.owners")] {
        room.admin.create(&open, b"", &OPEN).await.unwrap();
    }
    room.admin.set_acl(&base, &acl, None).await.unwrap();
    let url = room.url.replace(&room.path, &locks);
    let provider = ZooKeeperProvider::connect(&url).await.unwrap();
    let _ = take(&provider, "a/b").await;
    assert!(provider.migrate().await.unwrap().changes.is_empty());

    let bare = format!("/{}", unique("closed"));
    room.admin.create(&bare, b"", &closed).await.unwrap();
    let url = room.url.replace(&room.path, &format!("{bare}/locks"));
    let provider = ZooKeeperProvider::connect(&url).await.unwrap();
    let error = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
}

#[tokio::test]
async fn a_missing_chroot_is_reported_and_created_by_migrate() {
    let server = server("zookeeper");
    let chroot = unique("chroot");
    let url = format!("{server}/{chroot}/env");
    let provider = ZooKeeperProvider::connect(&url).await.unwrap();
    for error in [
        provider.attempt(&request("job")).await.unwrap_err(),
        provider.check().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains("chroot"), "{error}");
    }
    let changes = provider.migrate().await.unwrap().changes;
    let expected = [
        &format!("/{chroot}"),
        &format!("/{chroot}/env"),
        "/shedlock",
        "/shedlock.owners",
    ];
    let expected = expected.map(|node| format!("created node {node:?}"));
    assert_eq!(changes, expected);
    let _ = take(&provider, "job").await;
    let admin = client(&server).await.unwrap();
    let node = format!("/{chroot}/env/shedlock/job");
    assert!(admin.check_stat(&node).await.unwrap().is_some());
}

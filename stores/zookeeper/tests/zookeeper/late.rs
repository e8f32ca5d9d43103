//! Requests that reach the servers late.

use std::time::SystemTime;

use shedlock_core::{AttemptRequest, LockProvider as _, LockState, Unlock};
use zookeeper_client::Error;

use crate::common::OPEN;
use crate::room::{MINUTE, Room, TOLERATED, name, request, shedlocks};

/// The versions of both nodes that an attempt has read; none for a node that did not exist.
struct Late {
    lock: Option<i32>,
    beside: Option<i32>,
}

impl Room {
    async fn version(&self, node: &str) -> Option<i32> {
        let found = self.admin.check_stat(node).await.unwrap();
        found.map(|stat| stat.version)
    }

    /// Returns the versions that an attempt sent now would be based on.
    async fn late(&self) -> Late {
        Late {
            lock: self.version(&self.lock("job")).await,
            beside: self.version(&self.beside("job")).await,
        }
    }

    /// Delivers the attempt's transaction. Returns whether it wins.
    async fn arrives(&self, late: Late, request: &AttemptRequest) -> bool {
        let until = shedlocks(SystemTime::from(jiff::Timestamp::now()) + MINUTE);
        let text = format!("shedlock 1\nuntil 1\nowner {}\n", &request.owner);
        let mut writer = self.admin.new_multi_writer();
        for (node, data, version) in [
            (self.lock("job"), until.as_bytes(), late.lock),
            (self.beside("job"), text.as_bytes(), late.beside),
        ] {
            match version {
                None => writer.add_create(&node, data, &OPEN).unwrap(),
                version => writer.add_set_data(&node, data, version).unwrap(),
            }
        }
        writer.commit().await.is_ok()
    }

    async fn state(&self) -> LockState {
        let record = self.provider.inspect(&name("job")).await.unwrap();
        record.map_or(LockState::Free, |record| record.state)
    }

    async fn make_parents(&self) {
        for parent in [self.path.clone(), format!("{}.owners", self.path)] {
            match self.admin.create(&parent, b"", &OPEN).await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_late_copy_of_an_attempt_takes_no_lock_after_it_was_withdrawn() {
    let room = Room::new().await;
    room.make_parents().await;
    for before in [
        "nothing",
        "a withdrawn attempt",
        "a lock that was unlocked",
        "a lock that ShedLock gave back",
        "a deleted node",
    ] {
        match before {
            "a lock that was unlocked" => {
                let lease = room.take("job").await;
                assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
            }
            "a lock that ShedLock gave back" => {
                assert!(room.java_takes("job", MINUTE).await);
                room.java_unlocks("job").await;
                shedlock_rig::wait::sleep(TOLERATED).await;
            }
            "a deleted node" => {
                room.admin.delete(&room.lock("job"), None).await.unwrap();
            }
            _ => {}
        }
        let request = request("job");
        let late = room.late().await;
        let withdrawn = room.provider.withdraw(&request).await.unwrap();
        assert!(!withdrawn, "{before}");
        assert!(!room.arrives(late, &request).await, "{before}");
        assert_eq!(room.state().await, LockState::Free, "{before}");
        // A copy that arrives before its withdrawal is ended by it.
        let late = room.late().await;
        assert!(room.arrives(late, &request).await, "{before}");
        assert_eq!(room.state().await, LockState::Held, "{before}");
        let withdrawn = room.provider.withdraw(&request).await.unwrap();
        assert!(withdrawn, "{before}");
    }
}

#[tokio::test]
async fn a_record_that_a_withdrawal_makes_is_free_for_shedlock_and_has_no_token() {
    let room = Room::new().await;
    let request = request("job");
    assert!(!room.provider.withdraw(&request).await.unwrap());
    let owner = &request.owner;
    let (lock, _) = room.text(&room.lock("job")).await;
    assert_eq!(lock, "1970-01-01T00:00:00.000Z");
    let (beside, _) = room.text(&room.beside("job")).await;
    assert_eq!(
        beside,
        format!("shedlock 1\nuntil 0\nowner {owner} unlocked\n")
    );
    let record = room.provider.inspect(&name("job")).await.unwrap().unwrap();
    assert_eq!(
        (record.state, record.fencing_token),
        (LockState::Free, None)
    );
    assert!(room.java_takes("job", MINUTE).await);
    let record = room.provider.inspect(&name("job")).await.unwrap().unwrap();
    assert_eq!(
        (record.state, record.fencing_token),
        (LockState::Taken, None)
    );
}

/// Owner, token, slots, and the time of ShedLock's acquisition stay.
#[tokio::test]
async fn a_withdrawal_keeps_what_the_nodes_of_a_free_lock_say() {
    let room = Room::new().await;
    let lease = room.take("job").await;
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    for is_shedlocks in [false, true] {
        if is_shedlocks {
            assert!(room.java_takes("job", MINUTE).await);
            room.java_unlocks("job").await;
            shedlock_rig::wait::sleep(TOLERATED).await;
        }
        let before = room.provider.inspect(&name("job")).await.unwrap().unwrap();
        assert!(!room.provider.withdraw(&request("job")).await.unwrap());
        let after = room.provider.inspect(&name("job")).await.unwrap().unwrap();
        assert_eq!(after.state, LockState::Free);
        assert_eq!(after.owner, before.owner);
        assert_eq!(after.locked_at, before.locked_at);
        assert_eq!(after.fencing_token, lease.fencing_token());
    }
    assert!(room.take("job").await.fencing_token() > lease.fencing_token());
}

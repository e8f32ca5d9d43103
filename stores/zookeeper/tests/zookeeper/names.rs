//! Names as nodes.

use shedlock_core::{ErrorKind, ListRequest, LockProvider, SkipReason, Unlock};

use crate::room::{MINUTE, Room, name};

async fn listed(room: &Room) -> Vec<String> {
    let listed = room.provider.list(&ListRequest::new()).await.unwrap();
    listed.iter().map(|it| it.name.to_string()).collect()
}

#[tokio::test]
async fn names_with_slashes_are_shared_with_shedlock() {
    let room = Room::new().await;
    let lease = room.take("billing/close").await;
    assert!(!room.java_takes("billing/close", MINUTE).await);
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    assert!(room.java_takes("mails/daily/eu", MINUTE).await);
    let skip = room.skip("mails/daily/eu").await;
    assert_eq!(skip.reason, SkipReason::Held);
    let beside = room.provider.inspect(&name("mails/daily/us")).await;
    assert!(beside.unwrap().is_none());
}

/// ShedLock creates empty parent nodes, which it then treats as locks that are held for ever.
#[tokio::test]
async fn what_leads_to_longer_names_is_free_for_both_where_we_made_it() {
    let room = Room::new().await;
    let inner = room.take("a/b/c").await;
    let (above, _) = room.text(&room.lock("a")).await;
    assert_eq!(above, "1970-01-01T00:00:00.000Z");
    assert_eq!(listed(&room).await, ["a/b/c"]);
    let outer = room.take("a").await;
    assert!(room.java_takes("a/b", MINUTE).await);
    assert_eq!(listed(&room).await, ["a", "a/b", "a/b/c"]);
    for lease in [inner, outer] {
        assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    }
    assert!(room.java_takes("x/y", MINUTE).await);
    let error = room.refusal("x").await;
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(!room.java_takes("x", MINUTE).await);
}

#[tokio::test]
async fn names_that_zookeeper_has_no_node_for_are_written_as_documented() {
    let room = Room::new().await;
    for (text, node) in [
        ("👍", "shedlock-rs:%F0%9F%91%8D"),
        ("..", "shedlock-rs:.."),
        ("a//b", "shedlock-rs:a%2F%2Fb"),
    ] {
        let _ = room.take(text).await;
        let (until, _) = room.text(&room.lock(node)).await;
        assert_eq!(until.len(), "1970-01-01T00:00:00.000Z".len());
    }
    assert_eq!(listed(&room).await, ["..", "a//b", "👍"]);
}

#[tokio::test]
async fn many_locks_are_listed_a_page_at_a_time() {
    let room = Room::new().await;
    let mut names: Vec<String> = (0..230).map(|i| format!("job-{}/{i}", i % 7)).collect();
    names.extend((0..7).map(|i| format!("job-{i}")));
    names.sort();
    for name in &names {
        let until = "2026-01-01T00:00:00.000Z";
        room.put(&room.lock(name), until).await;
    }
    let mut request = ListRequest::new().with_limit(50);
    let mut seen = Vec::new();
    loop {
        let page = room.provider.list(&request).await.unwrap();
        let Some(last) = page.last() else { break };
        request = request.with_after(last.name.clone());
        seen.extend(page.iter().map(|it| it.name.to_string()));
    }
    assert_eq!(seen, names);
}

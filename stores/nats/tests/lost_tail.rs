//! A server that loses power loses the writes that are not on disk yet, up to two minutes of them, and reuses their
//! sequences.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{MINUTE, give_back, request, take};
use shedlock_core::{
    Attempt, Error, ExtendRequest, Extension, LockProvider, Unlock, UnlockRequest,
};
use shedlock_nats::NatsProvider;
use shedlock_rig::OwnServer;
use shedlock_rig::given::{needs_store, server_if_any};
use shedlock_rig::wait::answered;

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

async fn connected(url: &str) -> NatsProvider {
    let url = format!("{url}?response_timeout=10s&tolerated_skew=0s");
    NatsProvider::connect(&url).await.unwrap()
}

async fn extended(provider: &NatsProvider, lease: &shedlock_core::Lease) -> Extension {
    let longer = ExtendRequest::new(2 * MINUTE);
    let extend = async || provider.extend(lease, &longer).await;
    answered("the connection is replaced", Error::is_retryable, extend).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_from_before_a_lost_tail_touches_no_lock_of_others() {
    needs_store("nats");
    for store in ["nats", "nats210", "nats212"] {
        if server_if_any(store).is_none() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let (data, earlier) = (folder.path().join("data"), folder.path().join("earlier"));
        let path = data.display().to_string();
        let server = OwnServer::start(store, &["-sd", &path]).unwrap();
        let before = connected(server.url()).await;
        before.migrate().await.unwrap();
        assert!(!before.capabilities().durable);
        drop(before);
        server.kill().unwrap();
        copy(&data, &earlier);
        server.start_again().unwrap();

        let stale = connected(server.url()).await;
        let late = [take(&stale, "job").await, take(&stale, "other").await];
        server.kill().unwrap();
        std::fs::remove_dir_all(&data).unwrap();
        std::fs::rename(&earlier, &data).unwrap();
        server.start_again().unwrap();

        // As many writes as before, so that their sequences repeat.
        let next = connected(server.url()).await;
        let held = [take(&next, "job").await, take(&next, "other").await];
        let late_extension = extended(&stale, &late[0]).await;
        assert!(
            matches!(late_extension, Extension::Lost),
            "{store}: {late_extension:?}"
        );
        let late_unlock = stale.unlock(&late[1], &UnlockRequest::new()).await;
        assert_eq!(late_unlock.unwrap(), Unlock::Lost, "{store}");
        for lease in &held {
            let third = next.attempt(&request(lease.name().as_str())).await;
            assert!(
                matches!(third, Ok(Attempt::Skipped(_))),
                "{store}: {third:?}"
            );
            let still = extended(&next, lease).await;
            let Extension::Extended(lease) = still else {
                panic!("{store}: the holder of now is the holder: {still:?}");
            };
            give_back(&next, &lease).await;
        }
    }
}

/// Durability is declared only if the operator asserts it, and never for data that is not on disk.
#[tokio::test]
async fn durable_is_declared_where_the_operator_asserts_it() {
    let server = common::servers().remove(0);
    for (options, durable) in [
        ("storage=file", false),
        ("sync_always=true", true),
        ("storage=memory&sync_always=true", false),
    ] {
        let bucket = shedlock_conformance::support::unique("durable");
        let url = format!("{server}?bucket={bucket}&{options}");
        let provider = NatsProvider::connect(&url).await.unwrap();
        provider.migrate().await.unwrap();
        assert_eq!(provider.capabilities().durable, durable, "{options}");
    }
}

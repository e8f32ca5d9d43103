//! NATS: the settings of the bucket.

use serde_json::{Value, json};
use shedlock_conformance::support::unique;
use shedlock_nats::async_nats;
use shedlock_rig::given::server_if_any;

use super::common::{Sandbox, done};
use super::doctor;

/// Creates a bucket with these settings, and returns its URL.
async fn bucket(server: &str, settings: &Value) -> String {
    let client = async_nats::connect(server).await.unwrap();
    let name = unique("doctor");
    let mut config = json!({
        "name": format!("KV_{name}"),
        "subjects": [format!("$KV.{name}.>")],
        "max_msgs_per_subject": 1,
        "discard": "new",
        "storage": "file",
        "num_replicas": 1,
        "allow_rollup_hdrs": true,
        "allow_direct": true,
        "deny_delete": true,
    });
    let settings = settings.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(settings);
    let create = format!("$JS.API.STREAM.CREATE.KV_{name}");
    let created = client.request(create, config.to_string().into()).await;
    let created: Value = serde_json::from_slice(&created.unwrap().payload).unwrap();
    assert!(created["error"].is_null(), "{created}");
    format!("{server}?bucket={name}")
}

#[tokio::test]
async fn no_fault_in_a_setting_of_the_bucket_is_missed() {
    let Some(server) = server_if_any("nats") else {
        return;
    };
    let url = bucket(&server, &json!({})).await;
    doctor(&format!("{url}&sync_always=true")).is_healthy();
    doctor(&url).has_only("durability", "warning", "sync_interval");
    let an_hour: u64 = 3_600_000_000_000;
    let dropping = json!({ "discard": "old", "max_bytes": 1_000_000 });
    for (settings, check, level, words) in [
        (
            json!({ "storage": "memory" }),
            "durability",
            "warning",
            "file storage",
        ),
        (
            json!({ "max_age": an_hour }),
            "setup",
            "error",
            "--max-age=0",
        ),
        (dropping, "setup", "error", "--discard=new"),
        (
            json!({ "max_msg_size": 10 }),
            "setup",
            "error",
            "--max-msg-size=-1",
        ),
    ] {
        let url = bucket(&server, &settings).await;
        doctor(&format!("{url}&sync_always=true")).has_only(check, level, words);
    }
}

#[tokio::test]
async fn a_bucket_that_accepts_one_message_at_a_time_is_not_missed() {
    let Some(server) = server_if_any("nats212") else {
        return;
    };
    let url = format!("{}&sync_always=true", bucket(&server, &json!({})).await);
    doctor(&url).has_only("bucket", "warning", "allow_atomic");
    let migrated = done(&mut Sandbox::new().bare(&["migrate", "--no-journal", "--store", &url]));
    assert_eq!(migrated.code, 0, "{migrated:?}");
    doctor(&url).is_healthy();
}

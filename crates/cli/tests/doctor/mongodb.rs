//! MongoDB, as its emulator implements users and their roles.

use shedlock_conformance::support::unique;
use shedlock_mongodb::mongodb::Client;
use shedlock_mongodb::mongodb::bson::{Document, doc};
use shedlock_rig::OwnServer;
use shedlock_rig::given::server_if_any;

use super::common::{Sandbox, done};
use super::{cannot_run, doctor, doctor_with};

/// Users exist before the server asks for them, so it is started twice over the same data.
#[tokio::test(flavor = "multi_thread")]
async fn no_lack_of_a_privilege_is_missed() {
    if server_if_any("mongodb").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    // It is killed when it is dropped.
    let open = ["--storage-path", &data, "--sync-on-commit"];
    let open = OwnServer::start("mongodb", &open).unwrap();
    let client = Client::with_uri_str(open.url()).await.unwrap();
    let database = client.database("admin");
    for (user, role) in [("operator", "readWrite"), ("reader", "read")] {
        let created: Document = doc! { "createUser": user, "pwd": "x", "roles": [{ "role": role, "db": "shedlock_test" }] };
        database.run_command(created).await.unwrap();
    }
    drop(open);
    let server = OwnServer::start("mongodb", &["--storage-path", &data, "--auth"]).unwrap();
    let of = |user: &str| {
        let url = server.url().replacen("://", &format!("://{user}:x@"), 1);
        format!("{url}?authSource=admin")
    };
    let migrated =
        done(&mut Sandbox::new().bare(&["migrate", "--no-journal", "--store", &of("operator")]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    doctor(&of("operator")).is_healthy();
    doctor(&of("reader")).has_only("privileges", "error", "readWrite");
    let looks = doctor_with(&of("reader"), &["--read-only"]);
    assert!(looks.code == 0 && looks.faults().is_empty(), "{looks:?}");
}

#[tokio::test]
async fn a_document_that_no_one_can_acquire_is_not_missed() {
    let Some(server) = server_if_any("mongodb") else {
        return;
    };
    let client = Client::with_uri_str(&server).await.unwrap();
    let database = client.default_database().unwrap();
    for (document, words) in [
        (doc! { "_id": "a" }, "\"lockUntil\""),
        (
            doc! { "_id": "a", "lockUntil": "tomorrow" },
            "\"lockUntil\"",
        ),
    ] {
        let name = unique("doctor");
        let url = format!("{server}?collection={name}");
        let collection = database.collection::<Document>(&name);
        doctor(&url).is_healthy();
        collection.insert_one(document).await.unwrap();
        doctor(&url).has_only("records", "error", words);
        cannot_run(&url, "a", words);
        collection.drop().await.unwrap();
    }
}

#[tokio::test]
async fn a_collation_of_the_collection_is_not_missed() {
    let Some(server) = server_if_any("mongodb") else {
        return;
    };
    let client = Client::with_uri_str(&server).await.unwrap();
    let database = client.default_database().unwrap();
    let name = unique("doctor");
    let created: Document =
        doc! { "create": &name, "collation": { "locale": "en", "strength": 2 } };
    database.run_command(created).await.unwrap();
    let url = format!("{server}?collection={name}");
    doctor(&url).has_only("collation", "warning", "names that it treats as equal");
    database.collection::<Document>(&name).drop().await.unwrap();
    doctor(&url).is_healthy();
}

//! The schema as it is printed, over both client libraries.

use shedlock_core::{LockProvider, MigrationStep};
use shedlock_sqlx::PostgresProvider;
use shedlock_tokio_postgres::TokioPostgresProvider;
use tokio_postgres::NoTls;

use crate::common::server;
use crate::room::{Room, free, take};

fn script(steps: &[MigrationStep]) -> String {
    let statements = steps.iter().filter_map(|step| step.statement.as_deref());
    statements.map(|text| format!("{text};\n")).collect()
}

async fn is_complete(provider: &dyn LockProvider) {
    assert_eq!(provider.plan_migration().await.unwrap(), []);
    let journal = provider.journal().unwrap();
    assert_eq!(journal.plan_migration().await.unwrap(), []);
    assert_eq!(journal.version().await.unwrap(), Some(1));
    free(provider, &take(provider, "job").await).await;
}

#[tokio::test]
async fn what_is_printed_is_what_each_client_library_needs() {
    let room = Room::empty().await;
    let url = format!("{}&table=locks&name_column=lock_name", room.url);
    let schema = PostgresProvider::schema_of(&url).await.unwrap();
    let by_tokio = TokioPostgresProvider::schema_of(&url).await.unwrap();
    assert_eq!(schema, by_tokio);
    let [by_sqlx, by_tokio]: [Box<dyn LockProvider>; 2] = [
        Box::new(PostgresProvider::connect(&url).await.unwrap()),
        Box::new(TokioPostgresProvider::connect(&url).await.unwrap()),
    ];
    for provider in [&by_sqlx, &by_tokio] {
        assert_eq!(provider.schema(), schema);
        assert_eq!(provider.plan_migration().await.unwrap(), schema.create);
        let journal = provider.journal().unwrap();
        assert_eq!(journal.plan_migration().await.unwrap(), schema.journal);
    }
    let (client, connection) = tokio_postgres::connect(&server("postgres"), NoTls)
        .await
        .unwrap();
    let _connection = tokio::spawn(connection);
    let all = script(&schema.create) + &script(&schema.journal);
    client.batch_execute(&all).await.unwrap();
    for provider in [by_sqlx, by_tokio] {
        is_complete(&*provider).await;
    }
}

#[tokio::test]
async fn names_that_leave_no_room_for_the_journal_are_reported() {
    let table = "t".repeat(60);
    let url = format!("postgres://db.example/app?table={table}");
    let schema = PostgresProvider::schema_of(&url).await.unwrap();
    assert_eq!(schema.create.len(), 1);
    assert_eq!(schema.journal, []);
    assert!(schema.note.unwrap().contains("too long"));
}

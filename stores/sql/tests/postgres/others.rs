//! Other lock tables of a database whose own is missing.

use std::sync::Arc;

use shedlock_conformance::support::unique;
use shedlock_core::{ErrorKind, LockName, LockProvider};
use shedlock_sqlx::PostgresProvider;
use shedlock_tokio_postgres::TokioPostgresProvider;
use sqlx::{AssertSqlSafe, ConnectOptions as _};

use crate::bouncer::options;
use crate::common::{server, with_database};

#[tokio::test]
async fn a_missing_table_is_not_created_beside_another_one_by_any_driver() {
    let server = server("postgres");
    let name = unique("others");
    let run = async |url: &str, text: String| {
        let mut admin = options(url).connect().await.unwrap();
        let text = sqlx::raw_sql(AssertSqlSafe(text));
        text.execute(&mut admin).await.unwrap();
    };
    run(&server, format!("CREATE DATABASE {name}")).await;
    let url = with_database(&server, &name);
    let table = "CREATE SCHEMA billing; CREATE TABLE billing.shedlock (name VARCHAR(64) PRIMARY KEY, \
                 lock_until TIMESTAMP, locked_at TIMESTAMP, locked_by VARCHAR(255))";
    run(&url, table.to_owned()).await;
    let both: [Arc<dyn LockProvider>; 2] = [
        Arc::new(PostgresProvider::connect(&url).await.unwrap()),
        Arc::new(TokioPostgresProvider::connect(&url).await.unwrap()),
    ];
    let job = LockName::new("job").unwrap();
    for provider in &both {
        let errors = [
            provider.inspect(&job).await.unwrap_err(),
            provider.migrate().await.unwrap_err(),
            provider.plan_migration().await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
            let shown = "\"billing.shedlock\" (?schema=billing, this user may write it)";
            assert!(error.to_string().contains(shown), "{error}");
        }
    }
    for option in ["schema=billing", "table=shedlock"] {
        let named = TokioPostgresProvider::connect(&format!("{url}?{option}")).await;
        named.unwrap().migrate().await.unwrap();
    }
    for provider in &both {
        assert_eq!(provider.inspect(&job).await.unwrap(), None);
    }
}

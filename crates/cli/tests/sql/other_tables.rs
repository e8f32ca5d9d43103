//! A lock table that is missing, in a database that has others: those of Java services, usually.

use serde_json::Value;
use shedlock_conformance::support::unique;
use shedlock_rig::given::server_if_any;

use super::common::{Done, done};
use super::migrate::Database;

/// ShedLock's own table, with one lock that was used a minute ago.
fn of_java(store: &str, table: &str) -> String {
    let (kind, now) = match store.starts_with("sqlite:") {
        true => ("BIGINT", "unixepoch() * 1000"),
        false => ("TIMESTAMP(3)", "CURRENT_TIMESTAMP(3)"),
    };
    format!(
        "CREATE TABLE {table} (name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until {kind} NOT NULL DEFAULT {current}, \
         locked_at {kind} NOT NULL DEFAULT {current}, locked_by VARCHAR(255) NOT NULL); \
         INSERT INTO {table} (name, lock_until, locked_at, locked_by) VALUES ('sendMails', {now}, {now}, 'web-3')",
        current = now.strip_prefix("unixepoch").map_or(now, |_| "0"),
    )
}

const RUN: [&str; 6] = ["-n", "sendMails", "--lock-at-most-for", "1m", "--", "true"];

fn shedlock(database: &Database, store: &str, arguments: &[&str]) -> Done {
    done(
        database
            .sandbox
            .bare(arguments)
            .env("SHEDLOCK_STORE", store),
    )
}

fn warnings(database: &Database, store: &str) -> Vec<(String, String)> {
    let doctor = shedlock(database, store, &["doctor", "-o", "json"]);
    let doctor: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let findings = doctor["findings"].as_array().unwrap().iter();
    let others = findings.filter(|it| it["check"] == "other-tables");
    others
        .map(|it| (it["level"].to_string(), it["message"].to_string()))
        .collect()
}

#[tokio::test]
async fn a_second_lock_table_is_created_only_on_request() {
    for mut database in Database::each().await {
        let store = database.url.clone();
        let is_postgres = store.starts_with("postgres:");
        let mut tables = vec![("shdlck", "\"shdlck\" (?table=shdlck, last used 2")];
        match &store {
            _ if is_postgres => {
                database.run("CREATE SCHEMA billing").await;
                let shown = "\"billing.shedlock\" (?schema=billing, last used 2";
                tables.push(("billing.shedlock", shown));
                let shown = "\"ShedLock\" (?table=%22ShedLock%22, last used 2";
                tables.push(("\"ShedLock\"", shown));
            }
            _ if store.starts_with("mysql:") => {
                let shown = "\"SHEDLOCK\" (?table=SHEDLOCK, last used 2";
                tables.push(("SHEDLOCK", shown));
            }
            _ => {}
        }
        for (table, _) in &tables {
            database.run(&of_java(&store, table)).await;
        }
        let run = [&["run"], &RUN[..]].concat();
        for arguments in [
            &run[..],
            &["list"],
            &["show", "sendMails"],
            &["migrate"],
            &["migrate", "--dry-run"],
            &["doctor"],
        ] {
            let refused = shedlock(&database, &store, arguments);
            let text = refused.stdout + &refused.stderr;
            assert_ne!(refused.code, 0, "{arguments:?}: {text}");
            for (_, shown) in &tables {
                assert!(text.contains(shown), "{arguments:?}: {text}");
            }
            assert!(text.contains("this user may write it"), "{text}");
            assert!(text.contains("--new-table"), "{text}");
        }
        // Nothing was created: neither the table nor the journal.
        let planned = database.migrate(&format!("{store}?table=shedlock"), &["--dry-run"]);
        for table in ["shedlock", "shedlock_journal"] {
            assert!(
                planned.contains(&format!("-- create table \"{table}\"\n")),
                "{planned}"
            );
        }
        for (_, shown) in &tables {
            let option = shown.split(['(', ',']).nth(1).unwrap();
            let shared = format!("{store}{option}");
            let ran = shedlock(&database, &shared, &run);
            assert_eq!((ran.code, &*ran.stderr), (0, ""), "{shared}");
        }

        let migrated = database.migrate(&store, &["--new-table"]);
        assert!(
            migrated.contains("created table \"shedlock\""),
            "{migrated}"
        );
        assert_eq!(warnings(&database, &store), []);
        let ran = shedlock(&database, &store, &run);
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{store}");
        let found = warnings(&database, &store);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "\"warning\"");
        assert!(
            found[0].1.contains("sendMails") && found[0].1.contains("shdlck"),
            "{found:?}"
        );
        // The option that ends the warning.
        assert_eq!(warnings(&database, &format!("{store}?table=shedlock")), []);
    }
}

/// The tables of other roles are hidden from the views of `information_schema`.
#[tokio::test]
async fn a_table_that_this_role_may_not_use_is_found_too() {
    let Some(server) = server_if_any("postgres") else {
        return;
    };
    let mut database = Database::on(&server).await;
    let user = unique("clerk");
    database.run(&format!("CREATE ROLE {user} LOGIN")).await;
    database.run("CREATE SCHEMA billing").await;
    database
        .run(&of_java("postgres:", "billing.shedlock"))
        .await;
    let mut store = url::Url::parse(&database.url).unwrap();
    store.set_username(&user).unwrap();
    let refused = shedlock(&database, store.as_str(), &["migrate"]);
    assert_eq!(refused.code, 69, "{}", refused.stdout);
    let shown = "\"billing.shedlock\" (?schema=billing, this user may not write it)";
    assert!(refused.stderr.contains(shown), "{}", refused.stderr);
}

#[test]
fn a_store_without_tables_refuses_the_option() {
    let sandbox = super::common::Sandbox::new();
    let migrate = ["migrate", "--new-table", "--store", "redis://127.0.0.1:1"];
    let refused = done(&mut sandbox.bare(&migrate));
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("leave the option out"),
        "{}",
        refused.stderr
    );
}

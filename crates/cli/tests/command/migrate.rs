//! `migrate --print` and `--dry-run`, which change nothing.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::common::{Done, Sandbox, done};

fn migrate(sandbox: &Sandbox, store: &str, options: &[&str]) -> Done {
    done(&mut sandbox.bare(&[&["migrate", "--store", store], options].concat()))
}

/// No such server exists, and none is looked for: the reply would come much later.
const SERVERS: [(&str, &str); 3] = [
    ("PostgreSQL", "postgres://db.example/app"),
    ("MySQL and MariaDB", "mysql://db.example/app"),
    ("SQLite", "sqlite:/var/lib/app/locks.db"),
];

/// `docs/schema.md` contains what the command prints.
#[test]
fn the_page_about_the_schema_has_what_is_printed() {
    let sandbox = Sandbox::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema.md");
    let page = fs::read_to_string(page).unwrap();
    for (title, store) in SERVERS {
        let printed = migrate(&sandbox, store, &["--print", "--journal"]);
        assert_eq!((printed.code, &*printed.stderr), (0, ""), "{store}");
        let section = format!("## {title}\n\n```sql\n{}```\n", printed.stdout);
        assert!(
            page.contains(&section),
            "docs/schema.md needs this section:\n{section}"
        );
    }
}

#[test]
fn the_urls_options_are_in_what_is_printed() {
    let sandbox = Sandbox::new();
    let store = "postgres://db.example/app?schema=jobs&table=locks&name_column=lock_name\
                 &lock_until_column=until_at&locked_at_column=taken_at&locked_by_column=owner";
    let printed = migrate(&sandbox, store, &["--print"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let start = "-- create table \"jobs.locks\"\nCREATE TABLE \"jobs\".\"locks\" (\n    \
                 \"lock_name\" varchar(64) NOT NULL PRIMARY KEY,\n    \"until_at\" timestamp NOT NULL,\n";
    assert!(printed.stdout.starts_with(start), "{}", printed.stdout);
    assert!(!printed.stdout.contains("locks_run"), "{}", printed.stdout);
    let with = migrate(&sandbox, store, &["--print", "--journal"]);
    assert!(
        with.stdout
            .contains("CREATE TABLE \"jobs\".\"locks_run\" (")
    );
    let json = migrate(&sandbox, store, &["--print", "-o", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["store"], "postgres");
    assert_eq!(json["create"][0]["change"], "create table \"jobs.locks\"");
    assert_eq!(json["upgrade"].as_array().unwrap().len(), 4);
    assert_eq!(json["journal"], json!([]));
    for (store, problem) in [
        (
            "postgres://db.example/app?tabel=x",
            "unknown option \"tabel\"",
        ),
        ("oracle://db.example/app", "unknown URL scheme"),
    ] {
        let refused = migrate(&sandbox, store, &["--print"]);
        assert_eq!((refused.code, &*refused.stdout), (2, ""));
        assert!(refused.stderr.contains(problem), "{}", refused.stderr);
    }
    let both = migrate(&sandbox, store, &["--print", "--dry-run"]);
    assert_eq!(both.code, 2, "{}", both.stdout);
}

#[test]
fn a_store_without_tables_says_what_is_created_and_when() {
    let sandbox = Sandbox::new();
    for store in [
        "redis://db.example",
        "mongodb://db.example/app",
        "mongodb+srv://db.example/app",
        "consul://db.example",
    ] {
        let printed = migrate(&sandbox, store, &["--print"]);
        assert_eq!((printed.code, &*printed.stderr), (0, ""), "{store}");
        let words = ": nothing to create: the first attempt on a lock creates";
        assert!(printed.stdout.contains(words), "{}", printed.stdout);
    }
    let printed = migrate(
        &sandbox,
        "nats://db.example?bucket=locks&replicas=3",
        &["--print"],
    );
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let start = "nats: create bucket \"locks\" as the stream KV_locks:\n{";
    assert!(printed.stdout.starts_with(start), "{}", printed.stdout);
    assert!(printed.stdout.contains("\"num_replicas\": 3"));
    let printed = migrate(
        &sandbox,
        "zookeeper://db.example?path=/jobs/locks",
        &["--print"],
    );
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let nodes = "zookeeper: create node \"/jobs\"\nzookeeper: create node \"/jobs/locks\"\n";
    assert!(printed.stdout.starts_with(nodes), "{}", printed.stdout);
    let with_journal = ["--print", "--journal"];
    let printed = migrate(
        &sandbox,
        "mongodb://db.example/app?collection=l",
        &with_journal,
    );
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let start = "mongodb: nothing to create for locks: the first attempt on a lock creates";
    assert!(printed.stdout.starts_with(start), "{}", printed.stdout);
    for line in [
        "mongodb: create collection l_run\n",
        "mongodb: create index {job: 1, _id: -1} on l_run\n",
    ] {
        assert!(printed.stdout.contains(line), "{}", printed.stdout);
    }
    let printed = migrate(&sandbox, "redis://db.example", &with_journal);
    let set = "redis: create the journal shedlock-rs:journal:{job-lock:default}:\n\
               SET \"shedlock-rs:journal:{job-lock:default}:version\" 1 NX\n";
    assert!(printed.stdout.ends_with(set), "{}", printed.stdout);
    let refused = migrate(&sandbox, "consul://db.example", &["--print", "--journal"]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
}

#[test]
fn a_dry_run_creates_no_file() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("locks.db");
    for _ in 0..2 {
        let planned = migrate(&sandbox, &sandbox.store(), &["--dry-run", "--journal"]);
        assert_eq!((planned.code, &*planned.stderr), (0, ""));
        let start =
            format!("-- create file {file:?}\n\n-- create table \"shedlock\"\nCREATE TABLE");
        assert!(planned.stdout.starts_with(&start), "{}", planned.stdout);
        assert!(
            planned
                .stdout
                .contains("-- create table \"shedlock_audit\"\n")
        );
        assert!(!file.exists());
    }
    let migrated = migrate(&sandbox, &sandbox.store(), &["--journal"]);
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let planned = migrate(&sandbox, &sandbox.store(), &["--dry-run", "--journal"]);
    assert_eq!(
        (planned.code, &*planned.stdout),
        (0, "sqlite: nothing to change\n")
    );
    let planned = migrate(&sandbox, &sandbox.store(), &["--dry-run", "-o", "json"]);
    let planned: Value = serde_json::from_str(&planned.stdout).unwrap();
    assert_eq!(
        planned,
        json!({"version": 1, "store": "sqlite", "plan": []})
    );
    let local = done(&mut sandbox.bare(&["migrate", "--dry-run", "--local"]));
    assert_eq!(local.code, 0, "{}", local.stderr);
    assert!(
        local.stdout.starts_with("-- create file "),
        "{}",
        local.stdout
    );
}

//! The page about the schema. `transcripts/migrate.md` has what is printed otherwise.

use std::fs;
use std::path::Path;

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
fn schema_page() {
    let sandbox = Sandbox::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema.md");
    let page = fs::read_to_string(page).unwrap();
    for (title, store) in SERVERS {
        let printed = migrate(&sandbox, store, &["--print"]);
        assert_eq!((printed.code, &*printed.stderr), (0, ""), "{store}");
        let section = format!("## {title}\n\n```sql\n{}```\n", printed.stdout);
        assert!(
            page.contains(&section),
            "docs/schema.md needs this section:\n{section}"
        );
    }
    for (title, store) in &SERVERS[..2] {
        let granted = migrate(&sandbox, store, &["--print", "--grant-to", "app"]);
        let plain = migrate(&sandbox, store, &["--print"]);
        let grants = granted.stdout.strip_prefix(&plain.stdout).unwrap();
        let section = format!("{title}:\n\n```sql{grants}```\n");
        assert!(
            page.contains(&section),
            "docs/schema.md needs this section:\n{section}"
        );
    }
}

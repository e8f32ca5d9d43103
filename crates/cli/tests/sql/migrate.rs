//! What `migrate --print` prints, in the hands of an administrator.

use serde_json::Value;
use shedlock_conformance::support::unique;
use shedlock_rig::given::server_if_any;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, PgConnection, SqliteConnection};

use super::common::{Sandbox, done, end, eventually};

/// A plain connection of its client library.
enum Client {
    Postgres(PgConnection),
    MySql(MySqlConnection),
    Sqlite(SqliteConnection),
}

impl Client {
    async fn connect(url: &str) -> Self {
        match url.split(':').next() {
            Some("postgres") => Self::Postgres(PgConnection::connect(url).await.unwrap()),
            Some("mysql") => Self::MySql(MySqlConnection::connect(url).await.unwrap()),
            _ => Self::Sqlite(SqliteConnection::connect(url).await.unwrap()),
        }
    }

    async fn run(&mut self, script: &str) {
        let ran = self.try_run(script).await;
        ran.unwrap_or_else(|error| panic!("{script}\n{error}"));
    }

    async fn try_run(&mut self, script: &str) -> Result<(), sqlx::Error> {
        let text = sqlx::raw_sql(AssertSqlSafe(script));
        match self {
            Self::Postgres(client) => text.execute(client).await.map(drop),
            Self::MySql(client) => text.execute(client).await.map(drop),
            Self::Sqlite(client) => text.execute(client).await.map(drop),
        }
    }
}

/// An empty database, as its administrator reaches it.
pub(super) struct Database {
    pub(super) url: String,
    client: Client,
    pub(super) sandbox: Sandbox,
}

impl Database {
    /// One of each kind that the run is not restricted from.
    pub(super) async fn each() -> Vec<Self> {
        let mut all = vec![Self::of_sqlite().await];
        for server in ["postgres", "mariadb", "mysql"] {
            if let Some(server) = server_if_any(server) {
                all.push(Self::on(&server).await);
            }
        }
        all
    }

    pub(super) async fn on(server: &str) -> Self {
        let name = unique("printed");
        let mut admin = Client::connect(server).await;
        admin.run(&format!("CREATE DATABASE {name}")).await;
        let mut url = url::Url::parse(server).unwrap();
        url.set_path(&name);
        Self::at(url.to_string(), Sandbox::new()).await
    }

    async fn of_sqlite() -> Self {
        let sandbox = Sandbox::new();
        let url = sandbox.store();
        let file = std::fs::File::create(sandbox.path("locks.db")).unwrap();
        drop(file);
        Self::at(url, sandbox).await
    }

    async fn at(url: String, sandbox: Sandbox) -> Self {
        Self {
            client: Client::connect(&url).await,
            url,
            sandbox,
        }
    }

    /// The URL of a table with names of its own.
    fn renamed(&self) -> String {
        format!(
            "{}?table=job_locks&name_column=lock_name&lock_until_column=until_at\
             &locked_at_column=taken_at&locked_by_column=owner",
            self.url
        )
    }

    pub(super) async fn run(&mut self, script: &str) {
        self.client.run(script).await;
    }

    /// What `migrate` with these options prints.
    pub(super) fn migrate(&self, store: &str, options: &[&str]) -> String {
        let arguments = [&["migrate", "--store", store], options].concat();
        let migrated = done(&mut self.sandbox.bare(&arguments));
        assert_eq!(migrated.code, 0, "{store}: {}", migrated.stderr);
        migrated.stdout
    }

    fn is_complete(&self, store: &str, options: &[&str]) {
        let planned = self.migrate(store, &[&["--dry-run"], options].concat());
        assert!(planned.ends_with(": nothing to change\n"), "{planned}");
        let migrated = self.migrate(store, options);
        // No statement makes the identity.
        let ends = [": nothing to do\n", ": gave the lock store an identity\n"];
        assert!(ends.iter().any(|end| migrated.ends_with(end)), "{migrated}");
    }

    fn serves(&self, store: &str) {
        let job = ["--name", "job", "--lock-at-most-for", "1m", "--", "true"];
        let run = [&["run", "--store", store], &job[..]].concat();
        let run = done(&mut self.sandbox.bare(&run));
        assert_eq!((run.code, &*run.stderr), (0, ""), "{store}");
    }
}

#[tokio::test]
async fn what_is_printed_makes_an_empty_database_complete() {
    for mut database in Database::each().await {
        for store in [database.url.clone(), database.renamed()] {
            let planned = database.migrate(&store, &["--dry-run"]);
            let printed = database.migrate(&store, &["--print"]);
            // The rest of it is for a table of ShedLock.
            for line in planned.lines() {
                assert!(printed.contains(line), "{line:?} is not in {printed}");
            }
            database.run(&printed).await;
            database.is_complete(&store, &[]);
            database.serves(&store);
            let history = ["history", "job", "--store", &store];
            let history = done(&mut database.sandbox.bare(&history));
            assert_eq!(history.code, 0, "{}", history.stderr);
        }
    }
}

/// As `docs/schema.md` has them.
#[tokio::test]
async fn what_is_granted_is_what_jobs_and_operators_need_and_no_more() {
    for mut database in Database::each().await {
        let store = database.url.clone();
        let is_postgres = store.starts_with("postgres:");
        if store.starts_with("sqlite:") {
            continue;
        }
        let user: String = unique("granted").chars().take(32).collect();
        let printed = database.migrate(&store, &["--print", "--grant-to", &user]);
        database
            .run(&match is_postgres {
                true => format!("CREATE ROLE {user} LOGIN PASSWORD 'x'"),
                false => format!("CREATE USER {user} IDENTIFIED BY 'x'"),
            })
            .await;
        database.run(&printed).await;
        let mut url = url::Url::parse(&store).unwrap();
        url.set_username(&user).unwrap();
        url.set_password(Some("x")).unwrap();
        let theirs = url.to_string();
        let sandbox = Sandbox::new();
        let as_user = |words: &[&str]| done(sandbox.bare(words).env("SHEDLOCK_STORE", &theirs));
        let run = ["run", "-n", "a", "--lock-at-most-for", "1m", "--", "true"];
        let of_slot = [&["run", "--every", "1h", "--must-not-be-lost"], &run[1..]].concat();
        for words in [
            &run[..],
            &of_slot,
            &["jobs"],
            &["history", "a"],
            &["list"],
            &["show", "a"],
            &["metrics"],
            &["pause", "a", "--reason", "repair"],
            &["resume", "a"],
            &["slot", "reset", "a", "--to", "2026-11-21T03:00:00Z"],
            &["migrate", "--dry-run"],
        ] {
            let ran = as_user(words);
            assert_eq!(
                (ran.code, &*ran.stderr),
                (0, ""),
                "{words:?}: {}",
                ran.stdout
            );
        }
        let history = as_user(&["history", "a", "-o", "json"]);
        let history: Value = serde_json::from_str(&history.stdout).unwrap();
        assert_eq!(history["runs"].as_array().unwrap().len(), 2, "{history}");
        let doctor = as_user(&["doctor", "-o", "json"]);
        let doctor: Value = serde_json::from_str(&doctor.stdout).unwrap();
        for finding in doctor["findings"].as_array().unwrap() {
            if ["privileges", "journal"].contains(&finding["check"].as_str().unwrap()) {
                assert_eq!(finding["level"], "ok", "{finding}");
            }
        }
        let mut client = Client::connect(&theirs).await;
        for forbidden in [
            "DELETE FROM shedlock_audit",
            "UPDATE shedlock_audit SET actor = 'x'",
            "DELETE FROM shedlock",
            "DELETE FROM shedlock_job",
            "UPDATE shedlock_journal SET version = 2",
            "CREATE TABLE theirs (a int)",
        ] {
            let refused = client.try_run(forbidden).await;
            assert!(refused.is_err(), "{forbidden}");
        }
        let revoked = match is_postgres {
            true => format!("REVOKE UPDATE ON shedlock FROM {user}"),
            false => format!("REVOKE UPDATE ON shedlock FROM '{user}'"),
        };
        database.run(&revoked).await;
        let lacking = as_user(&run);
        let advice = "with `shedlock migrate --print --grant-to ROLE`";
        assert!(lacking.stderr.contains(advice), "{}", lacking.stderr);
    }
}

#[tokio::test]
async fn what_is_printed_completes_a_table_of_shedlock() {
    for mut database in Database::each().await {
        database
            .run(
                "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL \
                 DEFAULT CURRENT_TIMESTAMP, locked_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, \
                 locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
            )
            .await;
        let store = database.url.clone();
        let planned: Value = serde_json::from_str(
            &database.migrate(&store, &["--no-journal", "--dry-run", "-o", "json"]),
        )
        .unwrap();
        let printed: Value = serde_json::from_str(
            &database.migrate(&store, &["--no-journal", "--print", "-o", "json"]),
        )
        .unwrap();
        assert_eq!(planned["plan"], printed["upgrade"]);
        let steps = printed["upgrade"].as_array().unwrap();
        // SQLite adds one column at a time, and the servers add all six at once. PostgreSQL also needs an index.
        let expected = match store.split(':').next() {
            Some("sqlite") => 6,
            Some("postgres") => 2,
            _ => 1,
        };
        assert_eq!(steps.len(), expected, "{printed}");
        for step in steps {
            let statement = step["statement"].as_str().unwrap();
            database.run(statement).await;
        }
        database.is_complete(&store, &["--no-journal"]);
        database.serves(&store);
    }
}

#[tokio::test]
async fn a_dry_run_names_what_the_journal_lacks() {
    for mut database in Database::each().await {
        let store = database.url.clone();
        let _ = database.migrate(&store, &[]);
        for statement in [
            "DROP TABLE shedlock_run",
            "ALTER TABLE shedlock_job DROP COLUMN zone",
            "DELETE FROM shedlock_journal",
        ] {
            database.run(statement).await;
        }
        let planned = database.migrate(&store, &["--dry-run"]);
        for words in [
            "-- create table \"shedlock_run\"\n",
            "-- add column \"zone\" to table \"shedlock_job\"\n",
            "-- record version 1 of the journal\n",
        ] {
            assert!(planned.contains(words), "{planned}");
        }
        assert!(!planned.contains("shedlock_audit"), "{planned}");
        let again = database.migrate(&store, &["--dry-run"]);
        assert_eq!(planned, again);
        let _ = database.migrate(&store, &[]);
        database.is_complete(&store, &[]);
    }
}

#[tokio::test]
async fn a_schema_that_does_not_exist_is_named_by_every_form_of_the_command() {
    let remedy = "schema \"nosch\" does not exist; create it, or correct ?schema= or ?table= in the \
                  store's URL\n";
    for database in Database::each().await {
        if database.url.starts_with("sqlite") {
            continue;
        }
        for option in ["schema=nosch", "table=nosch.x"] {
            let missing = format!("{}?{option}", database.url);
            for options in [&["--no-journal"][..], &["--no-journal", "--dry-run"], &[]] {
                let mut migrate = database.sandbox.bare(&["migrate", "--store", &missing]);
                let refused = done(migrate.args(options));
                assert_eq!((refused.code, &*refused.stdout), (69, ""), "{refused:?}");
                assert!(refused.stderr.ends_with(remedy), "{refused:?}");
            }
            // The journal's own store.
            for dry_run in [&[][..], &["--dry-run"]] {
                let mut migrate = database.sandbox.shedlock(&["migrate"]);
                let refused = done(migrate.args(dry_run).args(["--journal-store", &missing]));
                assert_eq!(refused.code, 69, "{refused:?}");
                assert!(refused.stderr.ends_with(remedy), "{refused:?}");
            }
        }
    }
}

/// The operator reads the plan, and an administrator executes it.
#[tokio::test]
async fn a_user_without_rights_can_plan() {
    let Some(server) = server_if_any("postgres") else {
        return;
    };
    let mut database = Database::on(&server).await;
    let user = unique("clerk");
    database.run(&format!("CREATE ROLE {user} LOGIN")).await;
    let mut store = url::Url::parse(&database.url).unwrap();
    store.set_username(&user).unwrap();
    let planned = database.migrate(store.as_str(), &["--dry-run"]);
    let refused = ["migrate", "--store", store.as_str()];
    let refused = done(&mut database.sandbox.bare(&refused));
    assert_eq!(refused.code, 69, "{}", refused.stdout);
    // The error has all statements, so that the administrator is asked once.
    let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = in_one_line(&refused.stderr)
        .replace("( ", "(")
        .replace(" )", ")");
    let statements = planned.lines().filter(|line| !line.starts_with("--"));
    let statements = statements.collect::<Vec<_>>().join("\n");
    for statement in statements.split_terminator(';') {
        let statement = in_one_line(statement).replace("( ", "(").replace(" )", ")");
        assert!(
            shown.contains(&statement),
            "{statement:?} is not in {shown}"
        );
    }
    database.run(&planned).await;
    let grants = format!(
        "GRANT SELECT, INSERT, UPDATE ON shedlock TO {user}; \
         GRANT SELECT ON shedlock_journal TO {user}; \
         GRANT SELECT, INSERT, UPDATE ON shedlock_job TO {user}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON shedlock_run TO {user}; \
         GRANT SELECT, INSERT ON shedlock_audit TO {user}"
    );
    database.run(&grants).await;
    database.is_complete(store.as_str(), &[]);
    database.serves(store.as_str());
}

/// A table of an older release lacks several columns.
#[tokio::test]
async fn a_user_who_may_not_alter_a_table_gets_all_statements() {
    for server in ["postgres", "mariadb", "mysql"] {
        let Some(server) = server_if_any(server) else {
            continue;
        };
        let mut database = Database::on(&server).await;
        let _ = database.migrate(&database.url, &[]);
        for statement in [
            "ALTER TABLE shedlock_job DROP COLUMN zone",
            "ALTER TABLE shedlock_run DROP COLUMN error",
            "DROP TABLE shedlock_audit",
        ] {
            database.run(statement).await;
        }
        let (user, name) = (
            unique("clerk"),
            database.url.rsplit('/').next().unwrap().to_owned(),
        );
        let create = match server.starts_with("postgres") {
            true => format!(
                "CREATE ROLE {user} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}"
            ),
            false => format!("CREATE USER '{user}'@'%'; GRANT SELECT ON {name}.* TO '{user}'@'%'"),
        };
        database.run(&create).await;
        let mut store = url::Url::parse(&database.url).unwrap();
        store.set_username(&user).unwrap();
        store.set_password(None).unwrap();
        let refused = ["migrate", "--store", store.as_str()];
        let refused = done(&mut database.sandbox.bare(&refused));
        assert_eq!(refused.code, 69, "{refused:?}");
        let (_, advice) = refused.stderr.split_once("have such a user run: ").unwrap();
        for words in ["zone", "error", "shedlock_audit"] {
            assert!(advice.contains(words), "{words}: {}", refused.stderr);
        }
        for statement in advice.split("; ") {
            database.run(statement).await;
        }
        let planned = database.migrate(&database.url, &["--dry-run"]);
        assert!(planned.ends_with(": nothing to change\n"), "{planned}");
    }
}

/// A standby does not become writable while someone waits for the reply.
#[tokio::test]
async fn a_pause_on_a_read_only_server_does_not_wait() {
    let Some(server) = server_if_any("postgres") else {
        return;
    };
    let mut database = Database::on(&server).await;
    let store = database.url.clone();
    database.migrate(&store, &[]);
    let name = store.rsplit('/').next().unwrap().to_owned();
    let read_only = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    database.run(&read_only).await;
    let pause = [
        "pause", "job", "--create", "--wait", "1d", "--store", &store,
    ];
    let mut pausing = database.sandbox.bare(&pause).spawn().unwrap();
    eventually("the end of the pause", || {
        pausing.try_wait().unwrap().is_some()
    });
    let refused = end(pausing);
    assert_eq!(refused.code, 69, "{refused:?}");
    let said = "the server rejects writes (it is a standby or read-only): cannot execute";
    assert!(refused.stderr.contains(said), "{refused:?}");
}

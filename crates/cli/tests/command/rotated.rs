//! The password of a store changes while a command runs, and its file with it.

use std::fs;

use sqlx::{Connection as _, Executor as _, MySqlConnection};
use tokio::runtime::Runtime;
use url::Url;

use super::common::{Sandbox, calendar, done, end, eventually};
#[cfg(feature = "ui")]
use super::server::Server;

/// A user of a MariaDB server, with a database of its own.
struct User {
    runtime: Runtime,
    admin: MySqlConnection,
    name: String,
    url: Url,
}

impl User {
    /// `None` without a server for tests.
    fn new(name: &str) -> Option<Self> {
        let url = std::env::var("SHEDLOCK_TEST_MARIADB_URL").ok()?;
        let mut url = Url::parse(&url).unwrap();
        let runtime = Runtime::new().unwrap();
        let admin = runtime.block_on(MySqlConnection::connect(url.as_str()));
        let name = format!("{name}_{}", std::process::id());
        url.set_username(&name).unwrap();
        url.set_path(&name);
        let mut user = Self {
            runtime,
            admin: admin.unwrap(),
            name,
            url,
        };
        user.execute("CREATE DATABASE {}");
        user.execute("CREATE USER {} IDENTIFIED BY 'none'");
        user.execute("GRANT ALL ON {}.* TO {}");
        Some(user)
    }

    /// Executes a statement about this user.
    fn execute(&mut self, statement: &str) {
        let statement = statement.replace("{}", &self.name);
        let statement = sqlx::raw_sql(sqlx::AssertSqlSafe(statement));
        let done = self.admin.execute(statement);
        self.runtime.block_on(done).unwrap();
    }

    /// Changes the password in the server and in the file, and ends all connections with the old one.
    fn rotate(&mut self, sandbox: &Sandbox, password: &str) {
        self.url.set_password(Some(password)).unwrap();
        fs::write(sandbox.path("url.new"), self.url.as_str()).unwrap();
        fs::rename(sandbox.path("url.new"), sandbox.path("url")).unwrap();
        self.execute(&format!("ALTER USER {{}} IDENTIFIED BY '{password}'"));
        self.execute("KILL USER {}");
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.execute("DROP DATABASE {}");
        self.execute("DROP USER {}");
    }
}

#[test]
fn a_command_keeps_its_lease_after_a_rotation() {
    let sandbox = Sandbox::new();
    let Some(mut user) = User::new("rotated_run") else {
        return;
    };
    user.rotate(&sandbox, "first");
    let file = ["--store-file", "url"];
    let migrated = done(sandbox.bare(&["migrate"]).args(file));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let options = ["--lock-at-most-for", "6s", "--keep-alive"];
    let script = "echo up > up; until [ -e go ]; do sleep 0.1; done";
    let mut run = sandbox.bare(&["run", "-n", "a"]);
    run.args(options)
        .args(file)
        .args(["--", "sh", "-c", script]);
    let run = run.spawn().unwrap();
    sandbox.await_lines("up", 1);
    user.rotate(&sandbox, "second");
    let locked_until = || {
        let shown = done(sandbox.bare(&["show", "a", "-o", "json"]).args(file));
        let json: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        let until = json["lock"]["locked_until"].as_str().unwrap();
        let until: jiff::Timestamp = until.parse().unwrap();
        std::time::SystemTime::from(until)
    };
    let first_end = locked_until();
    eventually("the first end of the lease", || calendar() > first_end);
    assert!(locked_until() > calendar());
    fs::write(sandbox.path("go"), "").unwrap();
    let ended = end(run);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let said = "the file has another login now: it is used from now on";
    assert_eq!(ended.stderr.matches(said).count(), 1, "{}", ended.stderr);
    assert!(!ended.stderr.contains("second"), "{}", ended.stderr);
    let history = done(sandbox.bare(&["history", "a"]).args(file));
    assert!(history.stdout.contains("succeeded"), "{history:?}");
}

#[test]
fn a_journal_of_its_own_gets_the_end_of_a_run_after_a_rotation() {
    let sandbox = Sandbox::migrated();
    let Some(mut user) = User::new("rotated_journal") else {
        return;
    };
    user.rotate(&sandbox, "first");
    let file = ["--journal-store-file", "url"];
    let migrated = done(sandbox.shedlock(&["migrate"]).args(file));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let history = || done(sandbox.shedlock(&["history", "a"]).args(file)).stdout;
    let script = "echo up > up; until [ -e go ]; do sleep 0.1; done";
    let options = [&file[..], &["--every", "1h"]].concat();
    let run = sandbox.run_with("a", "60s", &options, script).spawn();
    sandbox.await_lines("up", 1);
    eventually("the start in the journal", || history().contains("running"));
    user.rotate(&sandbox, "second");
    fs::write(sandbox.path("go"), "").unwrap();
    let ended = end(run.unwrap());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        !ended.stderr.contains("could not write"),
        "{}",
        ended.stderr
    );
    assert!(history().contains("succeeded"), "{}", history());
}

/// The watchdog of a command whose `run` was killed connects to the store for the first time then.
#[test]
fn the_watchdog_frees_the_lock_after_a_rotation() {
    let sandbox = Sandbox::new();
    let Some(mut user) = User::new("rotated_watchdog") else {
        return;
    };
    user.rotate(&sandbox, "first");
    let file = ["--store-file", "url"];
    let migrated = done(sandbox.bare(&["migrate"]).args(file));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let mut run = sandbox.bare(&["run", "-n", "a", "--lock-at-most-for", "60s"]);
    run.args(file)
        .args(["--", "sh", "-c", "echo up > up; exec sleep 60"]);
    let mut run = run.spawn().unwrap();
    sandbox.await_lines("up", 1);
    user.rotate(&sandbox, "second");
    run.kill().unwrap();
    let ended = end(run);
    let shown = done(sandbox.bare(&["show", "a", "-o", "json"]).args(file));
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["lock"]["state"], "free", "{}", ended.stderr);
    let history = done(sandbox.bare(&["history", "a"]).args(file));
    assert!(!history.stdout.contains("running"), "{}", history.stdout);
}

#[cfg(feature = "ui")]
#[test]
fn the_dashboard_is_back_after_a_rotation() {
    let sandbox = Sandbox::new();
    let Some(mut user) = User::new("rotated_ui") else {
        return;
    };
    user.rotate(&sandbox, "first");
    let file = ["--store-file", "url"];
    let migrated = done(sandbox.bare(&["migrate"]).args(file));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let server = Server::without_store(&sandbox, &file);
    let jobs = || server.get("/api/jobs", "");
    assert!(jobs().starts_with("HTTP/1.1 200 "), "{}", jobs());
    user.rotate(&sandbox, "second");
    eventually("the jobs", || jobs().starts_with("HTTP/1.1 200 "));
    assert!(server.get("/api/locks", "").starts_with("HTTP/1.1 200 "));
    server.stop();
}

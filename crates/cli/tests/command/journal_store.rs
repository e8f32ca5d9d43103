//! A journal in a store of its own: `--journal-store`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::common::{Sandbox, done, end, eventually};

const VARIABLE: &str = "SHEDLOCK_JOURNAL_STORE";

/// Locks here, and a URL for the journal.
fn sandbox() -> (Sandbox, String) {
    let sandbox = Sandbox::migrated();
    let url = format!("sqlite:{}", sandbox.path("journal.db").display());
    (sandbox, url)
}

fn migrated() -> (Sandbox, String) {
    let (sandbox, url) = sandbox();
    let mut migrate = sandbox.shedlock(&["migrate", "--journal", "--journal-store", &url]);
    let migrated = done(&mut migrate);
    assert_eq!((migrated.code, &*migrated.stderr), (0, ""), "{migrated:?}");
    let lines: Vec<&str> = migrated.stdout.lines().collect();
    let created = "sqlite: created table \"shedlock_journal\"";
    assert_eq!(lines[0], created, "no line about the locks: {migrated:?}");
    (sandbox, url)
}

fn json(command: &mut Command) -> Value {
    let shown = done(command.args(["-o", "json"]));
    serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{shown:?}"))
}

#[test]
fn all_commands_read_and_write_it_and_the_locks_store_has_none() {
    let (sandbox, url) = migrated();
    let shedlock = |arguments: &[&str]| {
        let mut command = sandbox.shedlock(arguments);
        command.env(VARIABLE, &url);
        command
    };
    let ran = done(sandbox.run("a", "1m", "exit 3").env(VARIABLE, &url));
    assert_eq!((ran.code, &*ran.stderr), (3, ""), "{ran:?}");
    assert_eq!(done(&mut shedlock(&["pause", "a"])).code, 0);
    let history = json(&mut shedlock(&["history", "a"]));
    assert_eq!(history["runs"][0]["error"], "exit code 3", "{history}");
    assert_eq!(history["actions"][0]["action"], "pause", "{history}");
    let metrics = done(&mut shedlock(&["metrics"])).stdout;
    assert!(metrics.contains("shedlock_journal_up 1\n"), "{metrics}");
    let paused = "shedlock_job_paused{job_name=\"a\"} 1\n";
    assert!(metrics.contains(paused), "{metrics}");
    // It is not in the store of the locks, and the jobs need no store but that of the journal.
    let none = done(&mut sandbox.shedlock(&["jobs"]));
    assert_eq!(none.code, 1, "{none:?}");
    let jobs = json(&mut sandbox.bare(&["jobs", "--journal-store", &url]));
    assert_eq!(jobs["jobs"][0]["job"], "a", "{jobs}");
}

#[test]
fn the_end_of_a_run_that_was_killed_is_recorded() {
    let (sandbox, url) = migrated();
    let mut run = sandbox.run("a", "10m", "echo x > up; exec sleep 60");
    let mut child = run.env(VARIABLE, &url).spawn().unwrap();
    sandbox.await_lines("up", 1);
    let history = || json(sandbox.shedlock(&["history", "a"]).env(VARIABLE, &url));
    eventually("a running run", || {
        history()["runs"][0]["outcome"] == "running"
    });
    child.kill().unwrap();
    end(child);
    let run = &history()["runs"][0];
    assert_eq!(run["error"], "`shedlock run` was killed", "{run}");
}

#[test]
fn a_journal_that_is_absent_or_away_is_reported_and_keeps_no_command_from_running() {
    let (sandbox, url) = sandbox();
    let create = "to create one, run `shedlock migrate --journal`";
    let away = "postgres://u:geheim@127.0.0.1:1/d";
    for (url, why) in [
        (&*url, create),
        (away, "postgres at 127.0.0.1:1/d: cannot connect"),
    ] {
        let ran = done(sandbox.run("a", "1m", "true").env(VARIABLE, url));
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains(why), "{ran:?}");
        let said =
            "a: could not write to the journal within 2s: the end of this run is not recorded";
        assert!(ran.stderr.contains(said), "{ran:?}");
        let paused = done(sandbox.shedlock(&["pause", "b"]).env(VARIABLE, url));
        assert_eq!(paused.code, 0, "{paused:?}");
        let said = "b: done, so do not repeat it; its record in the journal may be missing: ";
        assert!(paused.stderr.contains(said), "{paused:?}");
        assert!(paused.stderr.contains(why), "{paused:?}");
        assert!(!paused.stderr.contains("nothing was written"), "{paused:?}");
        assert!(!paused.stderr.contains("retry"), "{paused:?}");
        assert!(!ran.stderr.contains("geheim"), "{ran:?}");
        assert_eq!(done(&mut sandbox.shedlock(&["resume", "b"])).code, 0);
    }
    // The advice works as it is printed, apart from the URL, which may contain a password.
    let options = ["--journal-store", &*url];
    let ran = done(&mut sandbox.run_with("a", "1m", &options, "true"));
    let said = format!(
        "warning: cannot write to the journal, retrying: no journal in {url}; to create one, \
         run `shedlock migrate --journal --journal-store …`\n"
    );
    assert!(ran.stderr.contains(&said), "{ran:?}");
    let none = done(sandbox.shedlock(&["jobs"]).env(VARIABLE, &url));
    let said =
        format!("shedlock: no journal in {url}; to create one, run `shedlock migrate --journal`\n");
    assert_eq!((none.code, none.stderr), (1, said));
    assert!(
        !sandbox.path("journal.db").exists(),
        "only migrate creates it"
    );
    let typed = done(&mut sandbox.shedlock(&["history", "a", "--journal-store", &url]));
    let said = "run `shedlock migrate --journal --journal-store …`\n";
    assert!(typed.stderr.ends_with(said), "{typed:?}");
}

#[test]
fn its_url_is_withheld_from_the_command_as_that_of_the_locks_is() {
    let (sandbox, url) = migrated();
    fs::write(sandbox.path("url"), &url).unwrap();
    let file = sandbox.path("url").display().to_string();
    let script = "env | grep JOURNAL > seen; true";
    for variable in [(VARIABLE, &url), ("SHEDLOCK_JOURNAL_STORE_FILE", &file)] {
        let run = |options: &[&str]| {
            let mut command = sandbox.run_with("a", "1m", options, script);
            let ran = done(command.env(variable.0, variable.1));
            assert_eq!((ran.code, &*ran.stderr), (0, ""), "{ran:?}");
            sandbox.read("seen")
        };
        assert_eq!(run(&[]), "");
        let seen = format!("{}={}\n", variable.0, variable.1);
        assert_eq!(run(&["--pass-store"]), seen);
    }
}

#[test]
fn it_is_a_setting_with_a_hidden_password() {
    let (sandbox, url) = migrated();
    let folder = sandbox.path(".config/shedlock");
    fs::create_dir_all(&folder).unwrap();
    let write = |text: &str| fs::write(folder.join("config.toml"), text).unwrap();
    let row = |command: &mut Command| {
        let shown = json(command);
        let rows = shown["settings"].as_array().unwrap().clone();
        let row = rows.into_iter().find(|row| row["name"] == "journal-store");
        row.unwrap_or_else(|| panic!("{shown}"))
    };
    assert_eq!(
        row(&mut sandbox.shedlock(&["config"]))["value"],
        Value::Null
    );
    write("journal-store = \"postgres://u:geheim@h/d\"\n");
    let shown = row(&mut sandbox.shedlock(&["config"]));
    assert_eq!(shown["value"], "postgres://u:***@h/d", "{shown}");
    assert!(
        shown["from"].as_str().unwrap().ends_with("config.toml:1"),
        "{shown}"
    );
    let shown = row(sandbox.shedlock(&["config"]).env(VARIABLE, &url));
    assert_eq!(shown["from"], VARIABLE, "{shown}");

    write(&format!("journal-store = \"{url}\"\n"));
    assert_eq!(done(&mut sandbox.run("a", "1m", "true")).code, 0);
    let jobs = json(&mut sandbox.shedlock(&["jobs"]));
    assert_eq!(jobs["jobs"][0]["job"], "a", "{jobs}");
    write("journal-store = \"sqlite:/a\"\njournal-store-file = \"/b\"\n");
    let both = done(&mut sandbox.shedlock(&["list"]));
    let said =
        "config.toml:2: journal-store and journal-store-file are both set: remove one of them\n";
    assert!(both.stderr.ends_with(said), "{both:?}");
}

#[test]
fn a_store_that_cannot_keep_a_journal_is_refused_before_anything_happens() {
    let sandbox = Sandbox::migrated();
    for (url, said) in [
        (
            "consul://h",
            "SHEDLOCK_JOURNAL_STORE: consul cannot keep a journal; set it to the URL \
             of a PostgreSQL, MySQL, MariaDB, SQLite, Redis, Valkey or MongoDB store\n",
        ),
        (
            " ",
            "SHEDLOCK_JOURNAL_STORE is set but empty: set it to the URL of the journal's store, or \
             unset it to keep the journal with the locks\n",
        ),
        ("sqlite:a.db", "/a.db\n"),
        ("nonsense://u:geheim@h", "sqlite\n"),
    ] {
        let refused = done(sandbox.run("a", "1m", "echo x > up").env(VARIABLE, url));
        assert_eq!(refused.code, 2, "{refused:?}");
        let said = said.trim_end();
        assert!(refused.stderr.trim_end().ends_with(said), "{refused:?}");
        assert!(!refused.stderr.contains("geheim"), "{refused:?}");
        assert_eq!(sandbox.read("up"), "");
    }
    // In the same store as the locks, what it needs for the locks is no reason.
    for (url, why) in [
        ("nats://h", "nats cannot keep a journal; leave"),
        (
            "postgres://h/d?table=a123456789b123456789c123456789d123456789e123456789f123456789",
            "postgres cannot keep a journal: ",
        ),
    ] {
        let print = ["migrate", "--print", "--journal", "--store", url];
        let refused = done(&mut sandbox.bare(&print));
        assert_eq!((refused.code, &*refused.stdout), (2, ""), "{refused:?}");
        assert!(
            refused.stderr.starts_with(&format!("shedlock: {why}")),
            "{refused:?}"
        );
        let advice =
            "; leave --journal out, or set the URL of another store for it with --journal-store\n";
        assert!(refused.stderr.ends_with(advice), "{refused:?}");
    }
    let mut both = sandbox.shedlock(&["jobs"]);
    let both = done(
        both.env(VARIABLE, "a")
            .env("SHEDLOCK_JOURNAL_STORE_FILE", "b"),
    );
    let said =
        "SHEDLOCK_JOURNAL_STORE and SHEDLOCK_JOURNAL_STORE_FILE are both set: unset one of them\n";
    assert!(both.stderr.ends_with(said), "{both:?}");
}

#[test]
fn a_plan_shows_what_each_of_the_two_stores_lacks() {
    let (sandbox, url) = sandbox();
    let shedlock = |arguments: &[&str]| {
        let mut command = sandbox.shedlock(&["migrate", "--journal"]);
        command.args(arguments).env(VARIABLE, &url);
        command
    };
    let plan = done(&mut shedlock(&["--dry-run"]));
    assert!(
        plan.stdout.starts_with("-- create file "),
        "a script, without a line about the locks: {plan:?}"
    );
    assert!(
        plan.stdout.contains("-- create table \"shedlock_run\""),
        "{plan:?}"
    );
    let plan = json(&mut shedlock(&["--dry-run"]));
    assert!(
        plan["plan"][0]["change"]
            .as_str()
            .unwrap()
            .starts_with("create file"),
        "{plan}"
    );
    // A script for the journal's database has no table of locks.
    let script = done(&mut shedlock(&["--print"]));
    assert!(script.stdout.contains("`shedlock_run`"), "{script:?}");
    assert!(!script.stdout.contains("lock_until"), "{script:?}");
    assert!(!sandbox.path("journal.db").exists());
    let migrated = done(&mut shedlock(&[]));
    assert_eq!(migrated.code, 0);
    assert!(!migrated.stdout.contains("nothing"), "{migrated:?}");
    let plan = done(&mut shedlock(&["--dry-run"]));
    assert_eq!(
        plan.stdout,
        "sqlite: nothing to change\nsqlite: nothing to change\n"
    );
}

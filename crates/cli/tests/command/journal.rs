//! `migrate --journal`, `jobs` and `history`, and what `run` records.

use serde_json::Value;

use super::common::{Sandbox, done, end, eventually};

/// A sandbox whose store has a journal.
fn journal() -> Sandbox {
    let sandbox = Sandbox::migrated();
    let migrated = done(&mut sandbox.shedlock(&["migrate", "--journal"]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let created: Vec<&str> = migrated.stdout.lines().collect();
    assert_eq!(
        created,
        [
            "sqlite: created table \"shedlock_journal\"",
            "sqlite: created table \"shedlock_job\"",
            "sqlite: created table \"shedlock_run\"",
            "sqlite: created table \"shedlock_audit\"",
        ]
    );
    sandbox
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let shown = done(sandbox.shedlock(arguments).args(["-o", "json"]));
    serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{shown:?}"))
}

#[test]
fn runs_and_their_ends_are_kept() {
    let sandbox = journal();
    assert_eq!(
        done(&mut sandbox.shedlock(&["migrate", "--journal"])).stdout,
        "sqlite: nothing to do\n"
    );
    assert_eq!(done(&mut sandbox.run("payroll", "1m", "true")).code, 0);
    assert_eq!(done(&mut sandbox.run("payroll", "1m", "exit 3")).code, 3);
    assert_eq!(done(&mut sandbox.run("other", "1m", "true")).code, 0);

    let history = done(&mut sandbox.shedlock(&["history", "payroll"]));
    assert_eq!(history.code, 0, "{}", history.stderr);
    let lines: Vec<Vec<&str>> = history
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["STARTED", "OUTCOME", "TOOK", "SLOT", "OWNER", "ERROR"]
    );
    assert_eq!(lines.len(), 3, "{}", history.stdout);
    assert_eq!(lines[1][1], "failed");
    assert_eq!(lines[1][lines[1].len() - 3..], ["exit", "code", "3"]);
    assert_eq!(lines[2][1], "succeeded");

    let runs = json(&sandbox, &["history", "payroll", "--failed"]);
    let runs = runs["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["outcome"], "failed");
    assert_eq!(runs[0]["error"], "exit code 3");
    assert_eq!(
        runs[0]["fencing_token"],
        sandbox.lock("payroll")["fencing_token"]
    );

    let jobs = json(&sandbox, &["jobs"]);
    let jobs = jobs["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs[1]["job"], "payroll");
    assert_eq!(jobs[1]["last_outcome"], "failed");
    assert_eq!(jobs[1]["last_error"], "exit code 3");
    assert!(jobs[1]["last_succeeded"].is_string());
    assert_eq!(jobs[1]["deadline"], Value::Null);
    let jobs = done(&mut sandbox.shedlock(&["jobs", "--filter", "pay*"]));
    assert_eq!(jobs.stdout.lines().count(), 2, "{}", jobs.stdout);
}

#[test]
fn a_job_with_a_schedule_has_a_deadline() {
    let sandbox = journal();
    let options = ["--schedule", "* * * * *"];
    let mut command = sandbox.run_with("minutely", "10m", &options, "true");
    assert_eq!(done(&mut command).code, 0);
    let job = &json(&sandbox, &["jobs"])["jobs"][0];
    assert_eq!(job["schedule"], "* * * * *");
    assert_eq!(job["zone"], "UTC");
    assert_eq!(job["is_overdue"], false);
    let time = |field: &str| {
        job[field]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    let run = &json(&sandbox, &["history", "minutely"])["runs"][0];
    let slot: jiff::Timestamp = run["slot"].as_str().unwrap().parse().unwrap();
    assert_eq!(time("next_slot").duration_since(slot).as_secs(), 60);
    // --lock-at-most-for, and a minute for the start.
    assert_eq!(
        time("deadline").duration_since(time("next_slot")).as_secs(),
        660
    );
}

#[test]
fn a_run_in_progress_is_running_and_one_that_was_killed_has_died() {
    let sandbox = journal();
    let mut child = sandbox
        .run("a", "10m", "echo x > up; exec sleep 60")
        .spawn()
        .unwrap();
    sandbox.await_lines("up", 1);
    let outcome = || json(&sandbox, &["history", "a"])["runs"][0]["outcome"].clone();
    eventually("a running run", || outcome() == "running");
    child.kill().unwrap();
    let said = end(child).stderr;
    assert!(said.contains("was killed"), "{said}");
    assert_eq!(outcome(), "died");
    let run = &json(&sandbox, &["history", "a"])["runs"][0];
    assert_eq!(run["error"], "`shedlock run` was killed");
}

#[test]
fn without_a_journal_nothing_is_recorded_and_the_commands_say_how_to_create_one() {
    let sandbox = Sandbox::migrated();
    let ran = done(&mut sandbox.run("a", "1m", "true"));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    for arguments in [&["jobs"][..], &["history", "a"]] {
        let shown = done(&mut sandbox.shedlock(arguments));
        assert_eq!((shown.code, shown.stdout.as_str()), (1, ""));
        let said = "to create one, run `shedlock migrate --journal`";
        assert!(shown.stderr.contains(said), "{}", shown.stderr);
    }
    // The journal is no list of locks, and needs no restart of anything.
    assert_eq!(
        done(&mut sandbox.shedlock(&["migrate", "--journal"])).code,
        0
    );
    let none = done(&mut sandbox.shedlock(&["history", "a"]));
    assert_eq!(none.code, 1);
    assert!(
        none.stderr.contains("no run of \"a\" in the journal of "),
        "{}",
        none.stderr
    );
    assert_eq!(done(&mut sandbox.shedlock(&["jobs"])).stdout, "no jobs\n");
}

#[test]
fn a_store_that_cannot_keep_a_journal_is_named() {
    let sandbox = Sandbox::new();
    let refused = done(&mut sandbox.bare(&["jobs", "--store", "memory:"]));
    assert_ne!(refused.code, 0);
}

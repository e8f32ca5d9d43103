//! `migrate --journal`, `jobs` and `history`, and what `run` records.

use serde_json::Value;

use super::common::{Done, Sandbox, done, end, eventually, sql};

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
    assert_eq!(lines[0], ["TIME", "EVENT", "TOOK", "SLOT", "BY", "DETAIL"]);
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
    let jobs = done(&mut sandbox.shedlock(&["jobs", "--filter", "nosuch*"]));
    assert_eq!((jobs.code, &*jobs.stdout), (0, "no job matches\n"));
    let since = [
        "history",
        "payroll",
        "--failed",
        "--since",
        "2100-01-01T00:00:00Z",
    ];
    let none = done(&mut sandbox.shedlock(&since));
    assert_eq!((none.code, &*none.stdout), (1, ""));
    let said = "shedlock: no run of \"payroll\" that failed since 2100-01-01T00:00:00Z in the \
                journal of ";
    assert!(none.stderr.starts_with(said), "{}", none.stderr);
    let said = "; to see its other runs, run `shedlock history payroll`\n";
    assert!(none.stderr.ends_with(said), "{}", none.stderr);
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
fn all_tables_fit_into_the_smallest_width() {
    let sandbox = journal();
    let long = "a-job-with-a-long-name";
    let schedule = ["--schedule", "*/10 1-23 * * MON-FRI"];
    assert_eq!(
        done(&mut sandbox.run_with(long, "1m", &schedule, "exit 3")).code,
        3
    );
    let killed = "kill -9 $PPID; sleep 60";
    done(&mut sandbox.run(long, "1m", killed));
    assert_eq!(done(&mut sandbox.shedlock(&["pause", long])).code, 0);
    assert_eq!(
        done(&mut sandbox.run_with("b", "1m", &["--lock-at-least-for", "50s"], "true")).code,
        0
    );
    for table in [&["list"][..], &["jobs"], &["history", long]] {
        let shown = |width: &str| {
            let mut command = sandbox.shedlock(table);
            done(command.args(["--width", width]))
        };
        for width in [40, 41, 52, 60, 72] {
            let text = shown(&width.to_string()).stdout;
            assert!(text.lines().count() > 1, "{text}");
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{width}: {text}");
        }
        let refused = shown("39");
        assert_eq!(refused.code, 2);
        let said = "'39' for '--width <COLUMNS>': write a number of 40 or more";
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}

#[test]
fn the_error_of_a_run_says_whether_the_command_was_stopped_and_why() {
    let sandbox = journal();
    for (at_most, options, script, code, error) in [
        ("1m", &[][..], "exit 75", 75, "exit code 75"),
        (
            "1500ms",
            &[],
            "sleep 60",
            75,
            "stopped: its lease was about to end (exit code 75)",
        ),
        (
            "1m",
            &["--max-run-time", "200ms"],
            "sleep 60",
            75,
            "stopped: it ran longer than --max-run-time (exit code 75)",
        ),
        (
            "1m",
            &[],
            "kill -9 $$",
            137,
            "ended by signal 9 (exit code 137)",
        ),
    ] {
        let ran = done(&mut sandbox.run_with("a", at_most, options, script));
        assert_eq!(ran.code, code, "{}", ran.stderr);
        let run = &json(&sandbox, &["history", "a"])["runs"][0];
        assert_eq!(run["outcome"], "failed", "{run}");
        assert_eq!(run["error"], error);
        assert_eq!(
            json(&sandbox, &["jobs", "--filter", "a"])["jobs"][0]["last_error"],
            error
        );
        let shown = done(&mut sandbox.shedlock(&["history", "a", "-n", "1"]));
        assert!(
            shown.stdout.ends_with(&format!("  {error}\n")),
            "{}",
            shown.stdout
        );
    }
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
        let shown = done(sandbox.shedlock(arguments).args(["-o", "json"]));
        let json: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(json["error"]["kind"], "absent", "{json}");
        assert_eq!(json["error"]["exit_code"], 1, "{json}");
        let message = json["error"]["message"].as_str().unwrap();
        assert!(message.ends_with(said), "{json}");
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

/// A command of this operator.
fn by(user: &str, sandbox: &Sandbox, arguments: &[&str]) -> Done {
    done(sandbox.shedlock(arguments).env("USER", user))
}

/// Who did what to this lock, with which detail and reason, the latest first.
fn actions(sandbox: &Sandbox, name: &str) -> Vec<[String; 4]> {
    let shown = json(sandbox, &["history", name]);
    let actions = shown["actions"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    actions
        .map(|it| {
            assert_eq!(it["name"], name, "{it}");
            assert_eq!(it["is_authenticated"], false, "{it}");
            let (user, host) = it["by"].as_str().unwrap().split_once('@').unwrap();
            assert!(!host.is_empty(), "{it}");
            let (action, detail) = (text(&it["action"]), text(&it["detail"]));
            [user.to_owned(), action, detail, text(&it["reason"])]
        })
        .collect()
}

#[test]
fn what_operators_did_to_a_lock_is_shown_between_its_runs() {
    let sandbox = journal();
    let yearly = ["--schedule", "0 0 1 1 *"];
    assert_eq!(
        done(&mut sandbox.run_with("mail", "30000d", &yearly, "true")).code,
        0
    );
    let script = "echo up > up; until [ -e go ]; do sleep 0.02; done";
    let run = sandbox.run("mail", "10m", script).spawn().unwrap();
    sandbox.await_lines("up", 1);
    let owner = sandbox.lock("mail")["owner"].as_str().unwrap().to_owned();

    let slot = "2020-01-01T00:00:00Z";
    let reason = "the bank is down, see postgres://app:geheim@db/app";
    for (user, arguments) in [
        ("ann", &["extend", "mail", "--for", "1h"][..]),
        ("bob", &["slot", "reset", "mail", "--to", slot]),
        (
            "cid",
            &["pause", "mail", "--now", "--for", "1h", "--reason", reason],
        ),
        ("dan", &["resume", "mail", "--catch-up"]),
    ] {
        let answer = by(user, &sandbox, arguments);
        assert_eq!(
            (answer.code, answer.stderr.as_str()),
            (0, ""),
            "{arguments:?}"
        );
    }
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(run).code, 75, "it was paused meanwhile");
    std::fs::remove_file(sandbox.path("go")).unwrap();
    let run = sandbox.run("mail", "10m", script).spawn().unwrap();
    sandbox.await_lines("up", 1);
    eventually("the next run", || sandbox.lock("mail")["state"] == "held");
    let next = sandbox.lock("mail")["owner"].as_str().unwrap().to_owned();
    let freed = by("eve", &sandbox, &["unlock", "mail", "--force"]);
    assert_eq!((freed.code, freed.stderr.as_str()), (0, ""));
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(run).code, 0, "no one has taken the lock since");
    // Nothing was done, so nothing is recorded.
    assert_eq!(by("fay", &sandbox, &["unlock", "mail", "--force"]).code, 1);
    assert_eq!(by("fay", &sandbox, &["resume", "mail"]).code, 1);
    assert_eq!(
        by("fay", &sandbox, &["extend", "mail", "--for", "1h"]).code,
        1
    );
    assert_eq!(by("fay", &sandbox, &["slot", "reset", "mail"]).code, 1);

    let actions = actions(&sandbox, "mail");
    let who: Vec<_> = actions.iter().map(|it| (&*it[0], &*it[1])).collect();
    let expected = [
        ("eve", "unlock"),
        ("dan", "resume"),
        ("cid", "pause"),
        ("bob", "slot-reset"),
        ("ann", "extend"),
    ];
    assert_eq!(who, expected);
    let starts = format!("ended the lease of {next} (until 20");
    assert!(actions[0][2].starts_with(&starts), "{actions:?}");
    let starts = "it was paused by cid@";
    assert!(actions[1][2].starts_with(starts), "{actions:?}");
    assert!(actions[1][2].ends_with("; --catch-up"), "{actions:?}");
    let took = format!("; ended the lease of {owner} (until 20");
    assert!(actions[2][2].starts_with("until 20"), "{actions:?}");
    assert!(actions[2][2].contains(&took), "{actions:?}");
    assert_eq!(
        actions[2][3],
        "the bank is down, see postgres://app:***@db/app"
    );
    let lock = sandbox.lock("mail");
    let year = &lock["read_at"].as_str().unwrap()[..4];
    let expected = format!("the last slot is now {slot}; it was {year}-01-01T00:00:00Z");
    assert_eq!(actions[3][2], expected);
    let starts = format!("held by {owner} until 20");
    assert!(actions[4][2].starts_with(&starts), "{actions:?}");

    let table = done(&mut sandbox.shedlock(&["history", "mail"]));
    let events = table.stdout.lines().skip(1);
    let events: Vec<_> = events
        .map(|line| line.split_whitespace().nth(1).unwrap())
        .collect();
    let expected = [
        "freed",
        "succeeded",
        "resumed",
        "paused",
        "slot",
        "extended",
        "lost",
        "succeeded",
    ];
    assert_eq!(events, expected, "{}", table.stdout);
    let paused = table.stdout.lines().nth(4).unwrap();
    let why = "(the bank is down, see postgres://app:***@db/app)";
    assert!(paused.contains(why), "{paused}");

    // As far back as the runs.
    let latest = json(&sandbox, &["history", "mail", "-n", "1"]);
    assert_eq!(latest["actions"].as_array().unwrap().len(), 1, "{latest}");
    let failed = json(&sandbox, &["history", "mail", "--failed"]);
    assert_eq!(failed["actions"].as_array().unwrap().len(), 0, "{failed}");
    let since = ["history", "mail", "--since", "2100-01-01T00:00:00Z"];
    assert_eq!(done(&mut sandbox.shedlock(&since)).code, 1);
}

#[test]
fn a_lock_that_never_ran_has_a_history_of_actions() {
    let sandbox = journal();
    assert_eq!(by("ann", &sandbox, &["pause", "a", "b"]).code, 0);
    for name in ["a", "b"] {
        let actions = actions(&sandbox, name);
        assert_eq!(actions.len(), 1);
        assert!(
            actions[0][2].starts_with("until it is resumed"),
            "{actions:?}"
        );
        let shown = done(&mut sandbox.shedlock(&["history", name]));
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        assert_eq!(shown.stdout.lines().count(), 2, "{}", shown.stdout);
    }
}

#[test]
fn a_command_that_extends_its_own_lease_is_no_operator() {
    let sandbox = journal();
    let script = format!("{} extend --for 1h", env!("CARGO_BIN_EXE_shedlock"));
    let mut run = sandbox.run_with("a", "10m", &["--pass-store"], &script);
    assert_eq!(done(&mut run).code, 0);
    assert_eq!(actions(&sandbox, "a"), [[""; 4]; 0]);
}

#[test]
fn an_action_that_cannot_be_recorded_is_done_with_a_warning() {
    let sandbox = journal();
    sql(&sandbox, "DROP TABLE shedlock_audit");
    let paused = by("ann", &sandbox, &["pause", "a", "b"]);
    assert_eq!(paused.code, 0, "{paused:?}");
    assert_eq!(paused.stdout.lines().count(), 2, "{paused:?}");
    let said = "shedlock: a: done, so do not repeat it; its record in the journal may be missing: ";
    assert!(paused.stderr.starts_with(said), "{paused:?}");
    assert_eq!(paused.stderr.lines().count(), 1, "{paused:?}");
    assert_eq!(sandbox.lock("b")["state"], "paused");
}

#[test]
fn a_job_that_no_longer_exists_is_removed_with_its_runs() {
    let sandbox = journal();
    for name in ["gone", "kept"] {
        assert_eq!(done(&mut sandbox.run(name, "1m", "true")).code, 0);
    }
    let forget = |more: &[&str]| {
        let arguments = [&["jobs", "--forget", "gone"], more].concat();
        by("ann", &sandbox, &arguments)
    };
    let jobs = || {
        let jobs = json(&sandbox, &["jobs"])["jobs"].clone();
        let names = jobs.as_array().unwrap().iter();
        let names = names.map(|job| job["job"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let shown = forget(&[]);
    let said = "shedlock: would remove this job and its runs: nothing was changed; to remove them, \
                add --yes\n";
    assert_eq!((shown.code, &*shown.stderr), (0, said));
    assert!(shown.stdout.contains("\ngone "), "{shown:?}");
    assert_eq!(jobs(), ["gone", "kept"]);
    let removed = forget(&["--yes"]);
    assert_eq!(
        (removed.code, &*removed.stderr),
        (0, "shedlock: removed this job and its runs\n")
    );
    assert_eq!(jobs(), ["kept"]);
    let history = json(&sandbox, &["history", "gone"]);
    assert_eq!(history["runs"].as_array().unwrap().len(), 0, "{history}");
    assert_eq!(actions(&sandbox, "gone")[0][..2], ["ann", "forget"]);
    assert_eq!(
        sandbox.lock("gone")["state"],
        "free",
        "its lock is not touched"
    );
    let again = forget(&["--yes"]);
    let said = "shedlock: gone: not removed: there is no such job in the journal of ";
    assert!(again.stderr.starts_with(said), "{again:?}");
    assert_eq!(again.code, 1);
    // Nothing is removed by a word that was forgotten.
    assert_eq!(done(&mut sandbox.shedlock(&["jobs", "--yes"])).code, 2);
}

#[test]
fn as_much_of_an_error_is_kept_as_was_asked_for() {
    let sandbox = journal();
    for (errors, kept) in [
        ("full", Value::from("exit code 3")),
        ("kind", Value::from("exit code 3")),
        ("none", Value::Null),
    ] {
        let mut run = sandbox.run_with(errors, "1m", &["--journal-errors", errors], "exit 3");
        assert_eq!(done(&mut run).code, 3);
        let history = json(&sandbox, &["history", errors]);
        assert_eq!(history["runs"][0]["outcome"], "failed", "{history}");
        assert_eq!(history["runs"][0]["error"], kept, "{history}");
        let jobs = json(&sandbox, &["jobs", "--filter", errors]);
        assert_eq!(jobs["jobs"][0]["last_error"], kept, "{jobs}");
    }
    let mut run = sandbox.run("killed", "10m", "echo x > up; exec sleep 60");
    let mut child = run.env("SHEDLOCK_JOURNAL_ERRORS", "none").spawn().unwrap();
    sandbox.await_lines("up", 1);
    eventually("a running run", || {
        json(&sandbox, &["history", "killed"])["runs"][0]["outcome"] == "running"
    });
    child.kill().unwrap();
    end(child);
    let run = &json(&sandbox, &["history", "killed"])["runs"][0];
    assert_eq!(
        (&run["outcome"], &run["error"]),
        (&"died".into(), &Value::Null)
    );
}

/// What a command prints, and the URLs that it was given, are in no record of its runs.
#[test]
fn no_password_reaches_the_journal_or_the_metrics() {
    let sandbox = journal();
    let script = "echo postgres://u:geheim@h/d; echo postgres://u:geheim@h/d >&2; exit 3";
    assert_eq!(done(&mut sandbox.run("a", "1m", script)).code, 3);
    let killed = "echo postgres://u:geheim@h/d >&2; kill -9 $$";
    assert_eq!(done(&mut sandbox.run("a", "1m", killed)).code, 137);
    let file = sandbox.path("metrics.prom").display().to_string();
    for arguments in [
        &["history", "a", "-o", "json"][..],
        &["jobs", "-o", "json"],
        &["metrics"],
        &["metrics", "--textfile", &file],
        &["metrics", "--store", "postgres://u:geheim@127.0.0.1:1/d"],
        &[
            "metrics",
            "--store",
            "postgres://u:geheim@127.0.0.1:1/d",
            "--textfile",
            &file,
        ],
        &[
            "metrics",
            "--journal-store",
            "postgres://u:geheim@127.0.0.1:1/d",
        ],
    ] {
        let shown = done(&mut sandbox.shedlock(arguments));
        assert_eq!(shown.code, 0, "{shown:?}");
        let all = format!(
            "{}{}{}",
            shown.stdout,
            shown.stderr,
            sandbox.read("metrics.prom")
        );
        assert!(!all.contains("geheim"), "{arguments:?}: {all}");
    }
    assert!(
        sandbox
            .read("metrics.prom")
            .contains("shedlock_store_up 0\n")
    );
}

#[test]
fn slots_without_a_run_are_counted_by_reason() {
    let sandbox = journal();
    let options = ["--schedule", "* * * * *"];
    assert_eq!(
        done(&mut sandbox.run_with("a", "10m", &options, "true")).code,
        0
    );
    assert_eq!(done(&mut sandbox.run("b", "1m", "true")).code, 0);
    let jobs = || json(&sandbox, &["jobs"])["jobs"].clone();
    let none = serde_json::json!({ "paused": 0, "held": 0, "not_started": 0 });
    assert_eq!(jobs()[0]["missed_slots"], none);
    assert_eq!(jobs()[1]["missed_slots"], Value::Null, "it has no schedule");
    // As if it had been registered an hour ago, and had not run since.
    sql(
        &sandbox,
        "UPDATE shedlock_job SET registered_us = registered_us - 3600000000",
    );
    let missed = jobs()[0]["missed_slots"]["not_started"].as_u64().unwrap();
    // A slot is missed once its run would be overdue, after 11 minutes.
    assert!((47..=50).contains(&missed), "{missed}");
    let metrics = done(&mut sandbox.shedlock(&["metrics"])).stdout;
    let line = "shedlock_job_missed_slots{job_name=\"a\",reason=\"not_started\"} 4";
    assert!(metrics.contains(line), "{metrics}");
}

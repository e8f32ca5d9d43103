//! What the journal keeps of runs that are killed or stopped, its counts, and the widths of its tables.
//! `transcripts/journal.md` has the rest.

use serde_json::Value;

use super::common::{Sandbox, done, end, eventually, sql};

/// A sandbox whose store has a journal.
fn journal() -> Sandbox {
    let sandbox = Sandbox::migrated();
    let migrated = done(&mut sandbox.shedlock(&["migrate"]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    sandbox
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let shown = done(sandbox.shedlock(arguments).args(["-o", "json"]));
    serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{shown:?}"))
}

/// A job is not overdue while a run lasts as long as its store's URL allows.
#[test]
fn lease_of_the_url() {
    let sandbox = journal();
    let store = format!("{}?lock_at_most_for=10m", sandbox.store());
    let run = [
        "run", "-n", "a", "--store", &store, "--every", "1h", "--", "true",
    ];
    assert_eq!(done(&mut sandbox.bare(&run)).code, 0);
    let job = &json(&sandbox, &["jobs"])["jobs"][0];
    assert_eq!(job["lock_at_most_for_seconds"], 600.0);
    let instant =
        |field: &str| -> jiff::Timestamp { job[field].as_str().unwrap().parse().unwrap() };
    let allowed = instant("deadline").duration_since(instant("next_slot"));
    assert!(allowed.as_secs() >= 600, "{job}");
}

/// A run in progress is running, and one that was killed has failed: the watchdog stopped its command.
#[test]
fn killed() {
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
    assert_eq!(outcome(), "failed");
    let run = &json(&sandbox, &["history", "a"])["runs"][0];
    assert_eq!(
        run["error"],
        "`shedlock run` was killed, and its command was stopped"
    );
}

/// All tables fit into the smallest width.
#[test]
fn widths() {
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

/// The error of a run says whether the command was stopped, and why.
#[test]
fn stopped() {
    let sandbox = journal();
    for (at_most, options, script, code, error) in [
        ("1m", &[][..], "exit 75", 75, "exit code 75"),
        (
            "9s",
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

/// Hosts with different schedules, zones or leases run a job more often than anyone wants.
#[test]
fn drift() {
    let sandbox = journal();
    let run = |at_most: &str, schedule: &str, zone: &str| {
        let options = ["--schedule", schedule, "--zone", zone];
        let ran = done(&mut sandbox.run_with("a", at_most, &options, "true"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let reset = ["slot", "reset", "a", "--to", "2026-01-01T00:00:00Z"];
        assert_eq!(done(&mut sandbox.shedlock(&reset)).code, 0);
        let said = ran
            .stderr
            .lines()
            .filter(|line| line.contains(" has registered "));
        said.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(run("10m", "0 3 * * *", "UTC"), [""; 0]);
    assert_eq!(run("10m", "0 3 * * *", "UTC"), [""; 0]);
    let said = run("10m", "0 3 * * *", "Asia/Seoul");
    let [said] = &said[..] else {
        panic!("{said:?}")
    };
    let theirs = " has registered \"0 3 * * *\" UTC with a lease of 10m, and ";
    assert!(said.contains(theirs), "{said}");
    let ours = " registers \"0 3 * * *\" Asia/Seoul with a lease of 10m: ";
    assert!(said.contains(ours), "{said}");
    // The other host says so too.
    assert_eq!(run("10m", "0 3 * * *", "UTC").len(), 1);
    assert_eq!(run("20m", "0 3 * * *", "UTC").len(), 1);
    assert_eq!(run("20m", "0 3 * * *", "UTC"), [""; 0]);

    // One host changes its mind: nothing differs. Two hosts differ until the other one has the same.
    let finding = || {
        let findings = json(&sandbox, &["doctor"])["findings"].clone();
        let all = findings.as_array().unwrap();
        let found = all.iter().find(|it| it["check"] == "registrations");
        found.unwrap()["message"].as_str().unwrap().to_owned()
    };
    let none = "no job that two hosts have registered differently";
    assert_eq!(finding(), none);
    sql(&sandbox, "UPDATE shedlock_job SET registered_by = 'web-1'");
    assert_eq!(run("20m", "0 3 * * *", "Asia/Seoul").len(), 1);
    let differs = finding();
    let ours = " has registered a as \"0 3 * * *\" Asia/Seoul with a lease of 20m, and web-1 as ";
    assert!(differs.contains(ours), "{differs}");
    let theirs = "and web-1 as \"0 3 * * *\" UTC with a lease of 20m until ";
    assert!(differs.contains(theirs), "{differs}");
    let jobs = done(&mut sandbox.shedlock(&["jobs"])).stdout;
    assert!(jobs.contains(&differs), "{jobs}");
    let job = &json(&sandbox, &["jobs"])["jobs"][0];
    assert_eq!(job["replaced"]["by"], "web-1", "{job}");
    assert_eq!(job["replaced"]["zone"], "UTC", "{job}");
    // A host that is gone is forgotten after two days, and one that still runs the job is not.
    sql(
        &sandbox,
        "UPDATE shedlock_job SET other_at_us = other_at_us - 172900000000",
    );
    assert_eq!(finding(), none);
    sql(&sandbox, "UPDATE shedlock_job SET last_owner = 'web-1/1/2'");
    assert!(finding().contains(theirs));
    let here = "UPDATE shedlock_job SET other_by = registered_by, registered_by = 'web-1'";
    sql(&sandbox, here);
    assert_eq!(run("20m", "0 3 * * *", "Asia/Seoul"), [""; 0]);
    assert_eq!(
        json(&sandbox, &["jobs"])["jobs"][0]["replaced"],
        Value::Null
    );

    // A line without the schedule runs the job in addition.
    let ran = done(&mut sandbox.run("a", "20m", "true"));
    let missing = "a: this run has no schedule, and ";
    assert!(ran.stderr.contains(missing), "{}", ran.stderr);
    let other = done(&mut sandbox.run("b", "20m", "true"));
    assert_eq!(other.stderr, "");
}

/// Slots without a run are counted by reason.
#[test]
fn missed_slots() {
    let sandbox = journal();
    let options = ["--schedule", "* * * * *"];
    assert_eq!(
        done(&mut sandbox.run_with("a", "10m", &options, "true")).code,
        0
    );
    assert_eq!(done(&mut sandbox.run("b", "1m", "true")).code, 0);
    let jobs = || json(&sandbox, &["jobs"])["jobs"].clone();
    let none = serde_json::json!({ "paused": 0, "held": 0, "elsewhere": 0, "not_started": 0 });
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
    let line = "shedlock_job_missed_slots{job_name=\"a\",reason=\"not_started\",";
    let line = metrics.lines().find(|it| it.starts_with(line)).unwrap();
    let (_, count) = line.rsplit_once(' ').unwrap();
    let missed: u64 = count.parse().unwrap();
    assert!((47..=50).contains(&missed), "{line}");
}

/// `--journal-errors none` keeps no error of a run that was killed either.
#[test]
fn killed_without_an_error() {
    let sandbox = journal();
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
        (&"failed".into(), &Value::Null)
    );
}

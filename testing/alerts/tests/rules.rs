//! The rules, the dashboard and the metrics, checked with promtool.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use shedlock::{
    Actor, AuditRecord, Clock as _, Executor, JobMetrics, JobRegistration, JobsRequest,
    Journal as _, JournalWriter, LockConfig, MemoryJournal, MemoryProvider, SystemClock,
};
use tempfile::TempDir;

/// The folder of the rules.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/alerts");

fn read(file: &str) -> String {
    fs::read_to_string(format!("{FOLDER}/{file}")).unwrap()
}

fn promtool(arguments: &[&str], input: &str) -> (bool, String) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(FOLDER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is needed: on Debian `apt-get install -y prometheus`");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn the_rules_are_valid_and_pass_their_tests() {
    for arguments in [
        &["check", "rules", "shedlock.rules.yml"][..],
        &["test", "rules", "shedlock.test.yml"],
    ] {
        let (passed, said) = promtool(arguments, "");
        assert!(passed && said.contains("SUCCESS"), "{said}");
    }
}

/// What each rule needs is tested: without it, the unit tests of the rules fail.
#[test]
fn the_tests_of_the_rules_find_each_change() {
    let (rules, tests) = (read("shedlock.rules.yml"), read("shedlock.test.yml"));
    // The test of a day takes as long as all others.
    let is_short = |test: &&str| !test.starts_with("a pause that lasts");
    let short: Vec<&str> = tests.split("  - name: ").filter(is_short).collect();
    let short = short.join("  - name: ");
    assert_ne!(short, tests);
    for (what, instead) in [
        (
            "time() > last_over_time(store_job_name:shedlock_job_deadline_timestamp_seconds:newest[1d])",
            "time() > store_job_name:shedlock_job_deadline_timestamp_seconds:newest",
        ),
        (
            "unless on (store, job_name) last_over_time(store_job_name:shedlock_job_paused:newest[1d]) == 1",
            "",
        ),
        (
            "last_over_time(store_job_name:shedlock_job_paused:newest[1d])",
            "max by (store, job_name) (last_over_time(shedlock_job_paused[1d]))",
        ),
        ("unless on () max by () (shedlock_store_up) == 0", ""),
        (
            "max by () (shedlock_store_up)",
            "min by () (shedlock_store_up)",
        ),
        ("reReplaceAll \"'\" \"'\\\\''\" ", ""),
        (">= 2", ">= 1"),
        (
            "unless on (store, job_name) store_job_name:shedlock_job_last_success_timestamp_seconds:newest\n",
            "",
        ),
        (
            "shedlock_job_end_unknown:newest == 1",
            "shedlock_job_end_unknown:newest == 0",
        ),
        (
            "{reason=~\"held|not_started\"}) >= 3",
            "{reason=~\"held|not_started\"}) >= 2",
        ),
        ("held|not_started", "held|not_started|elsewhere"),
        ("held|not_started", "held|not_started|paused"),
        ("held|not_started", "held"),
        (
            "shedlock_job_missed_slots and on (instance, job, store) shedlock_read_timestamp_seconds:newest",
            "shedlock_job_missed_slots",
        ),
        (
            "unless on (store, job_name) store_job_name:shedlock_job_paused:newest == 1\n        for: 10m",
            "for: 10m",
        ),
        (
            "> 3 * quantile_over_time(0.5,",
            "> 2 * quantile_over_time(0.5,",
        ),
        ("quantile_over_time(0.5,", "min_over_time("),
        (
            "last_duration_seconds:newest >= 60",
            "last_duration_seconds:newest >= 50",
        ),
        ("for: 24h", "for: 20h"),
        ("time() + 60", "time() + 6000"),
        (
            "shedlock_read_timestamp_seconds > time() + 60\n              and ",
            "",
        ),
        (" and changes(shedlock_read_timestamp_seconds[10m]) > 0", ""),
        (
            "== on (store) group_left () store:shedlock_read_timestamp_seconds:newest",
            "",
        ),
        (
            "shedlock_job_deadline_timestamp_seconds and on (instance, job, store)",
            "shedlock_job_deadline_timestamp_seconds or on (instance, job, store)",
        ),
        ("max by (store) (", "max by () ("),
        (
            "            unless on (store, job_name) store_job_name:shedlock_job_deadline_timestamp_seconds:newest\n",
            "",
        ),
        (
            "          unless on (store, job_name) store_job_name:shedlock_job_forgotten_timestamp_seconds:newest\n",
            "",
        ),
        (
            "last_over_time(store_job_name:shedlock_job_forgotten_timestamp_seconds:newest[1d])",
            "store_job_name:shedlock_job_forgotten_timestamp_seconds:newest",
        ),
        (
            "max_over_time(store_job_name:shedlock_job_lock_lost:newest[1h])",
            "store_job_name:shedlock_job_lock_lost:newest",
        ),
        ("or absent_over_time(shedlock_store_up[1d])", ""),
        ("unless on (job) group by (job) (shedlock_store_up)", ""),
        ("[^/]*\"}", ".*\"}"),
        ("shedlock_store_up == 0", "shedlock_store_up == 1"),
        ("shedlock_journal_up == 0", "shedlock_journal_up == 1"),
        (
            "shedlock_journal_dropped_total[15m]",
            "shedlock_journal_dropped_total[1m]",
        ),
    ] {
        let changed = rules.replacen(what, instead, 1);
        assert_ne!(changed, rules, "{what}");
        let folder = TempDir::new().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("shedlock.rules.yml"), changed).unwrap();
        let tests = if what == "for: 24h" { &tests } else { &short };
        fs::write(file("shedlock.test.yml"), tests).unwrap();
        let tests = file("shedlock.test.yml");
        let (passed, said) = promtool(&["test", "rules", tests.to_str().unwrap()], "");
        assert!(!passed && said.contains("FAILED"), "{what}: {said}");
    }
}

/// The titles of the dashboard's panels, each with its queries.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let queries = panels.flat_map(|panel| {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().unwrap().iter();
        // As Grafana has it when all stores and jobs are chosen.
        let queries = targets.map(|it| {
            let query = it["expr"].as_str().unwrap();
            query.replace("$store", ".*").replace("$job_name", ".*")
        });
        queries.map(|query| (title.to_owned(), query))
    });
    queries.collect()
}

#[test]
fn the_queries_of_the_dashboard_are_valid() {
    let queries = queries();
    assert!(queries.len() > 10);
    let rule = |(at, (_, query)): (usize, &(String, String))| json!({"record": format!("x{at}"), "expr": query});
    let rules: Vec<Value> = queries.iter().enumerate().map(rule).collect();
    // JSON is YAML.
    let rules = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("rules.yml");
    fs::write(&file, rules.to_string()).unwrap();
    let (passed, said) = promtool(&["check", "rules", file.to_str().unwrap()], "");
    assert!(passed && said.contains("SUCCESS"), "{said}");
}

/// What each panel shows in each state of the store: what is not known is no zero.
#[test]
fn the_dashboard_shows_no_zero_for_what_it_does_not_know() {
    let queries = queries();
    let series = |name: &str, values: &str| json!({"series": name, "values": values});
    let late = [
        series("shedlock_read_timestamp_seconds", "0+60x5 _x20"),
        series(
            "shedlock_job_deadline_timestamp_seconds{job_name=\"late\"}",
            "60x5 _x20",
        ),
        series("shedlock_job_paused{job_name=\"late\"}", "0x5 _x20"),
    ];
    let down = [
        series("shedlock_store_up", "1x5 0x20"),
        series("shedlock_journal_up", "1x5 _x20"),
    ];
    let up = series("shedlock_store_up", "1x25");
    let journal = |values| vec![up.clone(), series("shedlock_journal_up", values)];
    let unreadable = "Exporters that cannot read the store";
    let counts = [
        "Overdue jobs",
        "Jobs that miss slots",
        "Jobs whose latest run failed",
        "Unverified jobs",
        "Paused jobs",
        unreadable,
    ];
    let all_zero: Vec<_> = counts.iter().map(|title| (*title, 0)).collect();
    let states = [
        ("nothing reports", vec![], vec![]),
        ("the store is down", down.to_vec(), vec![(unreadable, 1)]),
        (
            "the store is down, and a job was late",
            [&down[..], &late].concat(),
            vec![(unreadable, 1), ("Overdue jobs", 1)],
        ),
        ("no journal", vec![up.clone()], vec![(unreadable, 0)]),
        (
            "the journal is down",
            journal("0x25"),
            vec![(unreadable, 0)],
        ),
        ("no jobs", journal("1x25"), all_zero),
    ];
    let test = |(name, input, shown): &(&str, Vec<Value>, Vec<(&str, i32)>)| {
        let exprs = queries.iter().map(|(title, query)| {
            let shown = shown.iter().filter(|(panel, _)| panel == title);
            let samples = shown.map(|(_, value)| json!({"labels": "{}", "value": value}));
            let samples: Vec<_> = samples.collect();
            json!({"expr": query, "eval_time": "20m", "exp_samples": samples})
        });
        let exprs: Vec<_> = exprs.collect();
        json!({"name": name, "interval": "1m", "input_series": input, "promql_expr_test": exprs})
    };
    let tests: Vec<_> = states.iter().map(test).collect();
    let rules = format!("{FOLDER}/shedlock.rules.yml");
    let tests = json!({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests});
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("dashboard.test.yml");
    fs::write(&file, tests.to_string()).unwrap();
    let (passed, said) = promtool(&["test", "rules", file.to_str().unwrap()], "");
    assert!(passed && said.contains("SUCCESS"), "{said}");
}

/// The names of our metrics in a text. In a recorded name they follow a colon.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words.filter(|word| word.starts_with("shedlock_")).collect()
}

#[tokio::test]
async fn rules_dashboard_and_page_name_only_metrics_that_exist() {
    let (page, exported) = (read("README.md"), odd_metrics().await);
    let known = names(&page);
    assert_eq!(known, names(&exported), "the page lists all of them");
    for file in ["shedlock.rules.yml", "shedlock.test.yml", "grafana.json"] {
        let text = read(file);
        let unknown: Vec<_> = names(&text).difference(&known).copied().collect();
        assert_eq!(unknown, Vec::<&str>::new(), "{file}");
    }
}

#[tokio::test]
async fn prometheus_accepts_the_metrics_whatever_the_jobs_are_called() {
    let text = odd_metrics().await;
    let deadline = "shedlock_job_deadline_timestamp_seconds{job_name=\"a\\\\b\",store=\"";
    let deadline = text
        .lines()
        .find(|line| line.starts_with(deadline))
        .unwrap();
    assert!(deadline.ends_with("\"} 1800000000.123456"), "{deadline}");
    let (passed, said) = promtool(&["check", "metrics"], &text);
    assert!(passed && said.is_empty(), "{said}\n{text}");
    let (passed, _) = promtool(&["check", "metrics"], "x{a=\"\n\"} 1\n");
    assert!(!passed, "it checks");
}

/// The metrics of jobs with unusual names, one of which has failed.
async fn odd_metrics() -> String {
    let journal = Arc::new(MemoryJournal::new());
    let writer = JournalWriter::new(journal.clone());
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    let names = [
        "a", "a\\b", "\"", "{}", "ü", "\u{202e}", "a\\", "\\n", " x ",
    ];
    for name in names {
        let config = LockConfig::new(name).lock_at_most_for("10m");
        let ran = executor.execute(&config, async {}).await.unwrap();
        assert!(ran.is_executed());
        let next = |_| Some(UNIX_EPOCH + Duration::from_micros(1_800_000_000_123_456));
        writer.register(JobRegistration::new(name, "x", next));
    }
    // No lock can have such a name.
    writer.register(JobRegistration::new("a\nb", "x", |_| Some(UNIX_EPOCH)));
    let failing = LockConfig::new("failing").lock_at_most_for("10m");
    let failed = executor.try_execute(&failing, async { Err::<(), _>("no paper") });
    assert!(failed.await.unwrap().is_executed());
    let alice = Actor::Claimed("alice@web-1".to_owned());
    let removal = AuditRecord::new(
        SystemClock.system_time(),
        1,
        alice,
        AuditRecord::FORGET,
        "removed",
    );
    writer.audit(removal);
    assert_eq!(writer.flush(Duration::from_secs(60)).await, 0);
    let jobs = journal.jobs(&JobsRequest::new()).await.unwrap();
    assert_eq!(jobs.len(), names.len() + 2);
    let config = LockConfig::new("held").lock_at_most_for("10m");
    let held = executor.lock(&config).await.unwrap();
    let hourly = |_: &_, after| Some(after + Duration::from_secs(3_600));
    let metrics = JobMetrics::of(&executor).schedules(hourly);
    let text = metrics.read().await.into_text();
    drop(held);
    text
}

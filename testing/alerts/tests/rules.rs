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
    Executor, JobMetrics, JobRegistration, JobsRequest, Journal as _, JournalWriter, LockConfig,
    MemoryJournal, MemoryProvider,
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
    let rules = read("shedlock.rules.yml");
    for (what, instead) in [
        (
            "time() > last_over_time(job_name:shedlock_job_deadline_timestamp_seconds:max[1d])",
            "time() > job_name:shedlock_job_deadline_timestamp_seconds:max",
        ),
        (
            "unless on (job_name) last_over_time(job_name:shedlock_job_paused:max[1d]) == 1",
            "",
        ),
        (
            "last_over_time(job_name:shedlock_job_paused:max[1d])",
            "max by (job_name) (last_over_time(shedlock_job_paused[1d]))",
        ),
        (">= 2", ">= 1"),
        (
            "unless on (job_name) job_name:shedlock_job_last_success_timestamp_seconds:max\n",
            "",
        ),
        (
            "shedlock_job_end_unknown:max == 1",
            "shedlock_job_end_unknown:max == 0",
        ),
        ("for: 24h", "for: 20h"),
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
        fs::write(file("shedlock.test.yml"), read("shedlock.test.yml")).unwrap();
        let tests = file("shedlock.test.yml");
        let (passed, said) = promtool(&["test", "rules", tests.to_str().unwrap()], "");
        assert!(!passed && said.contains("FAILED"), "{what}: {said}");
    }
}

#[test]
fn the_queries_of_the_dashboard_are_valid() {
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let rule =
        |(at, target): (usize, &Value)| json!({"record": format!("x{at}"), "expr": target["expr"]});
    let rules: Vec<Value> = targets.enumerate().map(rule).collect();
    assert!(rules.len() > 10);
    // JSON is YAML.
    let rules = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("rules.yml");
    fs::write(&file, rules.to_string()).unwrap();
    let (passed, said) = promtool(&["check", "rules", file.to_str().unwrap()], "");
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
    let deadline =
        "shedlock_job_deadline_timestamp_seconds{job_name=\"a\\\\b\"} 1800000000.123456\n";
    assert!(text.contains(deadline), "{text}");
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

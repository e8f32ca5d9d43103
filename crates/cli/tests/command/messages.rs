//! The lines on stderr, for people and as JSON, and errors with `--output json`.

use std::process::Command;

use serde_json::Value;
use sqlx::Connection;

use super::common::{Done, Sandbox, done, end, keys};

const RUN: [&str; 6] = ["run", "-n", "a", "--lock-at-most-for", "1m", "--"];

/// Every line as an object, with the keys that all lines have.
fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}"));
        let time = line["time"].as_str().unwrap();
        time.parse::<jiff::Timestamp>().unwrap();
        assert_eq!(
            keys(&line),
            ["fields", "level", "message", "target", "time"],
            "{line}"
        );
        assert!(line["fields"].is_object(), "{line}");
        line
    });
    lines.collect()
}

fn in_json(command: &mut Command) -> (Done, Vec<Value>) {
    let done = done(command.env("SHEDLOCK_LOG_FORMAT", "json"));
    let lines = lines(&done.stderr);
    (done, lines)
}

#[test]
fn stderr_has_one_style() {
    let sandbox = Sandbox::new();
    for verbosity in ["-v", "-vv", "-vvv"] {
        let run = done(sandbox.shedlock(&[verbosity]).args(RUN).arg("true"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(!run.stderr.is_empty());
        for line in run.stderr.lines() {
            let rest = line
                .strip_prefix("shedlock: ")
                .unwrap_or_else(|| panic!("{line}"));
            let time = rest.split(' ').next().unwrap();
            assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line}");
        }
    }
    // A warning of the library.
    let store = format!("{}?time=client", sandbox.store());
    let run = done(sandbox.bare(&RUN).arg("true").env("SHEDLOCK_STORE", &store));
    for line in run.stderr.lines() {
        assert!(line.starts_with("shedlock: warning: "), "{}", run.stderr);
    }
    for wrong in [
        &["list", "--nonsense"][..],
        &["run", "--name"],
        &["nonsense"],
    ] {
        let refused = done(&mut sandbox.shedlock(wrong));
        assert_eq!(refused.code, 2);
        assert!(
            refused.stderr.starts_with("shedlock: "),
            "{}",
            refused.stderr
        );
        assert!(!refused.stderr.contains("error: "), "{}", refused.stderr);
    }
}

#[test]
fn what_happens_to_the_lock_is_no_debug_message_with_one_v() {
    let sandbox = Sandbox::new();
    let run = done(sandbox.shedlock(&["-v"]).args(RUN).arg("true"));
    let lines: Vec<_> = run
        .stderr
        .lines()
        .map(|line| line.splitn(3, ' ').nth(2).unwrap())
        .collect();
    assert!(
        lines[0].starts_with("lock acquired [lock=a owner="),
        "{lines:?}"
    );
    assert_eq!(lines[1..], ["lock released [lock=a]"]);
    let run = done(sandbox.shedlock(&["-vv"]).args(RUN).arg("true"));
    let said = "debug: shedlock_core::runtime::release: lock released [lock=a]";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}

#[test]
fn every_line_is_an_object_with_the_json_log_format() {
    let sandbox = Sandbox::new();
    let (_, lines) = in_json(sandbox.bare(&RUN).arg("true"));
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["level"], "info");
    assert_eq!(lines[0]["target"], "shedlock");
    let (_, lines) = in_json(
        sandbox
            .shedlock(&["show", "a", "--store", "wrong://u:geheim@h"])
            .arg("-v"),
    );
    assert_eq!(lines[0]["level"], "error");
    assert!(
        lines[0]["message"]
            .as_str()
            .unwrap()
            .starts_with("--store: unknown")
    );
    let typed = done(
        sandbox
            .shedlock(&["--log-format", "json", "-vvv"])
            .args(RUN)
            .arg("true"),
    );
    let typed = self::lines(&typed.stderr);
    assert!(
        typed
            .iter()
            .any(|line| line["level"] == "trace" || line["level"] == "debug")
    );
    let owned = typed.iter().find(|line| line["fields"]["lock"] == "a");
    assert!(owned.is_some(), "{typed:?}");
    // The variable does not reach further than the option.
    let (text, _) = (
        done(
            sandbox
                .shedlock(&["list", "--nonsense", "--log-format=text"])
                .env("SHEDLOCK_LOG_FORMAT", "json"),
        ),
        (),
    );
    assert!(
        text.stderr.starts_with("shedlock: unexpected"),
        "{}",
        text.stderr
    );
}

#[test]
fn usage_errors_are_objects_too() {
    let sandbox = Sandbox::new();
    for wrong in [
        &["list", "--nonsense"][..],
        &["run", "-n", "a", "--lock-at-most-for", "x", "--", "y"],
        &["nonsense"],
        &[],
        &["run", "postgres://u:geheim@h/d"],
    ] {
        let (refused, lines) = in_json(&mut sandbox.shedlock(wrong));
        assert_eq!((refused.code, lines.len()), (2, 1), "{wrong:?}");
        assert!(!refused.stderr.contains("geheim"), "{}", refused.stderr);
        assert_eq!(lines[0]["level"], "error");
    }
    let refused = done(
        sandbox
            .shedlock(&["list"])
            .env("SHEDLOCK_LOG_FORMAT", "xml"),
    );
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("'SHEDLOCK_LOG_FORMAT'"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_watchdog_has_the_same_log_format() {
    let sandbox = Sandbox::new();
    let script = "echo $$ > pids; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 60";
    let run = sandbox
        .run_with("a", "60s", &["--log-format", "json"], script)
        .spawn()
        .unwrap();
    let killed = end(run);
    let lines = lines(&killed.stderr);
    assert_eq!(lines.len(), 1, "{}", killed.stderr);
    assert!(lines[0]["message"].as_str().unwrap().contains("was killed"));
}

#[test]
fn an_error_is_an_object_on_stdout_with_json_output() {
    let sandbox = Sandbox::new();
    let commands: [&[&str]; 8] = [
        &["list"],
        &["show", "a"],
        &["pause", "a", "--reason", "x", "--wait", "0s"],
        &["resume", "a"],
        &["unlock", "--force", "a"],
        &["slot", "reset", "a"],
        &["prune", "--idle-for", "90d"],
        &["migrate"],
    ];
    for command in commands {
        for (store, kind, code) in [
            ("postgres://u:geheim@127.0.0.1:1/d", "store", 69),
            ("wrong://u:geheim@h", "usage", 2),
        ] {
            let failed = done(
                sandbox
                    .bare(command)
                    .args(["-o", "json"])
                    .env("SHEDLOCK_STORE", store),
            );
            assert_eq!(failed.code, code, "{command:?}");
            let json: Value = serde_json::from_str(&failed.stdout).unwrap();
            assert_eq!(json["version"], 1);
            assert_eq!(json["error"]["kind"], kind);
            assert_eq!(json["error"]["exit_code"], code);
            let message = json["error"]["message"].as_str().unwrap();
            assert_eq!(failed.stderr, format!("shedlock: {message}\n"));
            assert!(!message.contains("geheim"), "{message}");
        }
        for json_output in [
            &["-o", "json"][..],
            &["-ojson"],
            &["--output=json"],
            &["--output", "json"],
        ] {
            let failed = done(
                sandbox
                    .shedlock(command)
                    .args(["--nonsense"])
                    .args(json_output),
            );
            assert_eq!(failed.code, 2);
            let json: Value = serde_json::from_str(&failed.stdout).unwrap();
            assert_eq!(json["error"]["kind"], "usage");
            let message = json["error"]["message"].as_str().unwrap();
            assert!(
                message.starts_with("unexpected argument '--nonsense' found"),
                "{message}"
            );
        }
        let failed = done(sandbox.shedlock(command).arg("--nonsense"));
        assert_eq!(failed.stdout, "");
    }
    let command = ["run", "-n", "a", "--nonsense", "--", "x", "-o", "json"];
    assert_eq!(done(&mut sandbox.shedlock(&command)).stdout, "");
}

#[test]
fn a_failed_unlock_is_reported_once() {
    let sandbox = Sandbox::migrated();
    let script = "echo x > up; while [ ! -e go ]; do sleep 0.02; done";
    let run = sandbox.run("a", "60s", script).spawn().unwrap();
    sandbox.await_lines("up", 1);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = sandbox.store();
        let mut connection = sqlx::SqliteConnection::connect(&store).await.unwrap();
        let away = sqlx::query("ALTER TABLE shedlock RENAME TO away");
        away.execute(&mut connection).await.unwrap();
    });
    std::fs::write(sandbox.path("go"), "").unwrap();
    let ended = end(run);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("stays taken until"),
        "{}",
        ended.stderr
    );
}

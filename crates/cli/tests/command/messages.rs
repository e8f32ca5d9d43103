//! What all lines on stderr have in common, those of the watchdog too, and errors with `--output json` of each command.
//! `transcripts/messages.md` shows them.

use serde_json::Value;

use super::common::{Sandbox, done, end, keys};

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

/// Stderr has one style.
#[test]
fn style() {
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

/// Every line is an object with the JSON log format, however much is logged.
#[test]
fn json() {
    let sandbox = Sandbox::new();
    let typed = done(
        sandbox
            .shedlock(&["--log-format", "json", "-vvv"])
            .args(RUN)
            .arg("true"),
    );
    let typed = lines(&typed.stderr);
    assert!(
        typed
            .iter()
            .any(|line| line["level"] == "trace" || line["level"] == "debug")
    );
    let owned = typed.iter().find(|line| line["fields"]["lock"] == "a");
    assert!(owned.is_some(), "{typed:?}");
}

/// The watchdog has the same log format.
#[test]
fn watchdog() {
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

/// An error is an object on stdout with JSON output.
#[test]
fn json_output() {
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

/// Advice is put into the words of the command, and names and paths are left alone, whatever they look like.
#[test]
fn what_a_user_has_chosen_is_printed_as_it_is() {
    let sandbox = Sandbox::new();
    let name = "raise lock_at_most_for; retry";
    let slept = "echo x > up; until [ -e go ]; do sleep 0.05; done";
    let running = sandbox.run_with(name, "1m", &[], slept).spawn().unwrap();
    sandbox.await_lines("up", 1);
    let too_long = ["extend", name, "--for", "999999d"];
    let refused = done(&mut sandbox.shedlock(&too_long));
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(running).code, 0);
    let start = format!("shedlock: lock {name:?} in sqlite");
    assert!(refused.stderr.starts_with(&start), "{}", refused.stderr);

    let file = sandbox.path("a; b");
    let store = format!(
        "consuls://127.0.0.1:1/?tls_ca={}",
        file.display().to_string().replace("; ", "%3B%20")
    );
    let unread = done(&mut sandbox.bare(&["list", "--store", &store]));
    let said = format!("cannot read file {file:?} of option \"tls_ca\" in the URL: No such file");
    assert!(unread.stderr.contains(&said), "{}", unread.stderr);
}

//! The list that is printed again and again. `transcripts/list.md` has the others.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::common::{Sandbox, end, eventually, signal, sql};
use rustix::process::Signal;

/// Four locks: their name, when they are free, when they were acquired, and their token.
fn filled() -> Sandbox {
    let sandbox = Sandbox::migrated();
    sql(
        &sandbox,
        "INSERT INTO shedlock (name, lock_until, locked_at, locked_by, shedlock_fencing_token) VALUES
            ('expire-b', 4102444800000, 1700000000000, 'b/1/ff', 3),
            ('expire-a', 4102444900000, 1700000001000, 'a/1/ff', 1),
            ('payroll', 1000, 1600000000000, 'c/1/ff', 2),
            ('never', 0, 0, 'java', NULL)",
    );
    sandbox
}

/// A watched list survives a store that fails, and ends with its reader.
#[test]
fn store_fails() {
    let sandbox = filled();
    let mut watch = sandbox
        .shedlock(&["list", "--watch", "10ms", "--held"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut await_line = |start: &str| {
        let found = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with(start)));
        assert!(found.is_some(), "{start}");
    };
    await_line("20");
    await_line("expire-a  held");
    sql(&sandbox, "ALTER TABLE shedlock RENAME TO away");
    let mut errors = BufReader::new(watch.stderr.take().unwrap()).lines();
    let said = errors.next().unwrap().unwrap();
    assert!(said.starts_with("shedlock: sqlite: "), "{said}");
    assert!(said.ends_with("; trying again every 10ms"), "{said}");
    sql(&sandbox, "ALTER TABLE away RENAME TO shedlock");
    sql(
        &sandbox,
        "UPDATE shedlock SET lock_until = 4102444800000 WHERE name = 'payroll'",
    );
    await_line("payroll   held");
    drop(lines);
    drop(errors);
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

/// A watched list does not advise what it does itself.
#[test]
fn advice() {
    let store = "postgres://u@127.0.0.1:1/d";
    let mut watch = Sandbox::new()
        .bare(&["list", "--watch", "10s", "--store", store])
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(watch.stderr.take().unwrap()).lines();
    let said = errors.next().unwrap().unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(
        said.ends_with("the host and the port in the URL are right; trying again every 10s"),
        "{said}"
    );
}

/// A watched list is redrawn on a terminal until Ctrl-C.
#[test]
fn redrawn() {
    let sandbox = filled();
    let exe = env!("CARGO_BIN_EXE_shedlock");
    let line =
        format!("stty cols 80 rows 5; echo $$ > pid; exec {exe} list --watch 20ms > /dev/tty");
    let mut terminal = Command::new("script")
        .args(["-qefc", &line, "shown"])
        .current_dir(sandbox.path(""))
        .env("SHEDLOCK_STORE", sandbox.store())
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("three pictures", || {
        sandbox.read("shown").matches("\x1b[H").count() >= 3
    });
    let shown = sandbox.read("shown");
    let picture = shown.split("\x1b[H").nth(1).unwrap();
    assert_eq!(
        picture
            .lines()
            .filter(|line| line.contains("\x1b[K"))
            .count(),
        4,
        "{picture:?}"
    );
    assert!(picture.contains("every 20ms"), "{picture:?}");
    assert!(picture.contains("… 3 more"), "{picture:?}");
    signal(sandbox.pids("pid")[0], Signal::INT);
    assert!(terminal.wait().is_ok());
}

/// A watched list in JSON is one object after another.
#[test]
fn json() {
    let sandbox = filled();
    let mut watch = sandbox
        .shedlock(&["list", "--watch", "10ms", "-o", "json"])
        .spawn()
        .unwrap();
    let stdout = watch.stdout.take().unwrap();
    let frames = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
    for frame in frames.take(3) {
        assert_eq!(frame.unwrap()["locks"].as_array().unwrap().len(), 4);
    }
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

/// An interval that is left out is not taken from the option that follows.
#[test]
fn without_an_interval_before_another_option() {
    let sandbox = filled();
    let store = sandbox.store();
    for options in [
        &["--store", &store][..],
        &["--state", "held"],
        &["--held"],
        &["-o", "table"],
    ] {
        let mut command = sandbox.shedlock(&["list", "--watch"]);
        let mut watch = command.args(options).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(watch.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        watch.kill().unwrap();
        let ended = end(watch);
        assert!(
            line.ends_with(", every 2s\n"),
            "{options:?}: {line:?} {}",
            ended.stderr
        );
    }
}

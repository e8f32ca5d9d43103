//! Pausing a job, and resuming it.

use std::process::Child;
use std::time::Duration;

use serde_json::Value;

use super::common::{Done, Sandbox, done, end, eventually, pause as rest, signal, sql};
use rustix::process::Signal;

fn paused(sandbox: &Sandbox, arguments: &[&str]) -> Done {
    let mut command = sandbox.shedlock(&["pause"]);
    done(command.args(arguments).env("USER", "alice"))
}

fn resumed(sandbox: &Sandbox, arguments: &[&str]) -> Done {
    let mut command = sandbox.shedlock(&["resume"]);
    done(command.args(arguments).env("USER", "bob"))
}

fn runs(sandbox: &Sandbox, name: &str) -> bool {
    let ran = done(&mut sandbox.run(name, "60s", "echo ran >> ran"));
    assert_eq!(ran.code, 0, "{ran:?}");
    !ran.stderr.contains("skipped")
}

/// A task under the lock `mail` that runs until the file `go` exists.
fn running_until_go(sandbox: &Sandbox) -> Child {
    let script = "echo up > up; until [ -e go ]; do sleep 0.02; done";
    let running = sandbox.run("mail", "60s", script).spawn().unwrap();
    sandbox.await_lines("up", 1);
    running
}

#[test]
fn a_paused_job_is_skipped_with_who_and_why_until_it_is_resumed() {
    let sandbox = Sandbox::new();
    assert!(runs(&sandbox, "mail"));
    let answer = paused(&sandbox, &["mail", "--reason", "the mail server is down"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.stdout.starts_with("mail: paused by alice@"),
        "{answer:?}"
    );
    assert!(
        answer
            .stdout
            .contains("(the mail server is down) until it is resumed"),
        "{answer:?}"
    );

    let skipped = done(&mut sandbox.run("mail", "60s", "echo ran >> ran"));
    assert_eq!((skipped.code, sandbox.read("ran").lines().count()), (0, 1));
    assert!(
        skipped.stderr.contains("skipped: paused by alice@"),
        "{skipped:?}"
    );
    assert!(
        skipped.stderr.contains("the mail server is down"),
        "{skipped:?}"
    );

    let shown = done(&mut sandbox.shedlock(&["show", "mail"]));
    assert!(
        shown.stdout.contains("state           paused:"),
        "{shown:?}"
    );
    assert!(shown.stdout.contains("paused by       alice@"), "{shown:?}");
    assert!(
        shown
            .stdout
            .contains("reason          the mail server is down"),
        "{shown:?}"
    );
    let listed = done(&mut sandbox.shedlock(&["list", "--state", "paused"]));
    assert!(listed.stdout.contains("mail  paused"), "{listed:?}");
    let forced = done(&mut sandbox.shedlock(&["unlock", "mail", "--force"]));
    assert_eq!(forced.code, 1, "{forced:?}");
    assert!(
        forced.stderr.contains("run `shedlock resume mail`"),
        "{forced:?}"
    );

    let answer = resumed(&sandbox, &["mail"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.stdout.starts_with("mail: resumed by bob@"),
        "{answer:?}"
    );
    assert!(runs(&sandbox, "mail"));
    let again = resumed(&sandbox, &["mail"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(
        again
            .stderr
            .contains("mail: not resumed: it is not paused; it is free"),
        "{again:?}"
    );
}

#[test]
fn a_pause_waits_for_the_running_task_and_leaves_it_alone() {
    let sandbox = Sandbox::new();
    let running = running_until_go(&sandbox);
    let refused = paused(&sandbox, &["mail", "--wait", "0s"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("mail: not paused: held by "),
        "{refused:?}"
    );
    assert!(refused.stdout.is_empty(), "{refused:?}");

    let waiting = sandbox
        .shedlock(&["pause", "mail", "--for", "1h"])
        .spawn()
        .unwrap();
    rest(Duration::from_millis(300));
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(running).code, 0);
    let answer = end(waiting);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        !answer.stdout.contains("resumed"),
        "it has an end: {answer:?}"
    );
    assert!(!runs(&sandbox, "mail"));
}

#[test]
fn a_pause_with_now_stops_a_task_that_extends_its_lease() {
    let sandbox = Sandbox::new();
    let script = "echo up > up; sleep 60";
    let running = sandbox.run_with("mail", "9s", &["--keep-alive"], script);
    let running = { running }.spawn().unwrap();
    sandbox.await_lines("up", 1);
    let answer = paused(&sandbox, &["mail", "--now"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.stdout.contains("whose task may still be running"),
        "{answer:?}"
    );
    let ended = end(running);
    assert_eq!(ended.code, 75, "{ended:?}");
    assert!(!runs(&sandbox, "mail"), "the pause outlives the task");
}

#[test]
fn patterns_pause_and_resume_the_locks_that_match() {
    let sandbox = Sandbox::new();
    for name in ["expire-a", "expire-b", "report"] {
        assert!(runs(&sandbox, name));
    }
    let answer = paused(&sandbox, &["expire-*", "-o", "json", "--reason", "audit"]);
    let json: Value = serde_json::from_str(&answer.stdout).unwrap();
    let names: Vec<_> = json["paused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["expire-a", "expire-b"], "{json}");
    assert_eq!(json["paused"][0]["reason"], "audit", "{json}");
    assert_eq!(json["paused"][0]["before"]["state"], "free", "{json}");
    assert!(runs(&sandbox, "report"));
    assert!(!runs(&sandbox, "expire-a"));

    let missing = paused(&sandbox, &["nothing-*", "report"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.stdout.contains("report: paused"), "{missing:?}");
    assert!(
        missing.stderr.contains("matches \"nothing-*\""),
        "{missing:?}"
    );

    let answer = resumed(&sandbox, &["--all", "-o", "json"]);
    let json: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(json["resumed"].as_array().unwrap().len(), 3, "{json}");
    assert!(
        json["resumed_by"].as_str().unwrap().starts_with("bob@"),
        "{json}"
    );
    assert!(runs(&sandbox, "expire-a") && runs(&sandbox, "report"));
    let none = resumed(&sandbox, &["--all"]);
    assert_eq!(none.code, 1, "{none:?}");
}

#[test]
fn a_job_can_be_paused_before_its_first_run() {
    let sandbox = Sandbox::new();
    done(&mut sandbox.shedlock(&["migrate", "--no-journal"]));
    let unknown = paused(&sandbox, &["new"]);
    assert_eq!((unknown.code, &*unknown.stdout), (1, ""), "{unknown:?}");
    let said = format!(
        "shedlock: new: not paused: there is no such lock in {}; to see all, run `shedlock list`; to pause \
         a job before its first run, add --create\n",
        sandbox.store()
    );
    assert_eq!(unknown.stderr, said);
    assert!(sandbox.lock("new").is_null());
    assert_eq!(paused(&sandbox, &["new", "--create"]).code, 0);
    assert!(!runs(&sandbox, "new"));
    let until = "9999-01-01T00:00:00Z";
    let late = paused(&sandbox, &["new", "--until", until]);
    assert_eq!(late.code, 2, "{late:?}");
    assert!(
        late.stderr.contains("cannot pause a lock for longer than"),
        "{late:?}"
    );
    let past = paused(&sandbox, &["new", "--until", "2020-01-01T00:00:00Z"]);
    assert_eq!(past.code, 2, "{past:?}");
    assert!(
        past.stderr
            .contains("which is in the past by the store's clock"),
        "{past:?}"
    );
    for wrong in [
        &[][..],
        &["a", "--all"],
        &["a", "--now", "--wait", "1s"],
        &["a", "--for", "0s"],
    ] {
        assert_eq!(paused(&sandbox, wrong).code, 2, "{wrong:?}");
    }
}

/// A lock that was pruned is known by the runs of its job.
#[test]
fn a_name_that_only_the_journal_has_is_not_mistyped() {
    let sandbox = Sandbox::new();
    done(&mut sandbox.shedlock(&["migrate"]));
    assert!(runs(&sandbox, "mail"));
    sql(&sandbox, "DELETE FROM shedlock");
    let both = paused(&sandbox, &["mial", "mail"]);
    assert_eq!(both.code, 1, "{both:?}");
    assert!(
        both.stderr.starts_with("shedlock: mial: not paused: "),
        "{both:?}"
    );
    assert!(
        both.stdout.starts_with("mail: paused by alice@"),
        "{both:?}"
    );
    assert!(sandbox.lock("mial").is_null());
    let reset =
        done(&mut sandbox.shedlock(&["slot", "reset", "mial", "--to", "2026-01-01T00:00:00Z"]));
    assert_eq!(reset.code, 1, "{reset:?}");
    assert!(sandbox.lock("mial").is_null());
}

#[test]
fn a_pause_that_is_interrupted_while_it_waits_changes_nothing() {
    let sandbox = Sandbox::new();
    let running = running_until_go(&sandbox);
    let waiting = sandbox.shedlock(&["pause", "mail"]).spawn().unwrap();
    rest(Duration::from_millis(300));
    signal(waiting.id(), Signal::INT);
    let _ = end(waiting);
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(running).code, 0);
    eventually("the next run", || runs(&sandbox, "mail"));
}

/// A command that a message advises, with the words of a shell.
fn advised(text: &str, from: &str) -> Vec<String> {
    let start = text
        .find(from)
        .unwrap_or_else(|| panic!("{from:?} in {text:?}"));
    let command = &text[start + 1..];
    let command = &command[..command.find('`').unwrap()];
    command.split(' ').skip(1).map(str::to_owned).collect()
}

fn follow(sandbox: &Sandbox, text: &str, from: &str) -> Done {
    let command = advised(text, from);
    let words: Vec<_> = command.iter().map(String::as_str).collect();
    done(&mut sandbox.shedlock(&words))
}

#[test]
fn no_reason_makes_a_pause_look_like_a_lock_that_was_unlocked() {
    let sandbox = Sandbox::new();
    assert!(runs(&sandbox, "mail"));
    let reason = "until the accounting database is unlocked";
    let answer = paused(&sandbox, &["mail", "--reason", reason]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(sandbox.lock("mail")["state"], "paused");
    assert_eq!(sandbox.lock("mail")["pause_reason"], reason);
    assert!(!runs(&sandbox, "mail"));
    let forced = done(&mut sandbox.shedlock(&["unlock", "mail", "--force"]));
    assert_eq!(forced.code, 1, "{forced:?}");
    // The advice of the refusal.
    let answer = follow(&sandbox, &forced.stderr, "`shedlock resume");
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(runs(&sandbox, "mail"));
}

#[test]
fn at_least_survives_a_pause() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.run("mail", "60s", "echo ran >> ran");
    assert_eq!(done(run.env("SHEDLOCK_LOCK_AT_LEAST_FOR", "30s")).code, 0);
    assert_eq!(sandbox.lock("mail")["state"], "at-least");
    assert_eq!(paused(&sandbox, &["mail"]).code, 0);
    let answer = resumed(&sandbox, &["mail"]);
    assert!(answer.stdout.contains("it stays taken until"), "{answer:?}");
    assert_eq!(sandbox.lock("mail")["state"], "at-least");
    assert!(!runs(&sandbox, "mail"));
}

#[test]
fn slots_that_two_pauses_have_joined_run_as_advised() {
    let sandbox = Sandbox::new();
    assert!(runs(&sandbox, "mail"));
    assert_eq!(paused(&sandbox, &["mail"]).code, 0);
    assert_eq!(resumed(&sandbox, &["mail"]).code, 0);
    let free = sandbox.lock("mail");
    assert!(free["skipped_until"].is_string(), "{free}");
    let again = paused(&sandbox, &["mail", "--for", "1h"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stderr.contains("are skipped too"), "{again:?}");
    // The advice works while the lock is paused.
    let answer = follow(&sandbox, &again.stderr, "`shedlock resume");
    assert_eq!(answer.code, 0, "{answer:?}");
    let free = sandbox.lock("mail");
    assert!(
        free["skipped_from"].is_null() && free["state"] == "free",
        "{free}"
    );
    // There is nothing left to do.
    let answer = resumed(&sandbox, &["mail", "--catch-up"]);
    assert_eq!(answer.code, 1, "{answer:?}");
}

#[test]
fn the_slots_of_a_pause_that_is_over_can_still_be_run() {
    let sandbox = Sandbox::new();
    assert!(runs(&sandbox, "mail"));
    assert_eq!(paused(&sandbox, &["mail"]).code, 0);
    assert_eq!(resumed(&sandbox, &["mail"]).code, 0);
    assert_eq!(resumed(&sandbox, &["mail"]).code, 1, "it is not paused");
    let answer = resumed(&sandbox, &["mail", "--catch-up"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.stdout.contains("its pause was over"), "{answer:?}");
    assert!(sandbox.lock("mail")["skipped_from"].is_null());
}

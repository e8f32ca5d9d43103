//! The unlock after the command, if the store does not work.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr};

use rustix::process::Signal;
use sqlx::{Connection, Executor, SqliteConnection};

use super::common::{Sandbox, done, end, eventually, signal};

/// Another program that writes to the store's file, and so keeps every other writer out.
pub(crate) struct Writer {
    runtime: tokio::runtime::Runtime,
    connection: SqliteConnection,
}

impl Writer {
    pub(crate) fn of(sandbox: &Sandbox) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let connection = runtime.block_on(async {
            let mut connection = SqliteConnection::connect(&sandbox.store()).await.unwrap();
            connection.execute("BEGIN IMMEDIATE").await.unwrap();
            connection
        });
        Self {
            runtime,
            connection,
        }
    }

    pub(crate) fn end(mut self) {
        let rollback = self.connection.execute("ROLLBACK");
        self.runtime.block_on(rollback).unwrap();
    }
}

/// A command that ends with 5 when this returns, while the store can be read but not written.
fn ended_without_store(sandbox: &Sandbox) -> (Child, BufReader<ChildStderr>, Writer) {
    ended_without_store_of(sandbox, "10m", &[])
}

fn ended_without_store_of(
    sandbox: &Sandbox,
    lease: &str,
    options: &[&str],
) -> (Child, BufReader<ChildStderr>, Writer) {
    let store = format!("{}?busy_timeout=200ms", sandbox.store());
    let script = "echo x > up; until [ -e go ]; do sleep 0.05; done; exit 5";
    let mut child = sandbox
        .run_with("a", lease, options, script)
        .env("SHEDLOCK_STORE", store)
        .spawn()
        .unwrap();
    sandbox.await_lines("up", 1);
    let writer = Writer::of(sandbox);
    std::fs::write(sandbox.path("go"), "").unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    (child, stderr, writer)
}

fn line(stderr: &mut BufReader<ChildStderr>) -> String {
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    line
}

const RETRYING: &str = "shedlock: a: the command has ended; cannot release the lock yet, retrying \
                        for up to 10s: ";

#[test]
fn an_unlock_that_is_retried_is_not_silent() {
    let sandbox = Sandbox::new();
    let (child, mut stderr, writer) = ended_without_store(&sandbox);
    let first = line(&mut stderr);
    assert!(first.starts_with(RETRYING), "{first}");
    writer.end();
    assert_eq!(end(child).code, 5);
    assert_eq!(line(&mut stderr), "", "released: nothing more to report");
    assert_eq!(sandbox.lock("a")["state"], "free");
}

#[test]
fn an_unlock_that_fails_for_long_goes_on_in_the_background() {
    let sandbox = Sandbox::new();
    let (child, mut stderr, writer) = ended_without_store(&sandbox);
    let first = line(&mut stderr);
    assert!(first.starts_with(RETRYING), "{first}");
    let last = line(&mut stderr);
    assert!(
        last.starts_with("shedlock: a: the lock was not released: another"),
        "{last}"
    );
    let said = ": database is locked; gave up after 10s; this goes on in the background until the lease ends at 20";
    assert!(last.contains(said), "{last}");
    assert_eq!(end(child).code, 5);
    // No process keeps the pipe open.
    assert_eq!(line(&mut stderr), "");
    assert_eq!(sandbox.lock("a")["state"], "held");
    writer.end();
    eventually("a release", || sandbox.lock("a")["state"] == "free");
}

/// Its watchdog, which is let go, says nothing.
#[test]
fn an_unlock_that_fails_until_shortly_before_the_end_of_the_lease_is_given_up() {
    let sandbox = Sandbox::new();
    let (child, mut stderr, writer) = ended_without_store_of(&sandbox, "18s", &[]);
    let first = line(&mut stderr);
    assert!(first.starts_with(RETRYING), "{first}");
    let last = line(&mut stderr);
    let said = "; gave up after 10s; it becomes free by itself at 20";
    assert!(last.contains(said), "{last}");
    assert_eq!(end(child).code, 5);
    assert_eq!(line(&mut stderr), "");
    writer.end();
}

#[test]
fn so_does_that_of_a_run_that_was_killed() {
    let sandbox = Sandbox::new();
    let store = format!("{}?busy_timeout=200ms", sandbox.store());
    let mut child = sandbox
        .run_with("a", "10m", &[], "echo x > up; sleep 60")
        .env("SHEDLOCK_STORE", store)
        .spawn()
        .unwrap();
    sandbox.await_lines("up", 1);
    let writer = Writer::of(&sandbox);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    let said = line(&mut stderr);
    let start = "shedlock: a: `shedlock run` was killed; the watchdog stopped its command, but the \
                 lock was not released: ";
    assert!(said.starts_with(start), "{said}");
    let end = "; this goes on in the background until the lease ends at about 20";
    assert!(said.contains(end), "{said}");
    assert_eq!(line(&mut stderr), "");
    writer.end();
    eventually("a release", || sandbox.lock("a")["state"] == "free");
}

#[test]
fn a_signal_ends_an_unlock_that_is_retried() {
    let sandbox = Sandbox::new();
    let (child, mut stderr, writer) = ended_without_store(&sandbox);
    let first = line(&mut stderr);
    assert!(first.starts_with(RETRYING), "{first}");
    signal(child.id(), Signal::TERM);
    let last = line(&mut stderr);
    assert!(
        last.starts_with("shedlock: a: the lock was not released: another"),
        "{last}"
    );
    let said = ": database is locked; SIGTERM arrived; it stays taken until 20";
    assert!(last.contains(said), "{last}");
    assert_eq!(end(child).code, 5);
    writer.end();
    let freed = done(&mut sandbox.shedlock(&["unlock", "a", "--force"]));
    assert_eq!(freed.code, 0, "{}", freed.stderr);
}

#[test]
fn a_signal_during_the_unlock_is_followed_by_no_other_attempt() {
    let sandbox = Sandbox::new();
    let options = [
        "--schedule",
        "0 0 1 1 *",
        "--must-not-be-lost",
        "--retry-backoff",
        "1s",
    ];
    let (child, mut stderr, writer) = ended_without_store_of(&sandbox, "10m", &options);
    let first = line(&mut stderr);
    assert!(first.starts_with(RETRYING), "{first}");
    signal(child.id(), Signal::TERM);
    let last = line(&mut stderr);
    assert!(last.contains("SIGTERM arrived"), "{last}");
    writer.end();
    assert_eq!(end(child).code, 5);
    assert_eq!(sandbox.lock("a")["slot_attempts"], 1);
}

#[test]
fn the_advice_does_not_free_the_lock_of_the_next_holder() {
    let sandbox = Sandbox::new();
    let (child, mut stderr, writer) = ended_without_store(&sandbox);
    line(&mut stderr);
    signal(child.id(), Signal::TERM);
    let last = line(&mut stderr);
    end(child);
    writer.end();
    let advice = last.split('`').nth(1).unwrap();
    let words: Vec<_> = advice.split(' ').skip(1).collect();
    assert_eq!(words[..4], ["unlock", "a", "--force", "--owner"], "{last}");
    // Followed while it is true, and again after another run has taken the lock.
    let freed = done(&mut sandbox.shedlock(&words));
    assert_eq!(freed.code, 0, "{}", freed.stderr);
    let mut next = sandbox.run("a", "10m", "echo x > next; sleep 60");
    let mut next = next.spawn().unwrap();
    sandbox.await_lines("next", 1);
    let late = done(&mut sandbox.shedlock(&words));
    assert_eq!(late.code, 1, "{}", late.stderr);
    assert_eq!(sandbox.lock("a")["state"], "held");
    signal(next.id(), Signal::TERM);
    next.wait().unwrap();
}

#[test]
fn a_lease_that_ends_soon_is_retried_until_then_and_advises_nothing() {
    let sandbox = Sandbox::new();
    let (child, mut stderr, writer) = ended_without_store_of(&sandbox, "9s", &[]);
    let first = line(&mut stderr);
    let start = "shedlock: a: the command has ended; cannot release the lock yet, retrying until the \
                 lease ends at 20";
    assert!(first.starts_with(start), "{first}");
    let last = line(&mut stderr);
    assert_eq!(end(child).code, 5);
    writer.end();
    let start = "shedlock: a: the lock was not released";
    assert!(last.starts_with(start), "{last}");
    assert!(
        last.contains("; it becomes free by itself at 20")
            || last.contains("; its lease has ended by itself, at 20"),
        "{last}"
    );
    assert!(!last.contains("unlock"), "{last}");
}

#[test]
fn a_failed_release_is_not_repeated_in_the_words_of_the_library() {
    let sandbox = Sandbox::new();
    let (child, mut stderr, writer) = ended_without_store_of(&sandbox, "10m", &["-v"]);
    let lines = std::iter::from_fn(|| Some(line(&mut stderr)));
    let mut lines = lines.skip_while(|line| !line.contains("cannot release the lock yet"));
    lines.next();
    signal(child.id(), Signal::TERM);
    let last = lines.next().unwrap();
    assert!(last.contains(" a: the lock was not released: "), "{last}");
    let after = lines.next().unwrap();
    assert_eq!(after, "", "{after}");
    end(child);
    writer.end();
}

//! Whichever way a run ends, its folder and its entry in the cache are gone.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of a test fail as the test does"
)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the cleanup may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// `servers up` for a store without a server. The folder and the guard are the same.
struct Run {
    process: Child,
    entry: PathBuf,
    folder: PathBuf,
}

impl Run {
    fn start(cache: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["servers", "up", "--store", "sqlite"])
            .env("SHEDLOCK_CACHE", cache)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
        assert!(lines.map(Result::unwrap).any(|line| line == "# ready"));
        let entries = entries(cache);
        let [entry] = &entries[..] else {
            panic!("one entry, not {entries:?}")
        };
        let folder = PathBuf::from(fs::read_to_string(entry).unwrap());
        assert!(folder.is_dir());
        Self {
            process,
            entry: entry.clone(),
            folder,
        }
    }

    fn is_gone(&self) -> bool {
        !self.folder.exists() && !self.entry.exists()
    }
}

fn entries(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache.join("runs")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process must act, by its own clock"
)]
fn soon(mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

#[test]
fn when_standard_input_closes() {
    let cache = tempfile::tempdir().unwrap();
    let mut run = Run::start(cache.path());
    drop(run.process.stdin.take());
    assert!(run.process.wait().unwrap().success());
    assert!(run.is_gone());
}

#[test]
fn when_it_is_asked_to_end() {
    let cache = tempfile::tempdir().unwrap();
    let mut run = Run::start(cache.path());
    let pid = rustix::process::Pid::from_child(&run.process);
    // `wait` would close the standard input, which is another reason to end.
    let stdin = run.process.stdin.take();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(run.process.wait().unwrap().code(), Some(128 + 15));
    drop(stdin);
    assert!(run.is_gone());
}

#[test]
fn when_it_is_killed() {
    let cache = tempfile::tempdir().unwrap();
    let mut run = Run::start(cache.path());
    run.process.kill().unwrap();
    run.process.wait().unwrap();
    assert!(soon(|| run.is_gone()), "its guard clears up");
}

#[test]
fn when_the_machine_went_down_and_the_next_run_comes() {
    let cache = tempfile::tempdir().unwrap();
    let left = tempfile::tempdir().unwrap().keep();
    fs::write(left.join("data"), "x").unwrap();
    let runs = cache.path().join("runs");
    fs::create_dir(&runs).unwrap();
    fs::write(runs.join("left"), left.to_str().unwrap()).unwrap();
    let mut run = Run::start(cache.path());
    assert!(!left.exists());
    drop(run.process.stdin.take());
    run.process.wait().unwrap();
}

#[test]
fn and_a_run_that_is_alive_is_left_alone() {
    let cache = tempfile::tempdir().unwrap();
    let mut first = Run::start(cache.path());
    let second = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["servers", "up", "--store", "sqlite"])
        .env("SHEDLOCK_CACHE", cache.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(second.status.success());
    assert!(first.folder.is_dir() && first.entry.exists());
    drop(first.process.stdin.take());
    first.process.wait().unwrap();
}

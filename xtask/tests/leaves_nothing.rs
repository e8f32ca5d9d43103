//! Whichever way a run ends, its folder and its entry in the cache are gone.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of a test fail as the test does"
)]

use shedlock_rig::Running;
use shedlock_rig::process::Signal;
use shedlock_rig::wait::{PATIENCE, eventually};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `servers up` for a store without a server. The folder and the guard are the same.
struct Run {
    process: Running,
    entry: PathBuf,
    folder: PathBuf,
}

impl Run {
    fn start(cache: &Path) -> Self {
        let mut command = up(cache);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = Running::start(&mut command).unwrap();
        process
            .output
            .find(|line| (line == "# ready").then_some(()))
            .unwrap();
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

    /// Waits until it has ended. Returns its exit code.
    fn code(&mut self) -> Option<i32> {
        self.process.wait(PATIENCE).unwrap().code()
    }

    fn is_gone(&self) -> bool {
        !self.folder.exists() && !self.entry.exists()
    }
}

fn up(cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["servers", "up", "--store", "sqlite"]);
    command.env("SHEDLOCK_CACHE", cache);
    command
}

fn entries(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache.join("runs")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn when_standard_input_closes() {
    let cache = tempfile::tempdir().unwrap();
    let mut run = Run::start(cache.path());
    run.process.close_input();
    assert_eq!(run.code(), Some(0));
    assert!(run.is_gone());
}

#[test]
fn when_it_is_asked_to_end() {
    let cache = tempfile::tempdir().unwrap();
    let mut run = Run::start(cache.path());
    run.process.signal(Signal::TERM);
    assert_eq!(run.code(), Some(128 + 15));
    assert!(run.is_gone());
}

#[test]
fn when_it_is_killed() {
    let cache = tempfile::tempdir().unwrap();
    let mut run = Run::start(cache.path());
    // Alone: its guard clears up.
    run.process.signal(Signal::KILL);
    assert_eq!(run.code(), None);
    eventually("the end of its run", || run.is_gone());
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
    run.process.close_input();
    assert_eq!(run.code(), Some(0));
}

#[test]
fn and_a_run_that_is_alive_is_left_alone() {
    let cache = tempfile::tempdir().unwrap();
    let mut first = Run::start(cache.path());
    let second = up(cache.path()).stdin(Stdio::null()).output().unwrap();
    assert!(second.status.success());
    assert!(first.folder.is_dir() && first.entry.exists());
    first.process.close_input();
    assert_eq!(first.code(), Some(0));
}

//! A stage on which the steps print what a test says.

#![allow(dead_code, reason = "each test program uses its part of it")]

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;

use shedlock_transcripts::{Facts, Mode, Stage, replay, replay_examples};
use tempfile::TempDir;

/// What the steps print, one after the other. `@(-60 %s)` is the time of printing, 60 seconds earlier,
/// in this form: a time that is made before the scene begins is not of the scene.
pub(crate) struct Fixed {
    screens: Vec<String>,
    next: Cell<usize>,
    folder: TempDir,
    facts: Facts,
}

impl Fixed {
    pub(crate) fn new(screens: &[&str]) -> Self {
        Self {
            screens: screens.iter().map(|screen| (*screen).to_owned()).collect(),
            next: Cell::new(0),
            folder: tempfile::tempdir().unwrap(),
            facts: Facts {
                folder: "/home/of/scene".to_owned(),
                host: "web-1".to_owned(),
                version: "1.2.3".to_owned(),
                names: vec![("url", "redis://h/0".to_owned())],
                moved: 0,
            },
        }
    }

    pub(crate) fn moved(mut self, micros: i64) -> Self {
        self.facts.moved = micros;
        self
    }
}

impl Stage for &Fixed {
    /// `print` prints the next screen, other lines run in a shell.
    fn command(&self, line: &str, _columns: Option<u16>) -> Command {
        let mut command = Command::new("sh");
        let screen = self.screens.get(self.next.get());
        match line {
            "print" => {
                self.next.set(self.next.get() + 1);
                command.args(["-c", "printf %s \"$1\"", "sh", &timed(screen.unwrap())]);
            }
            _ => {
                command.args(["-c", line]);
            }
        }
        command.current_dir(self.folder.path());
        command
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn outputs(&self) -> &Path {
        self.folder.path()
    }
}

/// The screen with its times.
fn timed(screen: &str) -> String {
    let Some((before, rest)) = screen.split_once("@(") else {
        return screen.to_owned();
    };
    let (time, after) = rest.split_once(')').unwrap();
    let (seconds, form) = time.split_once(' ').unwrap();
    let seconds = jiff::SignedDuration::from_secs(seconds.parse().unwrap());
    let time = jiff::Timestamp::now() + seconds;
    format!("{before}{}{}", time.strftime(form), timed(after))
}

/// Replays this page on the stage.
pub(crate) fn replayed(page: &str, stage: &Fixed) -> Result<(), String> {
    let (result, after) = played(page, stage, Mode::Compare);
    assert_eq!(after, page, "a comparison writes nothing");
    result
}

/// Replays this page and returns it as it is then.
pub(crate) fn played(page: &str, stage: &Fixed, mode: Mode) -> (Result<(), String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.md");
    fs::write(&path, page).unwrap();
    let result = replay(&path, mode, &[], |_| Ok(stage));
    (result, fs::read_to_string(&path).unwrap())
}

/// The same for a page of examples.
pub(crate) fn examples(page: &str, stage: &Fixed, mode: Mode) -> (Result<(), String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.md");
    fs::write(&path, page).unwrap();
    let result = replay_examples(&path, mode, &stage);
    (result, fs::read_to_string(&path).unwrap())
}

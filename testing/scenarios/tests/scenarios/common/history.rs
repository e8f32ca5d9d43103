//! What happened, in order: one log for all processes of a scenario.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use shedlock::{Clock as _, SystemClock};
use shedlock_rig::wait::{PATIENCE, found};

/// A file to which all processes append whole lines, so that the order of its lines is the order of
/// the events.
#[derive(Debug)]
pub(crate) struct History {
    path: PathBuf,
    /// How far the test's own calendar is behind, like those of the replicas.
    behind: OnceLock<Duration>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    offset: u64,
    lines: Vec<Line>,
}

/// One line: the time by the writer's clock, the writer, and the text.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: Timestamp,
    pub(crate) who: String,
    pub(crate) text: String,
}

impl History {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join("history.log"),
            behind: OnceLock::new(),
            seen: Mutex::default(),
        }
    }

    /// Sets how far behind the calendar is for the test's own lines.
    pub(crate) fn set_behind(&self, behind: Duration) {
        let _ = self.behind.set(behind);
    }

    /// Returns a handle to which a process can write its log.
    pub(crate) fn pipe(&self) -> Stdio {
        self.append().into()
    }

    /// Adds a line of the test itself.
    pub(crate) fn note(&self, who: &str, what: &str) {
        let behind = self.behind.get().copied().unwrap_or_default();
        let now = Timestamp::try_from(SystemClock.system_time() - behind).unwrap();
        let line = format!("{now:.3} {who} {what}\n");
        self.append().write_all(line.as_bytes()).unwrap();
    }

    fn append(&self) -> File {
        let mut options = OpenOptions::new();
        options.append(true).create(true).open(&self.path).unwrap()
    }

    /// Returns what `look` finds in the lines so far.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&[Line]) -> T) -> T {
        look(&self.read().lines)
    }

    /// Waits until `look` finds something, and returns it.
    ///
    /// # Panics
    /// If it finds nothing within [`PATIENCE`].
    pub(crate) fn wait_for<T>(&self, what: &str, mut look: impl FnMut(&[Line]) -> Option<T>) -> T {
        let found = found(PATIENCE, || look(&self.read().lines));
        found.unwrap_or_else(|| panic!("did not happen within {PATIENCE:?}: {what}"))
    }

    /// Returns the last lines, to find out what went wrong.
    pub(crate) fn tail(&self) -> String {
        let seen = self.read();
        let first = seen.lines.len().saturating_sub(80);
        let line = |line: &Line| format!("{:.3} {} {}\n", line.at, line.who, line.text);
        seen.lines[first..].iter().map(line).collect()
    }

    /// Copies the log to this folder.
    pub(crate) fn keep(&self, folder: &Path, story: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let name = format!("{}.log", story.replace(' ', "-"));
        std::fs::copy(&self.path, folder.join(name)).map(drop)
    }

    fn read(&self) -> MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(mut file) = File::open(&self.path) else {
            return seen;
        };
        let mut fresh = String::new();
        file.seek(SeekFrom::Start(seen.offset)).unwrap();
        file.read_to_string(&mut fresh).unwrap();
        // The last line may still be incomplete.
        let whole = fresh.rfind('\n').map_or(0, |end| end + 1);
        seen.offset += whole as u64;
        seen.lines.extend(fresh[..whole].lines().map(Line::parse));
        seen
    }
}

impl Line {
    pub(crate) fn parse(line: &str) -> Self {
        let mut words = line.splitn(3, ' ');
        let at = words.next().and_then(|at| at.parse().ok());
        let who = words.next().unwrap_or_default().to_owned();
        let text = words.next().unwrap_or_default().trim_start().to_owned();
        match at {
            Some(at) => Self { at, who, text },
            // Not a line of our log, such as a panic message.
            None => Self {
                at: Timestamp::UNIX_EPOCH,
                who: String::new(),
                text: line.to_owned(),
            },
        }
    }

    pub(crate) fn says(&self, what: &str) -> bool {
        self.text.contains(what)
    }

    /// Returns what follows `name=` in the line.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self
            .text
            .match_indices(name)
            .find(|(at, _)| {
                let before = self.text[..*at].chars().next_back();
                before.is_none_or(|before| before == ' ' || before == '{')
                    && self.text[at + name.len()..].starts_with('=')
            })?
            .0;
        let value = &self.text[found + name.len() + 1..];
        value.split([' ', '}']).next()
    }

    /// Returns the id of the mail in the line.
    pub(crate) fn id(&self) -> Option<i64> {
        self.field("id")?.parse().ok()
    }
}

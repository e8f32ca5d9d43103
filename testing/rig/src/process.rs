//! Processes that may outlive the one that started them, identified by more than a number.

use crate::wait::until;
use anyhow::Context as _;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process, kill_process_group};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

/// A process by its id and start time, so that a reused id is not mistaken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pid: Pid,
    started: String,
}

impl Process {
    /// The running process `pid`, or `None` if there is none.
    pub fn find(pid: u32) -> Option<Self> {
        Self::at(Pid::from_raw(i32::try_from(pid).ok()?)?)
    }

    fn at(pid: Pid) -> Option<Self> {
        let started = start_time(pid)?;
        Some(Self { pid, started })
    }

    /// Whether this very process still runs. A process that ended and waits to be reaped does not.
    pub fn is_running(&self) -> bool {
        start_time(self.pid).is_some_and(|started| started == self.started)
    }

    /// Sends `signal` to it, if it still runs.
    pub fn signal(&self, signal: Signal) {
        if self.is_running() {
            // It may end between the check and the signal. Then there is nothing left to signal.
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Sends `signal` to it, to its process group and to all its descendants.
    ///
    /// PostgreSQL's backends leave the group of their parent, hence the descendants.
    pub fn signal_tree(&self, signal: Signal) {
        if self.is_running() {
            let children = descendants(self.pid);
            let _ = kill_process_group(self.pid, signal);
            self.signal(signal);
            for child in children {
                let _ = kill_process(child, signal);
            }
        }
    }

    /// Kills it and all its descendants, and waits until none of them is left. Returns `false` if
    /// one is left after `patience`.
    ///
    /// PostgreSQL does not restart while a backend still has the shared memory. The process is
    /// stopped first, so that it starts no further child between the listing and the signal.
    pub fn kill_tree(&self, patience: Duration) -> bool {
        self.signal(Signal::STOP);
        let children: Vec<_> = descendants(self.pid)
            .into_iter()
            .filter_map(Self::at)
            .collect();
        self.signal_tree(Signal::KILL);
        until(patience, || {
            !self.is_running() && !children.iter().any(Self::is_running)
        })
    }

    /// Waits until it has ended. Returns `false` if it has not ended after `patience`.
    pub fn wait_ended(&self, patience: Duration) -> bool {
        until(patience, || !self.is_running())
    }

    /// Writes the process to `file`, so that it can be ended later.
    pub fn save(&self, file: &Path) -> anyhow::Result<()> {
        let text = format!("{} {}\n", self.pid.as_raw_nonzero(), self.started);
        fs::write(file, text).with_context(|| format!("{} could not be written", file.display()))
    }
}

impl FromStr for Process {
    type Err = anyhow::Error;

    /// Reads what [`Process::save`] wrote.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (pid, started) = text
            .trim()
            .split_once(' ')
            .with_context(|| format!("`{text}` is not a process id and a start time"))?;
        let pid = Pid::from_raw(
            pid.parse()
                .with_context(|| format!("`{pid}` is not a process id"))?,
        )
        .context("0 is not a process id")?;
        Ok(Self {
            pid,
            started: started.to_owned(),
        })
    }
}

/// Whether this process has set a handler for the signal. Without one, the signal ends it, or does nothing if it is the
/// first process of a PID namespace. Only Linux tells.
#[must_use]
pub fn handles(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|it| it.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| (mask >> (signal.as_raw() - 1)) & 1 == 1)
}

fn start_time(pid: Pid) -> Option<String> {
    if has_proc() {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let stat = Stat::parse(&stat)?;
        return stat.runs().then(|| stat.started.to_owned());
    }
    let shown = ps(&[
        "-o",
        "stat=,lstart=",
        "-p",
        &pid.as_raw_nonzero().to_string(),
    ])?;
    let (state, started) = shown.trim().split_once(char::is_whitespace)?;
    (!state.starts_with('Z')).then(|| started.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn descendants(pid: Pid) -> Vec<Pid> {
    let parents = parents();
    let mut found = vec![pid.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == parent)
                .map(|(child, _)| *child),
        );
        next += 1;
    }
    found
        .into_iter()
        .skip(1)
        .filter_map(Pid::from_raw)
        .collect()
}

/// Each process of the machine with its parent.
fn parents() -> Vec<(i32, i32)> {
    if !has_proc() {
        let shown = ps(&["-A", "-o", "pid=,ppid="]).unwrap_or_default();
        let pair = |line: &str| {
            let mut words = line.split_whitespace().map(str::parse);
            Some((words.next()?.ok()?, words.next()?.ok()?))
        };
        return shown.lines().filter_map(pair).collect();
    }
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, Stat::parse(&stat)?.parent))
        })
        .collect()
}

fn has_proc() -> bool {
    Path::new("/proc/self/stat").exists()
}

fn ps(args: &[&str]) -> Option<String> {
    let output = Command::new("ps")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The fields that we need of Linux's `/proc/PID/stat`.
struct Stat<'a> {
    state: &'a str,
    parent: i32,
    started: &'a str,
}

impl<'a> Stat<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        // The second field is the command's name in parentheses, which may itself contain blanks
        // and parentheses, so only the text after the last one counts.
        let mut fields = line.get(line.rfind(')')? + 1..)?.split_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?;
        Some(Self {
            state,
            parent,
            started,
        })
    }

    fn runs(&self) -> bool {
        !matches!(self.state, "Z" | "X" | "x")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn stat_is_parsed_despite_blanks_and_brackets_in_the_name() {
        let line = "41 (a) b (c) S 7 41 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 4096 1";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.state, stat.parent, stat.started), ("S", 7, "98765"));
    }

    #[test]
    fn a_saved_process_is_found_again_and_a_reused_id_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("own.pid");
        let own = Process::find(std::process::id()).unwrap();
        own.save(&file).unwrap();
        let read: Process = fs::read_to_string(&file).unwrap().parse().unwrap();
        assert_eq!(read, own);
        assert!(read.is_running());
        let reused = Process {
            started: "1".to_owned(),
            ..read
        };
        assert!(!reused.is_running());
    }

    #[test]
    fn a_child_that_ended_but_was_not_reaped_does_not_run() {
        let mut child = Command::new("true").spawn().unwrap();
        let seen = Process::find(child.id());
        if let Some(process) = seen {
            assert!(process.wait_ended(Duration::from_secs(5)));
        }
        assert_eq!(Process::find(child.id()), None);
        child.wait().unwrap();
    }

    #[test]
    fn a_signal_is_handled_once_a_handler_is_set() {
        let script = "read set; trap 'exit 3' TERM; echo set; read end";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::piped());
        let mut shell = shell.stdout(Stdio::piped()).spawn().unwrap();
        assert!(!handles(shell.id(), Signal::TERM));
        let mut input = shell.stdin.take().unwrap();
        input.write_all(b"go\n").unwrap();
        let mut output = shell.stdout.take().unwrap();
        output.read_exact(&mut [0; 4]).unwrap();
        assert!(handles(shell.id(), Signal::TERM));
        assert!(!handles(shell.id(), Signal::HUP));
        drop(input);
        shell.wait().unwrap();
        assert!(!handles(shell.id(), Signal::TERM));
    }

    #[test]
    fn the_tree_is_signalled_as_a_whole() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .spawn()
            .unwrap();
        let parent = Process::find(shell.id()).unwrap();
        assert!(until(Duration::from_secs(5), || descendants(parent.pid)
            .len()
            == 1));
        let child = descendants(parent.pid)[0];
        parent.signal_tree(Signal::KILL);
        shell.wait().unwrap();
        assert!(until(Duration::from_secs(5), || start_time(child).is_none()));
    }

    #[test]
    fn nothing_of_a_killed_tree_is_left() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & sleep 60 & wait"])
            .spawn()
            .unwrap();
        let parent = Process::find(shell.id()).unwrap();
        let children = || descendants(parent.pid);
        assert!(until(Duration::from_secs(5), || children().len() == 2));
        let children = children();
        assert!(parent.kill_tree(Duration::from_secs(60)));
        assert!(
            children
                .into_iter()
                .all(|child| start_time(child).is_none())
        );
        shell.wait().unwrap();
    }
}

//! The processes below one process, wherever they have moved.
//!
//! A process that leaves its group (`setsid`, a daemon that forks twice) is still found: on Linux a
//! watchdog is the reaper of all its descendants, so nothing leaves the tree below it.

use std::{fs, io};

use rustix::process::{Pid, Signal, getpid, kill_process};

/// A process as the kernel lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: Option<Pid>,
    pub(crate) group: Option<Pid>,
    pub(crate) session: i32,
    /// Distinguishes a process from a later one with the same number.
    started: u64,
    is_dead: bool,
}

impl Process {
    /// The process with this number, if there is one and it is [listed](are_listed).
    pub(crate) fn find(pid: Pid) -> Option<Self> {
        if !are_listed() {
            return None;
        }
        Self::look(pid)
    }

    fn look(pid: Pid) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
        Self::parse(&stat)
    }

    /// Parses a line of `/proc/PID/stat`: `pid (name) state parent group session ...`.
    ///
    /// The name may contain blanks and parentheses. The text after the last parenthesis is safe to
    /// split.
    fn parse(stat: &str) -> Option<Self> {
        let (head, tail) = stat.rsplit_once(')')?;
        let (pid, _) = head.split_once(' ')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
        // The kernel shows -1 for a process that it is removing at this moment: it has no group any more.
        let group = number(2).filter(|group| *group >= 0)?;
        Some(Self {
            pid: Pid::from_raw(pid.parse().ok()?)?,
            parent: Pid::from_raw(number(1)?),
            group: Pid::from_raw(group),
            session: number(3)?,
            started: fields.get(19)?.parse().ok()?,
            is_dead: matches!(*fields.first()?, "Z" | "X" | "x"),
        })
    }

    /// Sends the signal to this very process, never to another one that has reused its number.
    ///
    /// A process that may not be signalled shows up again in the list of survivors.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn signal(&self, signal: Signal) {
        use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
        match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(handle) => {
                if Self::look(self.pid).is_some_and(|now| now.started == self.started) {
                    let _ = pidfd_send_signal(handle, signal);
                }
            }
            // A kernel before 5.3: only the number is available.
            Err(rustix::io::Errno::NOSYS) => drop(kill_process(self.pid, signal)),
            Err(_) => {}
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }
}

/// The living processes below `root`, without `root`. An empty list is no proof that there are none: `/proc` may hide
/// processes of other users.
pub(crate) fn below(root: Pid) -> io::Result<Vec<Process>> {
    Ok(tree(root, &list()?))
}

/// Whether `/proc` shows the processes of this PID namespace. A namespace that was created without
/// its own `/proc` still has its parent's, in which the same numbers are other processes. Those of other users may be
/// hidden.
pub(crate) fn are_listed() -> bool {
    let shown = fs::read_link("/proc/self").ok();
    let shown = shown.and_then(|link| link.to_str()?.parse().ok());
    shown == Some(getpid().as_raw_pid())
}

/// Whether `/proc` shows the processes of all users of this PID namespace, so that a process that it does not show is
/// gone. The first process is another user's, unless this user may see all.
pub(crate) fn are_all_listed() -> bool {
    are_listed() && Process::look(Pid::INIT).is_some()
}

fn list() -> io::Result<Vec<Process>> {
    if !are_listed() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Process::look(Pid::from_raw(pid)?))
        .collect())
}

fn tree(root: Pid, all: &[Process]) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == Some(parent)) {
            if process.pid != root && !found.iter().any(|known| known.pid == process.pid) {
                found.push(*process);
                parents.push(process.pid);
            }
        }
    }
    found.retain(|process| !process.is_dead);
    found
}

/// The processes that `root` has adopted, and all below them: the living processes whose topmost
/// ancestor under `root` is not older than `oldest`.
pub(crate) fn adopted(root: Pid, oldest: Option<&Process>) -> io::Result<Vec<Process>> {
    let born = oldest.map_or(0, |process| process.started);
    let kept: Vec<Process> = list()?
        .into_iter()
        .filter(|process| process.parent != Some(root) || process.started >= born)
        .collect();
    Ok(tree(root, &kept))
}

/// Sends the signals in order to each living process below `root` that is not in the group
/// `except`. Those that `/proc` does not show receive nothing.
pub(crate) fn signal_below(root: Pid, except: Option<Pid>, signals: &[Signal]) {
    for process in below(root).unwrap_or_default() {
        if except.is_none() || process.group != except {
            for signal in signals {
                process.signal(*signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        Process::parse(&format!(
            "{pid} (a) b) S {parent} {pid} 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0"
        ))
        .unwrap()
    }

    fn pid(raw: i32) -> Pid {
        Pid::from_raw(raw).unwrap()
    }

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name() {
        let process = process(12, 3);
        assert_eq!(
            (process.pid, process.parent, process.started),
            (pid(12), Some(pid(3)), 77)
        );
        let removed = "12 (a) X 0 -1 -1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0";
        assert_eq!(Process::parse(removed), None);
        assert_eq!(Process::parse("12 (a"), None);
        assert_eq!(Process::parse(""), None);
    }

    #[test]
    fn the_tree_holds_descendants_and_no_other_process() {
        let all = [
            process(1, 0),
            process(10, 1),
            process(11, 10),
            process(12, 11),
            process(20, 1),
        ];
        let found: Vec<i32> = tree(pid(10), &all)
            .iter()
            .map(|process| process.pid.as_raw_pid())
            .collect();
        assert_eq!(found, [11, 12]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_with_its_parent() {
        let own = rustix::process::getpid();
        let process = Process::find(own).unwrap();
        assert_eq!(process.parent, rustix::process::getppid());
        assert!(!below(process.parent.unwrap()).unwrap().is_empty());
    }
}

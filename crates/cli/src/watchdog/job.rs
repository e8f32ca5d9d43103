//! The command and every process that it starts, seen from its parent.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, test_kill_process_group, wait,
};

use super::protocol::{NotStarted, Start, Status, Survivors};
use super::{ORPHANS_ARE_ADOPTED, descendants_are_found, processes};
use crate::signals::as_by_caller;

/// A running command and all processes that belong to it.
///
/// This process is the parent, so as long as the command's own process is not reaped, no other process can have its
/// group.
#[derive(Debug)]
pub(crate) struct Job {
    leader: Pid,
    status: Option<Status>,
    /// Nothing is left, or is to be left running.
    is_over: bool,
}

/// A change in the job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The command's own process was stopped by this signal.
    Stopped(i32),
    /// The command's own process has ended. Others may be left.
    LeaderEnded,
    /// Nothing of the job is left.
    Over,
}

impl Job {
    /// Starts the command in its own process group, with these files as its stdin, stdout and stderr.
    ///
    /// Takes the files, so that they are closed here: the other ends of pipes notice when the command
    /// closes them.
    pub(crate) fn start(start: &Start, files: [OwnedFd; 3]) -> Result<Self, NotStarted> {
        let mut command = Command::new(&start.program);
        command.arg0(&start.name).args(&start.arguments);
        let child = spawn(&mut command, start, &files).or_else(|error| {
            if error.raw_os_error() != Some(Errno::NOEXEC.raw_os_error()) {
                return Err(error);
            }
            // A script without a `#!` line: run it with the shell, as every shell, and so cron, does.
            let mut shell = Command::new("/bin/sh");
            shell.arg(&start.program).args(&start.arguments);
            spawn(&mut shell, start, &files)
        });
        drop(files);
        match child {
            Ok(child) => Ok(Self {
                leader: Pid::from_child(&child),
                status: None,
                is_over: false,
            }),
            Err(error) => Err(NotStarted::Refused(error.raw_os_error().unwrap_or(0))),
        }
    }

    /// Leaves what is left of the job running.
    pub(crate) fn leave(&mut self) {
        self.is_over = true;
    }

    pub(crate) fn leader(&self) -> Pid {
        self.leader
    }

    /// The exit status of the command's own process, once it has ended.
    pub(crate) fn status(&self) -> Option<Status> {
        self.status
    }

    /// Reaps or records one child that changed. `None` if there is no change.
    pub(crate) fn next_change(&mut self) -> Option<Change> {
        loop {
            if self.is_over {
                return None;
            }
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == self.leader => {
                    if let Some(signal) = status.stopping_signal() {
                        return Some(Change::Stopped(signal));
                    }
                    self.status = Some(ended_with(status));
                    return Some(Change::LeaderEnded);
                }
                // An orphan of the job, adopted and now reaped.
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return None,
                // No children. If orphans are adopted, no descendants either. This is the only proof.
                Err(Errno::CHILD) => {
                    self.is_over =
                        ORPHANS_ARE_ADOPTED || test_kill_process_group(self.leader).is_err();
                    return self.is_over.then_some(Change::Over);
                }
                Err(_) => return None,
            }
        }
    }

    /// Passes a signal on to the command's process group.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.status.is_none() || !descendants_are_found() {
            // The group may disappear at this instant. `next_change` reports that.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Sends TERM to the whole job. A stopped process does not receive it, so all are continued.
    pub(crate) fn terminate(&self) {
        self.signal_all(&[Signal::TERM, Signal::CONT]);
    }

    /// Kills the whole job.
    pub(crate) fn kill(&self) {
        self.signal_all(&[Signal::KILL]);
    }

    /// The processes that are left of a job that is not over.
    pub(crate) fn survivors(&self) -> Survivors {
        match self.is_over {
            true => Survivors::None,
            false => Survivors::listed(processes::below(getpid())),
        }
    }

    fn signal_all(&self, signals: &[Signal]) {
        // The group in one call, so that a process which forks in the meantime is not missed.
        for signal in signals {
            self.signal(*signal);
        }
        let done = self.status.is_none().then_some(self.leader);
        processes::signal_below(getpid(), done, signals);
    }
}

/// A watchdog that fails for any reason takes the job with it.
impl Drop for Job {
    fn drop(&mut self) {
        if !self.is_over {
            self.kill();
        }
    }
}

fn spawn(command: &mut Command, start: &Start, files: &[OwnedFd; 3]) -> io::Result<Child> {
    for (name, value) in &start.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let [stdin, stdout, stderr] = files;
    // Copies for each try. They are closed again with the command.
    command
        .stdin(stdin.try_clone()?)
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .process_group(0);
    as_by_caller(|| command.spawn())
}

pub(super) fn ended_with(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Status::Signalled(signal),
        (None, None) => Status::Exited(u8::MAX),
    }
}

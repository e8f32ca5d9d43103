//! The terminal, lent to the command.
//!
//! The command has its own process group, and only one group may read a terminal. So, like a shell, `run` makes the
//! command's group the foreground group, and its own group again when the command ends or is stopped.

use std::io;
use std::os::fd::AsFd;

use nix::unistd;
use rustix::process::{Pid, Signal, getpid, kill_current_process_group, kill_process};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

use crate::signals::never_stop_for_terminal;
use crate::watchdog::Process;

/// The terminal on standard input, if there is one.
#[derive(Debug)]
pub(super) struct Foreground {
    has_terminal: bool,
    command: Option<Pid>,
    is_asked_to_stop: bool,
}

impl Foreground {
    pub(super) fn of_stdin() -> Self {
        let has_terminal = isatty(io::stdin().as_fd());
        if has_terminal {
            never_stop_for_terminal();
        }
        Self {
            has_terminal,
            command: None,
            is_asked_to_stop: false,
        }
    }

    /// The command runs in this group. Gives it the terminal, if the terminal is ours to give.
    pub(super) fn lend(&mut self, command: Pid) {
        self.command = Some(command);
        if own_group().is_some_and(|group| self.is_with(group)) {
            hand_to(command);
        }
    }

    /// Takes the terminal back from the command.
    pub(super) fn take_back(&self) {
        if self.has_lent()
            && let Some(group) = own_group()
        {
            hand_to(group);
        }
    }

    /// This process was asked to stop, for example by Ctrl-Z, and has passed that on. It stops when the command has
    /// stopped.
    pub(super) fn asked_to_stop(&mut self) {
        self.is_asked_to_stop = true;
    }

    /// The command was stopped by this signal. Stops this process too, so that the shell which started it regains
    /// control. Returns true if the command is to continue instead.
    pub(super) fn command_stopped(&mut self, signal: Signal) -> bool {
        let is_asked = std::mem::take(&mut self.is_asked_to_stop);
        if !is_asked && !self.is_for_shell(signal) {
            let was_quicker = matches!(signal, Signal::TTIN | Signal::TTOU);
            return was_quicker && self.has_lent();
        }
        if is_without_job_control() {
            return signal == Signal::TSTP;
        }
        self.take_back();
        // This process stops right here, and resumes when it is continued.
        let _ = if is_asked {
            kill_process(getpid(), Signal::STOP)
        } else {
            // The shell's whole job, as Ctrl-Z does when the terminal is not lent.
            kill_current_process_group(Signal::STOP)
        };
        false
    }

    /// Whether the command was stopped because of its use of the terminal. False if a signal was meant only for the
    /// command, or if the command read before we could lend the terminal.
    fn is_for_shell(&self, signal: Signal) -> bool {
        match signal {
            Signal::TSTP => self.has_terminal,
            Signal::TTIN | Signal::TTOU => self.has_terminal && !self.has_lent(),
            _ => false,
        }
    }

    /// The command's group, if it has the terminal.
    pub(super) fn lent_to(&self) -> Option<Pid> {
        self.command.filter(|command| self.is_with(*command))
    }

    fn has_lent(&self) -> bool {
        self.lent_to().is_some()
    }

    /// This process was continued, in the foreground or not.
    pub(super) fn continued(&mut self) {
        if let Some(command) = self.command {
            self.lend(command);
        }
    }

    fn is_with(&self, group: Pid) -> bool {
        self.has_terminal && tcgetpgrp(io::stdin().as_fd()).is_ok_and(|owner| owner == group)
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        self.take_back();
    }
}

fn hand_to(group: Pid) {
    // A terminal that has hung up, or a group that has just ended: there is nothing to hand over.
    let _ = tcsetpgrp(io::stdin().as_fd(), group);
}

/// This process's group. `None` if the group has no number in this PID namespace because it was created outside:
/// `unshare --fork --pid`, `bwrap` and `nsenter` start a process so. The terminal is then not ours to lend, because it
/// could not be taken back.
///
/// Read through `nix`, whose numbers may be zero. For `rustix` a zero there is undefined behaviour.
fn own_group() -> Option<Pid> {
    Pid::from_raw(unistd::getpgrp().as_raw())
}

/// Whether no shell with job control is above this process. Then a stop would last forever, and the kernel does not
/// stop such groups on Ctrl-Z either.
fn is_without_job_control() -> bool {
    let group = own_group();
    let session = unistd::getsid(None).map_or(0, unistd::Pid::as_raw);
    let mut process = Process::find(getpid());
    while let Some(here) = process {
        if here.group != group {
            return here.session != session;
        }
        process = here.parent.and_then(Process::find);
    }
    true
}

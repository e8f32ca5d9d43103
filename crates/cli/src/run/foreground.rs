//! The terminal, lent to the command.
//!
//! The command has a process group of its own, and only one group may read a terminal. So, as a
//! shell does, `run` makes the command's group the one in the foreground, and itself again when the
//! command ends or is stopped.

use std::io;
use std::os::fd::AsFd;

use rustix::process::{Pid, Signal, getpgrp, getpid, getsid, kill_process_group};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

use crate::signals::never_stop_for_terminal;
use crate::watchdog::Process;

/// The terminal on standard input, if there is one.
#[derive(Debug)]
pub(super) struct Foreground {
    has_terminal: bool,
    command: Option<Pid>,
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
        }
    }

    /// The command runs, as this group: it gets the terminal, if it is ours to give.
    pub(super) fn lend(&mut self, command: Pid) {
        self.command = Some(command);
        if self.is_with(getpgrp()) {
            hand_to(command);
        }
    }

    /// Takes the terminal back from the command.
    pub(super) fn take_back(&self) {
        if self.command.is_some_and(|command| self.is_with(command)) {
            hand_to(getpgrp());
        }
    }

    /// The command was stopped by this signal. Stops this process too, so that the shell which
    /// started it gets its turn; true if the command is to go on instead.
    pub(super) fn command_stopped(&self, signal: Signal) -> bool {
        let Some(command) = self.command.filter(|_| self.has_terminal) else {
            return false;
        };
        let touched_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
        if touched_terminal && self.is_with(command) {
            // It was quicker than we were to hand the terminal over.
            return true;
        }
        if !touched_terminal && signal != Signal::TSTP {
            // Somebody stopped just the command, from outside.
            return false;
        }
        if nobody_would_continue_us() {
            return signal == Signal::TSTP;
        }
        self.take_back();
        // All of the shell's job, as Ctrl-Z does; this process stops right here.
        let _ = kill_process_group(getpgrp(), Signal::STOP);
        false
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
    // A terminal that has hung up, or a group that has just ended: nothing to hand over.
    let _ = tcsetpgrp(io::stdin().as_fd(), group);
}

/// Whether no shell with job control stands above: then a stop would be for ever, and the kernel
/// does not stop such groups on Ctrl-Z either.
fn nobody_would_continue_us() -> bool {
    let (group, session) = (getpgrp(), getsid(None).ok());
    let mut process = Process::find(getpid());
    while let Some(here) = process {
        if here.group != Some(group) {
            return Pid::from_raw(here.session) != session;
        }
        process = here.parent.and_then(Process::find);
    }
    true
}

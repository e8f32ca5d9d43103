//! The terminal, lent to the command.
//!
//! The command has a process group of its own, and only one group may read a terminal. So, as a
//! shell does, `run` makes the command's group the one in the foreground, and itself again when the
//! command ends or is stopped.

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

    /// The command runs, as this group: it gets the terminal, if it is ours to give.
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

    /// This process was asked to stop, as by Ctrl-Z, and has passed that on: it stops when the
    /// command has.
    pub(super) fn asked_to_stop(&mut self) {
        self.is_asked_to_stop = true;
    }

    /// The command was stopped by this signal. Stops this process too, so that the shell which
    /// started it gets its turn; true if the command is to go on instead.
    pub(super) fn command_stopped(&mut self, signal: Signal) -> bool {
        let is_asked = std::mem::take(&mut self.is_asked_to_stop);
        if !is_asked && !self.is_for_shell(signal) {
            let was_quicker = matches!(signal, Signal::TTIN | Signal::TTOU);
            return was_quicker && self.has_lent();
        }
        if nobody_would_continue_us() {
            return signal == Signal::TSTP;
        }
        self.take_back();
        // This process stops right here, and goes on when it is continued.
        let _ = if is_asked {
            kill_process(getpid(), Signal::STOP)
        } else {
            // All of the shell's job, as Ctrl-Z does where no one lends the terminal.
            kill_current_process_group(Signal::STOP)
        };
        false
    }

    /// Whether the command was stopped for what it did with the terminal, and not by somebody who
    /// meant just the command, nor because it was quicker to read than we were to lend.
    fn is_for_shell(&self, signal: Signal) -> bool {
        match signal {
            Signal::TSTP => self.has_terminal,
            Signal::TTIN | Signal::TTOU => self.has_terminal && !self.has_lent(),
            _ => false,
        }
    }

    fn has_lent(&self) -> bool {
        self.command.is_some_and(|command| self.is_with(command))
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

/// This process's group. None where the group has no number in this PID namespace, since it was made
/// outside: `unshare --fork --pid`, `bwrap` and `nsenter` start a process so. The terminal is then not
/// ours to lend, because it could not be taken back.
///
/// Asked for through `nix`, whose numbers may be zero; for `rustix` a zero there is undefined
/// behaviour.
fn own_group() -> Option<Pid> {
    Pid::from_raw(unistd::getpgrp().as_raw())
}

/// Whether no shell with job control stands above: then a stop would be for ever, and the kernel
/// does not stop such groups on Ctrl-Z either.
fn nobody_would_continue_us() -> bool {
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

//! The watchdog as `run` sees it.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use shedlock::{Deadline, LeaseClock, Reading};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::heirloom::SlotFate;
use super::plan::{Plan, StopReason};
use super::processes::{self, Process};
use super::protocol::{Ended, Inbox, NotStarted, Order, Report, Start, frame, send_file};
use super::{ARGUMENT, adopt_orphans, rescue};
use crate::clock;
use crate::signals::as_by_caller;

/// A command and the watchdog that guards it. Dropped, the watchdog stops the command.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The watchdog's process as listed while it lives.
    looks: Option<Process>,
    socket: UnixStream,
    inbox: Inbox,
    /// What the watchdog has not read yet. It may be stopped, and nothing here waits for it.
    outbox: Vec<u8>,
    plan: Plan,
    /// When the plan was made.
    made: Reading,
    leader: Option<Pid>,
    alarm: Alarm,
    /// Dropped last: it ends once the socket is closed.
    watchdog: Reaped,
}

/// A child that is waited for when this is dropped, so that no zombie is left if process 1 does not wait for the children
/// of others.
#[derive(Debug)]
struct Reaped {
    child: Child,
    /// It outlives this process on purpose.
    is_let_go: bool,
}

/// News about a guarded command.
#[derive(Debug)]
pub(crate) enum News {
    /// It runs; this process leads its group.
    Started(Pid),
    /// It could not be started.
    NotStarted(NotStarted),
    /// It was stopped by this signal, for example by Ctrl-Z.
    Stopped(i32),
    /// It has ended, with every process that it started.
    Ended(Ended),
}

/// What to do if the watchdog has not acted because it is stopped or starved.
#[derive(Clone, Copy, Debug)]
enum Alarm {
    Kill,
    /// The wall clock has jumped past the deadline: the watchdog may notice it later than this process.
    KillAfterJump {
        at: Deadline,
    },
    KillWatchdog {
        at: Deadline,
    },
    Done,
}

impl Guard {
    /// Starts a watchdog, and has it start the command with this process's standard input, and with
    /// these files as its stdout and stderr.
    pub(crate) fn start(
        start: Start,
        plan: Plan,
        outputs: [BorrowedFd<'_>; 2],
    ) -> io::Result<Self> {
        // If the watchdog dies, its children are reparented to this process, which can still stop
        // them.
        adopt_orphans();
        let (ours, theirs) = StdStream::pair()?;
        let mut watchdog = Command::new(own_program()?);
        watchdog
            .arg0("lease-watchdog")
            .arg(ARGUMENT)
            .arg(std::process::id().to_string())
            .args(crate::args::of_log_format())
            .stdin(OwnedFd::from(theirs))
            // Out of reach of Ctrl-C, and of other signals to our group.
            .process_group(0);
        // The command inherits it.
        let watchdog = as_by_caller(|| watchdog.spawn())?;
        send_file(&ours, io::stdin().as_fd())?;
        for output in outputs {
            send_file(&ours, output)?;
        }
        ours.set_nonblocking(true)?;
        let mut guard = Self {
            looks: Process::find(Pid::from_child(&watchdog)),
            socket: UnixStream::from_std(ours)?,
            inbox: Inbox::default(),
            outbox: Vec::new(),
            plan,
            made: clock::now(),
            leader: None,
            alarm: Alarm::Kill,
            watchdog: Reaped {
                child: watchdog,
                is_let_go: false,
            },
        };
        guard.tell(&Order::Start(Box::new(start)))?;
        Ok(guard)
    }

    /// Waits for news. After [`News::NotStarted`] and [`News::Ended`] there are none.
    ///
    /// If the watchdog dies, this stops the command itself before it returns. Cancellation safe.
    pub(crate) async fn next(&mut self) -> News {
        let mut bytes = [0; 4096];
        loop {
            match self.inbox.next() {
                Ok(Some(report)) => return self.heard(report),
                Ok(None) => {}
                Err(_) => return self.rescue(),
            }
            let due = self.alarm_at();
            let (mut from, mut to) = self.socket.split();
            tokio::select! {
                biased;
                read = from.read(&mut bytes) => match read {
                    Ok(length @ 1..) => self.inbox.extend(&bytes[..length]),
                    Ok(0) | Err(_) => return self.rescue(),
                },
                () = until(due) => self.ring(),
                written = to.write(&self.outbox), if !self.outbox.is_empty() => match written {
                    Ok(length) => drop(self.outbox.drain(..length)),
                    // Reading detects a broken connection.
                    Err(_) => self.outbox.clear(),
                },
            }
        }
    }

    /// Passes a signal on to the command's process group.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.tell_if_short(&Order::Signal(signal.as_raw()));
    }

    /// Makes the watchdog kill the command, which was asked to end a second time.
    pub(crate) fn kill(&mut self) {
        self.tell_if_short(&Order::Kill);
    }

    /// The lease was extended in the store: the command may continue under this plan.
    ///
    /// Called only after the store has confirmed it. Until the watchdog has received the plan, it
    /// follows the previous one, which ends sooner. The same holds if this process is stopped or
    /// killed in between.
    pub(crate) fn extend(&mut self, plan: Plan) {
        if let Alarm::Kill = self.alarm {
            self.plan = plan;
            self.made = clock::now();
            self.tell_if_short(&Order::Extend(plan.to_send(clock::now())));
        }
    }

    /// Makes the watchdog of a job that has ended release its lock, in the background, with its slot like this.
    pub(crate) fn hand_over(mut self, fate: SlotFate) -> io::Result<()> {
        self.tell(&Order::Release(fate))?;
        self.watchdog.is_let_go = true;
        let mut socket = self.socket.into_std()?;
        socket.set_nonblocking(false)?;
        socket.write_all(&self.outbox)
    }

    /// Lets the watchdog of a job that has ended go. Its lock was released, or is left to its lease.
    pub(crate) fn leave(mut self) {
        self.tell_if_short(&Order::Leave);
        // Without waiting for a watchdog that is stopped.
        if let Ok(mut socket) = self.socket.into_std() {
            let _ = socket.write(&self.outbox);
        }
    }

    /// Makes the watchdog stop the command for this reason.
    pub(crate) fn stop(&mut self, reason: StopReason) {
        self.tell_if_short(&Order::Stop(reason));
    }

    fn tell_if_short(&mut self, order: &Order) {
        let told = self.tell(order);
        debug_assert!(told.is_ok(), "orders without a command line are short");
    }

    /// Queues the order. It is sent while [`next`](Self::next) is awaited.
    fn tell(&mut self, order: &Order) -> io::Result<()> {
        self.outbox.extend(frame(order)?);
        Ok(())
    }

    fn heard(&mut self, report: Report) -> News {
        match report {
            Report::Started { pid } => match Pid::from_raw(pid) {
                Some(leader) => {
                    self.leader = Some(leader);
                    News::Started(leader)
                }
                None => self.rescue(),
            },
            Report::NotStarted(why) => News::NotStarted(why),
            Report::Stopped { signal } => News::Stopped(signal),
            Report::Ended(mut ended) => {
                // We stopped the command, in place of a watchdog that did not act.
                if !matches!(self.alarm, Alarm::Kill | Alarm::KillAfterJump { .. }) {
                    ended.stopped = Some(self.plan.stopped_at(clock::now()));
                }
                News::Ended(ended)
            }
        }
    }

    fn alarm_at(&self) -> Option<Deadline> {
        match self.alarm {
            Alarm::Kill => Some(self.plan.kill_at()),
            Alarm::KillAfterJump { at } | Alarm::KillWatchdog { at } => Some(at),
            Alarm::Done => None,
        }
    }

    /// The watchdog should have reported the end of the job already.
    fn ring(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(10);
        const AFTER_JUMP: Duration = Duration::from_secs(2);
        let watchdog = Pid::from_child(&self.watchdog.child);
        let now = clock::now();
        match self.alarm {
            Alarm::Kill if !now.jumped_since(self.made).is_zero() => {
                let at = now.deadline(AFTER_JUMP);
                self.alarm = Alarm::KillAfterJump { at };
            }
            Alarm::Kill | Alarm::KillAfterJump { .. } => {
                let at = now.deadline(PATIENCE);
                self.alarm = Alarm::KillWatchdog { at };
                processes::signal_below(watchdog, None, &[Signal::KILL]);
                // It may have been stopped. If it is gone, its end of the socket closes.
                let _ = kill_process(watchdog, Signal::CONT);
            }
            Alarm::KillWatchdog { .. } => {
                self.alarm = Alarm::Done;
                let _ = kill_process(watchdog, Signal::KILL);
            }
            Alarm::Done => {}
        }
    }

    /// Stops the command in place of the watchdog.
    fn rescue(&mut self) -> News {
        // It is already gone, or no longer useful.
        let _ = self.watchdog.child.kill();
        let _ = self.watchdog.child.wait();
        News::Ended(rescue::stop(self.leader, self.looks.as_ref(), self.plan))
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        // It may be stopped, and nothing here waits for that.
        const PATIENCE: Duration = Duration::from_millis(100);
        const LOOK: Duration = Duration::from_millis(2);
        let (Ok(look), looks) = (
            Timespec::try_from(LOOK),
            PATIENCE.as_millis() / LOOK.as_millis(),
        ) else {
            return;
        };
        for _ in 0..looks {
            if self.is_let_go || !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            let _ = poll(&mut [], Some(&look));
        }
    }
}

async fn until(due: Option<Deadline>) {
    match due {
        Some(due) => LeaseClock::system().sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// This very program, even if its file was replaced in the meantime: both processes must use the
/// same protocol.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if cfg!(any(target_os = "linux", target_os = "android")) && running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
}

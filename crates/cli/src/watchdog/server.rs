//! The watchdog: the parent of the command.
//!
//! It has the deadline and one end of a socket whose other end `run` holds. It stops the job when
//! the deadline comes, and when the socket closes because `run` has died for any reason.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::job::{Change, Job};
use super::orphaned::Orphaned;
use super::plan::{Step, StopReason, Supervision};
use super::protocol::{Ended, Inbox, NotStarted, Order, Report, Start, frame, receive_file};
use super::timer::Timer;
use super::{ORPHANS_ARE_ADOPTED, adopt_orphans};
use crate::signals::{Ignored, asks_to_end, never_stop_for_terminal};
use crate::terminal::Terminal;
use crate::{clock, exit};

/// Runs the watchdog until its job is gone. Its standard input is the socket.
pub(crate) fn serve(terminal: Terminal) -> ExitCode {
    match try_serve() {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(orphaned)) => {
            // Only now that nothing is left to guard: a terminal or pipe may block forever.
            orphaned.end(terminal);
            ExitCode::from(exit::LOST)
        }
        Err(error) => {
            terminal.error(&format!("the watchdog failed: {error}"));
            ExitCode::from(exit::INTERNAL)
        }
    }
}

/// Returns the job if it has ended and `run` is gone, or has given up, so that its lock may still be held.
fn try_serve() -> io::Result<Option<Orphaned>> {
    let mut line = Line::of_stdin()?;
    let Prepared {
        start,
        files,
        changed,
        timer,
    } = match prepare(&mut line) {
        Ok(Some(prepared)) => prepared,
        Ok(None) => return Ok(None),
        Err(error) => {
            // Nothing was started, so `run` gives the slot back.
            let why = NotStarted::Unguarded(error.raw_os_error());
            return line.refuse(why).map(|()| None);
        }
    };
    let plan = start.plan.received(clock::now());
    if !plan.has_time(clock::now()) {
        return line.refuse(NotStarted::TooLate).map(|()| None);
    }
    let job = match Job::start(&start, files) {
        Ok(job) => job,
        Err(refused) => return line.refuse(refused).map(|()| None),
    };
    line.send(&Report::Started {
        pid: job.leader().as_raw_pid(),
    })?;
    let mut watch = Watch {
        supervision: Supervision::new(plan),
        job,
        line,
        changed,
        timer,
        leaves_children: start.leave_children,
    };
    let ended = watch.until_gone()?;
    let mut lock = start.lock;
    let mut handed_over = None;
    let is_reported = !watch.line.is_cut;
    match watch.line.last_order() {
        Some(Order::Release(fate)) => {
            handed_over = Some(fate);
            // `run` withdraws them itself.
            lock.copies.clear();
        }
        Some(_) => return Ok(None),
        None => {}
    }
    Ok(Some(Orphaned {
        lock,
        ended,
        is_reported,
        ends_at: watch.supervision.lease_ends_at(),
        is_asked_to_end: watch.supervision.is_asked_to_end(),
        has_unanswered: Cell::default(),
        handed_over,
    }))
}

/// Everything that a command needs before it starts.
struct Prepared {
    start: Start,
    /// The command's stdin, stdout and stderr.
    files: [OwnedFd; 3],
    changed: UnixStream,
    timer: Timer,
}

/// `None` if `run` is gone before it sent the first order.
fn prepare(line: &mut Line) -> io::Result<Option<Prepared>> {
    // The line has its own descriptor. This one is freed for other files.
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    outlive_signals()?;
    adopt_orphans();
    be_known_by_another_name();
    let (changed, tell) = UnixStream::pair()?;
    changed.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(Signal::CHILD.as_raw(), tell)?;
    let timer = Timer::new()?;
    let Some((start, files)) = line.first_order()? else {
        return Ok(None);
    };
    Ok(Some(Prepared {
        start,
        files,
        changed,
        timer,
    }))
}

/// Catches signals that are meant for the command: `run` passes them on. This process ends with its
/// job.
fn outlive_signals() -> io::Result<()> {
    let ignored = Ignored::by_this_process();
    let unheard = Arc::new(AtomicBool::new(false));
    for signal in [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::TERM,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::TSTP,
    ] {
        if !ignored.contains(signal) {
            signal_hook::flag::register(signal.as_raw(), unheard.clone())?;
        }
    }
    never_stop_for_terminal();
    Ok(())
}

/// Gives this process a distinct name, so that `killall -9 shedlock` does not kill both guards at
/// once.
fn be_known_by_another_name() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::thread::set_name(c"lease-watchdog");
}

struct Watch {
    supervision: Supervision,
    job: Job,
    line: Line,
    changed: UnixStream,
    timer: Timer,
    leaves_children: bool,
}

impl Watch {
    fn until_gone(&mut self) -> io::Result<Ended> {
        loop {
            self.take_orders();
            if self.note_changes() {
                return Ok(self.conclude());
            }
            let now = clock::now();
            if self.supervision.is_hopeless(now) {
                return Ok(self.conclude());
            }
            match self.supervision.step(now) {
                Step::Terminate => self.job.terminate(),
                Step::Kill => self.job.kill(),
                Step::Wait(until) => {
                    let limit = self.timer.set(until.left(now))?;
                    self.wait(limit)?;
                }
            }
        }
    }

    /// Handles the orders of `run`. A broken connection, or an invalid message, counts as `run`
    /// being gone.
    fn take_orders(&mut self) {
        if self.line.is_cut {
            return;
        }
        if self.line.receive().is_err() {
            self.line.is_cut = true;
        }
        loop {
            match self.line.inbox.next::<Order>() {
                Ok(Some(Order::Signal(signal))) => {
                    if let Some(signal) = Signal::from_named_raw(signal) {
                        self.job.signal(signal);
                        if asks_to_end(signal) {
                            self.supervision.asked_to_end(clock::now());
                        }
                    }
                }
                Ok(Some(Order::Kill)) => {
                    self.supervision
                        .kill(StopReason::SecondSignal, clock::now());
                }
                Ok(Some(Order::Extend(plan))) => {
                    self.supervision.extend(plan.received(clock::now()));
                }
                Ok(Some(Order::Stop(reason))) => self.supervision.stop(reason, clock::now()),
                Ok(Some(Order::Start(_) | Order::Release(_) | Order::Leave)) => {}
                Ok(None) => break,
                Err(_) => {
                    self.line.is_cut = true;
                    break;
                }
            }
        }
        if self.line.is_cut {
            self.supervision.stop(StopReason::HolderGone, clock::now());
        }
    }

    /// Returns whether the job has ended.
    fn note_changes(&mut self) -> bool {
        // Emptied before the children are checked: a later change signals again.
        while matches!((&self.changed).read(&mut [0; 64]), Ok(1..)) {}
        while let Some(change) = self.job.next_change() {
            match change {
                Change::Over => return true,
                // Unless it is being stopped, with all that it has started.
                Change::LeaderEnded
                    if self.leaves_children && self.supervision.stopped_for().is_none() =>
                {
                    self.job.leave();
                    return true;
                }
                Change::LeaderEnded => self.supervision.stop(StopReason::LeftBehind, clock::now()),
                Change::Stopped(signal) => {
                    let _ = self.line.send(&Report::Stopped { signal });
                }
            }
        }
        false
    }

    fn wait(&mut self, limit: Option<Timespec>) -> io::Result<()> {
        // The end of processes that are not our children is not reported, so check again soon.
        let blind = !ORPHANS_ARE_ADOPTED && self.job.status().is_some();
        let limit = limit.filter(|_| !blind).or(blind.then_some(Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        }));
        let wanted = if self.line.outbox.is_empty() {
            PollFlags::IN
        } else {
            PollFlags::IN | PollFlags::OUT
        };
        let mut ready = vec![
            PollFd::new(&self.changed, PollFlags::IN),
            PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN),
        ];
        if !self.line.is_cut {
            ready.push(PollFd::new(&self.line.socket, wanted));
        }
        match poll(&mut ready, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        drop(ready);
        self.line.try_flush();
        Ok(())
    }

    /// Reports the end of the job, if `run` is still there.
    fn conclude(&mut self) -> Ended {
        let ended = Ended {
            status: self.job.status(),
            stopped: self.supervision.stopped_for(),
            survivors: self.job.survivors(),
        };
        if !self.line.is_cut {
            // `run` may die at this instant.
            let sent = self.line.send(&Report::Ended(ended.clone()));
            self.line.is_cut = sent.and_then(|()| self.line.flush()).is_err();
        }
        ended
    }
}

/// The socket to `run`. Nothing here blocks, because a stopped `run` does not read.
struct Line {
    socket: UnixStream,
    inbox: Inbox,
    outbox: Vec<u8>,
    is_cut: bool,
}

impl Line {
    /// The socket that this process received as its standard input.
    fn of_stdin() -> io::Result<Self> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self {
            socket: UnixStream::from(socket),
            inbox: Inbox::default(),
            outbox: Vec::new(),
            is_cut: false,
        })
    }

    /// What to start, and with which stdin, stdout and stderr. `None` if `run` is gone before it sent the order.
    fn first_order(&mut self) -> io::Result<Option<(Start, [OwnedFd; 3])>> {
        let receive = || receive_file(&self.socket);
        let (Some(stdin), Some(stdout), Some(stderr)) = (receive()?, receive()?, receive()?) else {
            return Ok(None);
        };
        let files = [stdin, stdout, stderr];
        let mut bytes = [0; 4096];
        loop {
            match self.inbox.next()? {
                Some(Order::Start(start)) => {
                    self.socket.set_nonblocking(true)?;
                    return Ok(Some((*start, files)));
                }
                Some(_) => {}
                None => match self.socket.read(&mut bytes)? {
                    0 => return Ok(None),
                    length => self.inbox.extend(&bytes[..length]),
                },
            }
        }
    }

    /// Waits until `run` has released the lock, or hands the release over. `None` if it is gone before.
    fn last_order(&mut self) -> Option<Order> {
        let mut bytes = [0; 4096];
        loop {
            match self.inbox.next().ok()? {
                Some(last @ (Order::Release(_) | Order::Leave)) => return Some(last),
                Some(_) => {}
                None if self.is_cut => return None,
                None => match self.socket.read(&mut bytes) {
                    Ok(length @ 1..) => self.inbox.extend(&bytes[..length]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => return None,
                },
            }
        }
    }

    /// Reads what is available.
    fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => {
                    self.is_cut = true;
                    return Ok(());
                }
                Ok(length) => self.inbox.extend(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends as much as possible now. The rest follows later.
    fn send(&mut self, report: &Report) -> io::Result<()> {
        self.outbox.extend(frame(report)?);
        self.try_flush();
        Ok(())
    }

    fn try_flush(&mut self) {
        while !self.outbox.is_empty() {
            match self.socket.write(&self.outbox) {
                Ok(length) => drop(self.outbox.drain(..length)),
                // Broken or full: reading shows whether `run` lives.
                Err(_) => return,
            }
        }
    }

    /// Reports that nothing was started.
    fn refuse(&mut self, why: NotStarted) -> io::Result<()> {
        self.send(&Report::NotStarted(why))?;
        self.flush()
    }

    /// Sends all of it, however long it takes.
    fn flush(&mut self) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        self.socket.write_all(&std::mem::take(&mut self.outbox))
    }
}

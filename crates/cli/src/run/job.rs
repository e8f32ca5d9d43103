//! The command from its start to its end.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::pin::pin;

use rustix::process::Signal;
use rustix::stdio::dup2_stdin;
use rustix::termios::isatty;
use shedlock::{
    Clock, Deadline, HeldLock, JournalWriter, LockProvider, LostReason, Slot, SystemClock,
};

use super::events::Events;
use super::follow::follow;
use super::foreground::Foreground;
use super::keys::Keys;
use super::signals::{Asked, Signals};
use super::tee::{Passing, Tee};
use super::{environment, program, slot};
use crate::args::{JournalErrors, RunArgs};
use crate::clock;
use crate::exit::{self, Failure};
use crate::signals::asks_to_end;
use crate::spool::KeptRun;
use crate::store::Store;
use crate::terminal::Terminal;
use crate::watchdog::{
    Copies, Ended, Guard, Heirloom, Legacy, News, NotStarted, Plan, Start, StopReason,
};
use crate::words;

/// The command to run under a lock.
pub(super) struct Job<'a> {
    args: &'a RunArgs,
    program: &'a Path,
    store: Store,
    journal: Option<&'a JournalWriter>,
    events: &'a Events,
    signals: &'a mut Signals,
    asked: Option<Asked>,
    tee: Option<Tee>,
    output: Option<Passing>,
    /// The watchdog of the command that has ended.
    watchdog: Option<Guard>,
}

impl<'a> Job<'a> {
    pub(super) fn new(
        args: &'a RunArgs,
        program: &'a Path,
        store: Store,
        journal: Option<&'a JournalWriter>,
        events: &'a Events,
        signals: &'a mut Signals,
    ) -> Self {
        Self {
            args,
            program,
            store,
            journal,
            events,
            signals,
            asked: None,
            tee: None,
            output: None,
            watchdog: None,
        }
    }

    /// Keeps the end of the command's output. If that is not possible, the command runs without.
    pub(super) fn keep_output(&mut self, terminal: Terminal) {
        match Tee::start() {
            Ok(tee) => self.tee = Some(tee),
            Err(error) => terminal.error(&format!(
                "{}: the ping will have no output: cannot create a pipe: {error}; check the limits \
                 on open files and processes",
                self.args.name
            )),
        }
    }

    /// The output of the command that has ended, if it is kept.
    pub(super) fn output(&mut self) -> Option<Passing> {
        self.output.take()
    }

    /// The watchdog of the command that has ended, if it is alive.
    pub(super) fn watchdog(&mut self) -> Option<Guard> {
        self.watchdog.take()
    }

    /// The signals that have asked this process, and so the command, to end.
    pub(super) fn asked_to_end(&self) -> Option<Asked> {
        self.asked
    }

    /// Runs the command until it and all processes that it started have ended, or are left and cannot be stopped.
    pub(super) async fn run(
        &mut self,
        lock: &HeldLock,
        provider: &dyn LockProvider,
    ) -> Result<Ended, Failure> {
        let run_until = self.run_until();
        let plan = self.plan_of(lock, run_until);
        if !plan.has_time(clock::now()) {
            return Err(self.too_late());
        }
        let mut guard = self.guarded(lock, plan)?;
        // A later attempt at the slot continues reading where this one stopped.
        if !self.args.must_not_be_lost {
            let_go_of_stdin();
        }
        let mut foreground = Foreground::of_stdin();
        let mut keys = Keys::default();
        let mut is_running = false;
        let mut following = pin!(follow(lock, provider));
        let (mut lost, mut is_lost) = (pin!(lock.lost()), false);
        loop {
            tokio::select! {
                biased;
                news = guard.next() => match news {
                    News::Started(group) => {
                        is_running = true;
                        foreground.lend(group);
                    }
                    News::NotStarted(why) => return Err(self.not_started(&why)),
                    News::Stopped(signal) => stopped(signal, &mut foreground, &mut guard),
                    News::Ended(ended) => {
                        self.watchdog = Some(guard);
                        return Ok(ended);
                    }
                },
                // Signals that arrive before the command has started wait for it.
                signal = self.signals.next(), if is_running => {
                    self.pass_on(signal, &mut foreground, &mut guard);
                }
                () = keys.ctrl_c(foreground.lent_to()) => {
                    let grace = self.args.stop_grace();
                    if Asked::note_typed(&mut self.asked, grace, SystemClock.now()) {
                        guard.kill();
                    }
                }
                never = &mut following, if !self.args.keep_alive => match never {},
                reason = &mut lost, if !is_lost => {
                    is_lost = true;
                    guard.stop(match reason {
                        LostReason::NotHeldInStore => StopReason::LeaseLost,
                        _ => StopReason::LeaseOver,
                    });
                }
                () = self.events.extended() => guard.extend(self.plan_of(lock, run_until)),
            }
        }
    }

    /// Starts the watchdog, and with it the command.
    fn guarded(&mut self, lock: &HeldLock, plan: Plan) -> Result<Guard, Failure> {
        let tee = self.tee.take();
        let guard = {
            let (stdout, stderr) = (io::stdout(), io::stderr());
            let files = match &tee {
                Some(tee) => tee.files(),
                None => [stdout.as_fd(), stderr.as_fd()],
            };
            Guard::start(self.start(lock, plan), plan, files)
        };
        self.output = tee.map(Tee::close);
        guard.map_err(|error| unguarded(&error))
    }

    /// Passes a signal on to the command.
    fn pass_on(&mut self, signal: Signal, foreground: &mut Foreground, guard: &mut Guard) {
        match signal {
            Signal::CONT => foreground.continued(),
            Signal::TSTP => foreground.asked_to_stop(),
            _ => {}
        }
        if asks_to_end(signal) && Asked::note(&mut self.asked, signal, SystemClock.now()) {
            guard.kill();
        } else {
            guard.signal(signal);
        }
    }

    /// When the command is stopped, whatever its lease.
    fn run_until(&self) -> Option<Deadline> {
        let longest = self.args.max_run_time?;
        Some(clock::now().deadline(longest))
    }

    /// The clock is read before the remaining time is, so the plan is early rather than late.
    fn plan_of(&self, lock: &HeldLock, run_until: Option<Deadline>) -> Plan {
        let now = clock::now();
        let plan = Plan::new(
            now.deadline(lock.time_left()),
            lock.lease().lock_at_most_for(),
        )
        .with_stop_grace(self.args.stop_grace());
        match run_until {
            Some(until) => plan.with_run_until(until),
            None => plan,
        }
    }

    fn start(&self, lock: &HeldLock, plan: Plan) -> Start {
        let (name, arguments) = self
            .args
            .command
            .split_first()
            .expect("the argument parser requires a command");
        Start {
            program: self.program.as_os_str().to_owned(),
            name: name.clone(),
            arguments: arguments.to_vec(),
            environment: environment::of(lock, self.args, self.store.address()),
            leave_children: self.args.leave_children,
            plan: plan.to_send(clock::now()),
            lock: self.heirloom(lock),
        }
    }

    /// What the watchdog needs to release the lock if this process is killed.
    fn heirloom(&self, lock: &HeldLock) -> Heirloom {
        let lease = lock.lease();
        Heirloom {
            store: self.store.address().clone(),
            journal: self.journal.and_then(|writer| {
                let open = writer.open_run(lock.owner())?;
                Some(Legacy {
                    address: self.store.journal_address().cloned(),
                    run: KeptRun::of(&open.run, open.next),
                    identity: open.journal,
                    has_errors: self.args.journal_errors != JournalErrors::None,
                    handed_over: SystemClock.system_time(),
                })
            }),
            store_option: words::store_option().to_owned(),
            name: lock.name().as_str().to_owned(),
            owner: lock.owner().as_str().to_owned(),
            lock_at_most_for: lease.lock_at_most_for(),
            lock_at_least_for: lease.lock_at_least_for(),
            slot: lock.slot().map(Slot::as_micros),
            slot_tolerance: slot::tolerance(self.args),
            must_not_be_lost: self.args.must_not_be_lost,
            copies: lock.unanswered().iter().map(Copies::from).collect(),
        }
    }

    fn not_started(&self, why: &NotStarted) -> Failure {
        let program = self.program.to_string_lossy();
        match why {
            NotStarted::TooLate => self.too_late(),
            NotStarted::Unguarded(number) => unguarded(&number.map_or_else(
                || io::Error::other("unknown error"),
                io::Error::from_raw_os_error,
            )),
            NotStarted::Refused(number) => {
                let error = io::Error::from_raw_os_error(*number);
                let code = match error.kind() {
                    io::ErrorKind::NotFound => exit::NOT_FOUND,
                    _ => exit::NOT_EXECUTABLE,
                };
                if let Some(why) = program::broken_interpreter(self.program) {
                    return Failure::new(code, format!("cannot run {program:?}: {why}"));
                }
                if code == exit::NOT_FOUND && self.program.exists() {
                    return Failure::new(
                        code,
                        format!("cannot run {program:?}: the loader that it needs was not found"),
                    );
                }
                Failure::new(code, format!("cannot run {program:?}: {error}"))
            }
        }
    }

    fn too_late(&self) -> Failure {
        Failure::new(
            exit::STORE,
            format!(
                "{}: the command was not started: the store granted the lock so late that no time \
                 is left; raise --lock-at-most-for, or check the latency of the store",
                self.args.name
            ),
        )
    }
}

fn unguarded(error: &io::Error) -> Failure {
    Failure::new(
        exit::INTERNAL,
        format!("cannot start the watchdog: {error}; the command was not started"),
    )
}

/// Closes our copy of the command's input. The writer must notice when the command closes its input, so it is not kept
/// open here. A terminal is kept, to be lent to the command and taken back.
fn let_go_of_stdin() {
    if !isatty(io::stdin().as_fd())
        && let Ok(null) = File::open("/dev/null")
    {
        // If this fails, the input stays open until the command ends.
        let _ = dup2_stdin(null);
    }
}

fn stopped(signal: i32, foreground: &mut Foreground, guard: &mut Guard) {
    let Some(signal) = Signal::from_named_raw(signal) else {
        return;
    };
    if foreground.command_stopped(signal) {
        guard.signal(Signal::CONT);
    }
}

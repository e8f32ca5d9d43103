//! One turn: the lock, the command, and the end of both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid};
use shedlock::{
    Clock, HeldLock, LockConfig, Release, Skip, Slot, SlotEnd, SystemClock, UnlockRequest,
};

use super::acquire::{Acquired, Keeps, acquire, first_to_end, settle};
use super::events::Events;
use super::job::Job;
use super::pings::Pings;
use super::signals::{Signals, name_of};
use super::{LOSS, code_of, explain, program, slot};
use crate::args::RunArgs;
use crate::clock;
use crate::exit::{self, Failure};
use crate::journal;
use crate::metrics::Serving;
use crate::output;
use crate::terminal::Terminal;
use crate::unreleased::Unreleased;
use crate::watchdog::{Ended, Guard, SlotFate, Status, StopReason};

/// What all turns of one `run` share.
pub(super) struct Runner<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) terminal: Terminal,
    program: PathBuf,
    signals: Signals,
    pings: Pings<'a>,
    /// Whether the lock stays taken after an attempt that failed here, as was reported.
    is_backing_off: bool,
    /// Whether the command was started, in an earlier turn.
    has_run: bool,
}

/// The result of a turn.
pub(super) enum Turn {
    /// Another owner has the lock or the slot.
    Skipped(Skip),
    /// A signal asked this process to end before it got the lock. The command was not run.
    Interrupted(Signal),
    /// The command was run.
    Ran(Ran),
}

/// The result of the command.
pub(super) struct Ran {
    /// The exit code for it.
    pub(super) code: u8,
    /// Which attempt at its slot it was, if attempts are counted.
    pub(super) attempt: Option<u32>,
    /// Whether a signal asked this process to end in the meantime.
    pub(super) is_asked_to_end: bool,
    /// How long the lock may stay taken, apart from the pause after a failure.
    taken_for: Duration,
    is_released: bool,
    /// Another owner had the lock before this one gave it back, or may have had it.
    pub(super) is_overlapped: bool,
    /// Whether processes of the command are left, or may be.
    pub(super) has_survivors: bool,
}

/// The lock after the command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Back,
    /// It was not released: it is free when its lease has ended, or is not ours any more.
    NotBack,
    /// The lease was lost although the command ended by itself.
    Lost,
}

impl<'a> Runner<'a> {
    /// Checks everything that can be checked before anything happens.
    pub(super) fn prepare(
        args: &'a RunArgs,
        slot: Option<Slot>,
        terminal: Terminal,
    ) -> Result<Self, Failure> {
        let what_to_do = if args.keep_alive {
            "set it to the time that the lock may stay taken if this host dies, like 5m; with \
             --keep-alive, the command may run longer"
        } else {
            "set it longer than the command can take, like 10m or 1h30m; the command is stopped \
             before this time has passed, and if this host dies, the lock stays taken until it has \
             passed"
        };
        args.claim().check("--name", what_to_do)?;
        lock(args, slot, Duration::ZERO).validate()?;
        let pings = Pings::of(args, terminal)?;
        let program = program::find(&args.command[0])?;
        let signals = Signals::listen().map_err(|error| {
            Failure::new(exit::INTERNAL, format!("cannot handle signals: {error}"))
        })?;
        Ok(Self {
            args,
            terminal,
            program,
            signals,
            pings,
            is_backing_off: false,
            has_run: false,
        })
    }

    /// Runs the command if its lock is free, or becomes free within this time.
    pub(super) async fn turn(
        &mut self,
        slot: Option<Slot>,
        wait: Duration,
    ) -> Result<Turn, Failure> {
        let events = Arc::new(Events::new(
            self.terminal,
            "the command will be stopped before the lease ends",
            std::mem::take(&mut self.is_backing_off),
        ));
        let lock = lock(self.args, slot, wait);
        let claim = self.args.claim();
        let keeps = Keeps(Some(self.args));
        let since = clock::now();
        let signals = &mut self.signals;
        let acquired = acquire(&claim, &lock, &events, signals, keeps, self.terminal).await;
        let (name, again) = (&self.args.name, self.has_run);
        let acquired = acquired.map_err(|failure| failure.not_started(name, again));
        let (held, executor, store) = match acquired? {
            Acquired::Lock(held, executor, store) => (held, executor, store),
            Acquired::Skipped(skip, _) => return Ok(Turn::Skipped(skip)),
            Acquired::Interrupted(signal) => return Ok(Turn::Interrupted(signal)),
        };
        let attempt = held.slot_attempt();
        let lease = held.lease();
        self.pings.started(&lease);
        let _serving = Serving::start(self.args, &executor, self.terminal);
        let journal = executor.get_journal();
        let signals = &mut self.signals;
        let mut job = Job::new(self.args, &self.program, store, journal, &events, signals);
        if self.pings.take_output() {
            job.keep_output(self.terminal);
        }
        let ended = job.run(&held, &**executor.provider()).await;
        let asked = job.asked_to_end();
        let output = job.output();
        let watchdog = job.watchdog();
        if let Ok(ended) = &ended {
            explain(
                ended,
                asked,
                events.not_extended(),
                clock::now().jumped_since(since),
                self.args,
                self.terminal,
            );
        }
        let left = ended.as_ref().ok().filter(|it| it.survivors.are_left());
        let has_survivors = left.is_some();
        let given = match left {
            Some(left) => self.leave(held, left),
            None => {
                self.release(held, &events, &ended, asked.is_some(), watchdog)
                    .await
            }
        };
        let code = match (&ended, given) {
            (Err(failure), _) => failure.number(),
            (Ok(_), Given::Lost) => exit::LOST,
            (Ok(ended), Given::Back | Given::NotBack) => code_of(ended),
        };
        let name = &self.args.name;
        tokio::select! {
            () = async {
                let output = match output {
                    Some(output) => Some(output.end().await),
                    None => None,
                };
                self.pings.ended(&lease, code, output);
                settle(&executor, name, self.terminal).await;
                tokio::join!(
                    journal::flush(journal, self.args, self.terminal),
                    self.pings.flush(self.terminal),
                );
            } => {}
            _ = first_to_end(&mut self.signals) => {}
        }
        ended?;
        self.has_run = true;
        Ok(Turn::Ran(Ran {
            code,
            attempt,
            is_asked_to_end: asked.is_some(),
            taken_for: if given == Given::Back {
                lease.lock_at_least_for()
            } else {
                lease.lock_at_most_for()
            },
            is_released: given == Given::Back,
            is_overlapped: given == Given::Lost,
            has_survivors,
        }))
    }

    /// Reports an attempt at a slot that has failed, and what follows.
    pub(super) fn report_attempt(&mut self, slot: Slot, attempt: u32, ran: &Ran) {
        let retries = self.args.retries();
        let (name, code, of) = (&self.args.name, ran.code, retries.get_max_attempts());
        if attempt >= of {
            return self.terminal.error(&format!(
                "{name}: the last attempt at slot {slot} failed (attempt {attempt} of {of}, exit \
                 code {code}), and the slot is given up; {}",
                slot::again(self.args, slot, ran.taken_for)
            ));
        }
        let mut text =
            format!("{name}: attempt {attempt} of {of} at slot {slot} failed (exit code {code})");
        if ran.is_released {
            let pause = output::duration(retries.pause_after(attempt));
            text.push_str(&format!("; the next attempt is in {pause} at the earliest"));
        }
        self.is_backing_off = ran.is_released;
        self.terminal.warning(&text);
    }

    /// Leaves the lock taken until its lease ends, because processes of the command may run until then, and longer.
    fn leave(&self, held: HeldLock, ended: &Ended) -> Given {
        let (name, lock) = (held.name().clone(), Unreleased::of(&held));
        let is_over = held.time_left().is_zero();
        held.leave_with(failure(Some(ended), code_of(ended)));
        self.terminal.error(&format!(
            "{name}: {}; they may run while another owner holds the lock; the lock is not released: {}",
            ended.survivors,
            lock.fate(is_over)
        ));
        Given::NotBack
    }

    /// Gives the lock back. Unless that finds the lease lost although the command ended by itself, the command's exit
    /// code counts, since the command has run.
    ///
    /// A slot that must not be lost is done if the command succeeded. If the command failed, the slot waits for its
    /// backoff. If the command was asked to end, other hosts may take the slot immediately, and the run does not count.
    /// If the command never ran, any slot is given back.
    async fn release(
        &mut self,
        held: HeldLock,
        events: &Events,
        ended: &Result<Ended, Failure>,
        has_signal: bool,
        watchdog: Option<Guard>,
    ) -> Given {
        // Calls to an unavailable store are retried. The caller waits for its command, not for that.
        const PATIENCE: Duration = Duration::from_secs(10);
        let name = held.name().clone();
        let lock = Unreleased::of(&held);
        let locked_until = held.locked_until();
        let unrecorded = self.unrecorded(&held, ended);
        let fate = self.slot_fate(&held, ended, has_signal);
        let (now, left) = (SystemClock.now(), held.time_left());
        let give_up = now + PATIENCE;
        let is_past_the_lease = || SystemClock.now() >= now + left;
        events.forget_store_error();
        let unlock = async {
            match ended.as_ref().map(code_of) {
                Err(_) => {
                    held.unlock_with(&UnlockRequest::new().with_slot_end(SlotEnd::NotStarted))
                        .await
                }
                Ok(0) => held.unlock().await,
                Ok(_) if has_signal => {
                    held.unlock_with(&UnlockRequest::new().with_slot_end(SlotEnd::Cut))
                        .await
                }
                Ok(code) => held.fail_with(failure(ended.as_ref().ok(), code)).await,
            }
        };
        let command = match ended {
            Ok(_) => "the command has ended",
            Err(_) => "the command was not started",
        };
        let patience = match &lock.until {
            _ if left >= PATIENCE => format!("for up to {}", output::duration(PATIENCE)),
            Some(until) => format!("until the lease ends at {until}"),
            None => "until the lease ends".to_owned(),
        };
        let mut last_error = None;
        let released = tokio::select! {
            biased;
            released = unlock => Ok(released),
            signal = first_to_end(&mut self.signals) => Err(End::Signal(signal)),
            () = SystemClock.sleep_until(give_up) => {
                // The first process of a container takes all others with it.
                let watchdog = watchdog.filter(|_| !lock.ends_soon() && getpid() != Pid::INIT);
                Err(match watchdog.map(|watchdog| watchdog.hand_over(fate)) {
                    Some(Ok(())) => End::HandedOver,
                    None | Some(Err(_)) => End::GaveUp,
                })
            }
            () = retrying(events, &mut last_error, |why| {
                self.terminal.notice(&format!(
                    "{name}: {command}; cannot release the lock yet, retrying {patience}: {why}"
                ));
            }) => {
                unreachable!("it retries until something else happens")
            }
        };
        let is_lost = matches!(released, Ok(Release::Lost));
        let (why, end) = match released {
            Ok(Release::Failed(error)) => (format!("{:#}", error.cause(name.as_str())), None),
            Ok(Release::MaybeOverlapped) => {
                return match ended.as_ref().ok().filter(|ended| is_uncut(ended)) {
                    Some(ended) => {
                        self.report_doubt(name.as_str(), ended);
                        Given::Lost
                    }
                    None => Given::NotBack,
                };
            }
            Ok(Release::Lost) => {
                // The lease ran when the command ended.
                let is_late = !left.is_zero() && is_past_the_lease();
                let Some(ended) = ended.as_ref().ok().filter(|ended| is_uncut(ended)) else {
                    // The reason is printed already, unless the command was stopped at the end of a lease
                    // that had long been lost.
                    let is_at_end = |ended: &Ended| ended.stopped == Some(StopReason::Deadline);
                    // If the lease has ended by now, the store no longer tells the two apart.
                    let has_ended = locked_until.is_some_and(|it| it <= SystemClock.system_time());
                    if !is_late
                        && !has_ended
                        && !self.args.keep_alive
                        && ended.as_ref().is_ok_and(is_at_end)
                    {
                        self.terminal.error(&format!(
                            "{name}: the lease had been lost before ({LOSS}): another run may have \
                             overlapped this one"
                        ));
                    }
                    return Given::NotBack;
                };
                if !is_late {
                    self.report_loss(name.as_str(), ended);
                    return Given::Lost;
                }
                let late = || "the store did not reply in time".to_owned();
                (last_error.unwrap_or_else(late), None)
            }
            Ok(_) => return Given::Back,
            Err(end) => (last_error.unwrap_or_else(|| NO_REPLY.to_owned()), Some(end)),
        };
        let is_handed_over = matches!(end, Some(End::HandedOver));
        let end = match end {
            Some(End::Signal(signal)) => format!("; {} arrived", name_of(signal)),
            Some(End::GaveUp | End::HandedOver) => {
                format!("; gave up after {}", output::duration(PATIENCE))
            }
            None => String::new(),
        };
        let not_released = format!("was not released: {why}{end}");
        if is_handed_over {
            let fate = lock.goes_on();
            self.terminal
                .error(&format!("{name}: the lock {not_released}; {fate}"));
            return Given::NotBack;
        }
        // This host's calendar and the store's may differ.
        let has_passed = |until| until <= SystemClock.system_time();
        let is_over = is_lost || is_past_the_lease() && locked_until.is_none_or(has_passed);
        let fate = lock.fate(is_over);
        self.terminal.error(&format!(
            "{name}: the lock {not_released}; {fate}{unrecorded}"
        ));
        Given::NotBack
    }

    /// How the slot of a command that was started ends with its lock.
    fn slot_fate(
        &self,
        held: &HeldLock,
        ended: &Result<Ended, Failure>,
        has_signal: bool,
    ) -> SlotFate {
        let durable = self.args.must_not_be_lost;
        match ended.as_ref().map_or(exit::INTERNAL, code_of) {
            0 => SlotFate::Done { durable },
            _ if has_signal => SlotFate::Cut,
            _ if durable => {
                let attempt = held.slot_attempt().unwrap_or(1);
                let retry_after = self.args.retries().pause_after(attempt);
                SlotFate::Failed { retry_after }
            }
            _ => SlotFate::Open,
        }
    }

    /// What it means for the slot if a success is not recorded, because the lock is not released.
    fn unrecorded(&self, held: &HeldLock, ended: &Result<Ended, Failure>) -> String {
        let is_done = ended.as_ref().is_ok_and(|ended| code_of(ended) == 0);
        let Some(slot) = held
            .slot()
            .filter(|_| self.args.must_not_be_lost && is_done)
        else {
            return String::new();
        };
        let is_last = held.slot_attempt() >= Some(self.args.retries().get_max_attempts());
        let follows = if is_last {
            "it counts as given up, since it was the last attempt"
        } else {
            "the next start that gets the lock runs it again"
        };
        format!("; slot {slot} is not recorded as done: {follows}")
    }

    /// Reports that it cannot be told whether the lease was lost before the lock was given back.
    fn report_doubt(&self, name: &str, ended: &Ended) {
        self.terminal.error(&format!(
            "{name}: the reply to the unlock was lost, and another owner has had the lock since: another run may have \
             overlapped this one; the command exited with {}",
            code_of(ended)
        ));
    }

    /// Reports a loss that is found when the lock is given back.
    fn report_loss(&self, name: &str, ended: &Ended) {
        self.terminal.error(&format!(
            "{name}: the lease was lost before the command ended ({LOSS}): another run may have \
             overlapped this one; the command exited with {}",
            code_of(ended)
        ));
    }
}

fn lock(args: &RunArgs, slot: Option<Slot>, wait: Duration) -> LockConfig {
    let lock = args.claim().config().lock_wait(wait);
    match slot {
        Some(slot) => slot::claimed_by(lock, slot, args),
        None => lock,
    }
}

/// Whether the command ended by itself or by a signal to it, so that nothing has reported a loss of its lease yet.
fn is_uncut(ended: &Ended) -> bool {
    use StopReason::{IgnoredSignal, LeftBehind, SecondSignal};
    matches!(
        ended.stopped,
        None | Some(LeftBehind | IgnoredSignal | SecondSignal)
    )
}

/// Why the run has failed, for the journal: whether the command was stopped, or ended by itself.
fn failure(ended: Option<&Ended>, code: u8) -> String {
    use StopReason::{Deadline, LeaseLost, LeaseOver, RanTooLong, WatchdogGone};
    let stopped = match ended.and_then(|ended| ended.stopped) {
        Some(Deadline) => Some("its lease was about to end"),
        Some(RanTooLong) => Some("it ran longer than --max-run-time"),
        Some(LeaseOver) => Some("its lease had ended"),
        Some(LeaseLost) => Some("its lease was lost"),
        Some(WatchdogGone) => Some("the watchdog was killed"),
        _ => None,
    };
    let has_survivors = ended.is_some_and(|ended| ended.survivors.are_left());
    match (stopped, ended.and_then(|ended| ended.status)) {
        (Some(why), _) => format!("stopped: {why} (exit code {code})"),
        (None, _) if has_survivors => {
            format!("some of its processes are left (exit code {code})")
        }
        (None, Some(Status::Signalled(signal))) => {
            format!("ended by signal {signal} (exit code {code})")
        }
        (None, _) => format!("exit code {code}"),
    }
}

/// Why this process no longer tries to release the lock.
enum End {
    Signal(Signal),
    GaveUp,
    /// Its watchdog goes on.
    HandedOver,
}

const NO_REPLY: &str = "the store does not reply";

/// Reports once that the unlock is not done yet, and remembers the last reason. Never completes.
async fn retrying(events: &Events, last_error: &mut Option<String>, report: impl FnOnce(&str)) {
    const SILENCE: Duration = Duration::from_secs(1);
    *last_error = tokio::select! {
        error = events.store_error() => Some(error),
        () = SystemClock.sleep_until(SystemClock.now() + SILENCE) => None,
    };
    report(last_error.as_deref().unwrap_or(NO_REPLY));
    loop {
        *last_error = Some(events.store_error().await);
    }
}

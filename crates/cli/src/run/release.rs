//! The end of a turn: the lock is given back.

use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, getpid};
use shedlock::{Clock, HeldLock, LockName, Moment, Release, SlotEnd, SystemClock, UnlockRequest};

use super::acquire::first_to_end;
use super::events::Events;
use super::signals::{Signals, name_of};
use super::{LOSS, code_of};
use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::terminal::Terminal;
use crate::unreleased::Unreleased;
use crate::watchdog::{Ended, Guard, SlotFate, Status, StopReason};

/// Calls to an unavailable store are retried. The caller waits for its command, not for that.
const PATIENCE: Duration = Duration::from_secs(10);

/// The lock after the command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    Back,
    /// It was not released: it is free when its lease has ended, or is not ours any more.
    NotBack,
    /// The lease was lost although the command ended by itself.
    Lost,
}

/// Leaves the lock taken until its lease ends, because processes of the command may run until then, and longer.
pub(super) fn leave(held: HeldLock, ended: &Ended, terminal: Terminal) -> Given {
    let (name, lock) = (held.name().clone(), Unreleased::of(&held));
    let is_over = held.time_left().is_zero();
    held.leave_with(failure(Some(ended), code_of(ended)));
    terminal.error(&format!(
        "{name}: {}; they may run while another owner holds the lock; the lock is not released: {}",
        ended.survivors,
        lock.fate(is_over)
    ));
    Given::NotBack
}

/// A lock that is given back after its command, or because the command was not started.
pub(super) struct Ending<'a> {
    args: &'a RunArgs,
    terminal: Terminal,
    ended: &'a Result<Ended, Failure>,
    /// A signal has asked this process to end.
    has_signal: bool,
    name: LockName,
    lock: Unreleased,
    locked_until: Option<SystemTime>,
    begun: Moment,
    /// How much of the lease was left then.
    left: Duration,
    fate: SlotFate,
    unrecorded: String,
}

impl<'a> Ending<'a> {
    pub(super) fn of(
        held: &HeldLock,
        args: &'a RunArgs,
        ended: &'a Result<Ended, Failure>,
        has_signal: bool,
        terminal: Terminal,
    ) -> Self {
        Self {
            args,
            terminal,
            ended,
            has_signal,
            name: held.name().clone(),
            lock: Unreleased::of(held),
            locked_until: held.locked_until(),
            begun: SystemClock.now(),
            left: held.time_left(),
            fate: slot_fate(held, args, ended, has_signal),
            unrecorded: unrecorded(held, args, ended),
        }
    }

    /// Gives the lock back. Unless that finds the lease lost although the command ended by itself, the command's exit
    /// code counts, since the command has run.
    pub(super) async fn release(
        self,
        held: HeldLock,
        events: &Events,
        signals: &mut Signals,
        mut watchdog: Option<Guard>,
    ) -> Given {
        events.forget_store_error();
        let mut last_error = None;
        let released = tokio::select! {
            biased;
            released = self.unlock(held) => Ok(released),
            signal = first_to_end(signals) => Err(End::Signal(signal)),
            () = SystemClock.sleep_until(self.begun + PATIENCE) => Err(self.give_up(watchdog.take())),
            () = retrying(events, &mut last_error, |why| self.report_retry(why)) => {
                unreachable!("it retries until something else happens")
            }
        };
        if let Some(watchdog) = watchdog {
            watchdog.leave();
        }
        match released {
            Ok(Release::Failed(error)) => {
                // What to do was said with an extension, or an earlier unlock, that failed.
                let was_said = last_error.is_some() || events.not_extended().is_some();
                let why = match was_said {
                    true => events.brief(self.name.as_str(), &error),
                    false => format!("{:#}", error.cause(self.name.as_str())),
                };
                self.not_released(&why, None, false)
            }
            Ok(Release::MaybeOverlapped) => match self.uncut() {
                Some(ended) => self.overlapped(
                    "the reply to the unlock was lost, and another owner has had the lock since",
                    ended,
                ),
                None => Given::NotBack,
            },
            Ok(Release::Lost) => self.lost(last_error),
            Ok(_) => Given::Back,
            Err(end) => {
                let why = last_error.unwrap_or_else(|| NO_REPLY.to_owned());
                self.not_released(&why, Some(&end), false)
            }
        }
    }

    /// A slot that must not be lost is done if the command succeeded. If the command failed, the slot waits for its
    /// backoff. If the command was asked to end, other hosts may take the slot immediately, and the run does not count.
    /// If the command never ran, any slot is given back.
    async fn unlock(&self, held: HeldLock) -> Release {
        let end = match self.ended.as_ref().map(code_of) {
            Err(_) => SlotEnd::NotStarted,
            Ok(0) => return held.unlock().await,
            Ok(_) if self.has_signal => SlotEnd::Cut,
            Ok(code) => {
                let failure = failure(self.ended.as_ref().ok(), code);
                return held.fail_with(failure).await;
            }
        };
        let request = UnlockRequest::new().with_slot_end(end);
        held.unlock_with(&request).await
    }

    /// Hands the release over to the watchdog, if that outlives this process.
    fn give_up(&self, watchdog: Option<Guard>) -> End {
        let Some(watchdog) = watchdog else {
            return End::GaveUp;
        };
        // The first process of a container takes all others with it.
        if self.lock.ends_soon() || getpid() == Pid::INIT {
            watchdog.leave();
            return End::GaveUp;
        }
        match watchdog.hand_over(self.fate) {
            Ok(()) => End::HandedOver,
            Err(_) => End::GaveUp,
        }
    }

    fn report_retry(&self, why: &str) {
        let command = match self.ended {
            Ok(_) => "the command has ended",
            Err(_) => "the command was not started",
        };
        let patience = match &self.lock.until {
            _ if self.left >= PATIENCE => format!("for up to {}", output::duration(PATIENCE)),
            Some(until) => format!("until the lease ends at {until}"),
            None => "until the lease ends".to_owned(),
        };
        self.terminal.notice(&format!(
            "{}: {command}; cannot release the lock yet, retrying {patience}: {why}",
            self.name
        ));
    }

    fn is_past_the_lease(&self) -> bool {
        SystemClock.now() >= self.begun + self.left
    }

    /// How the command ended, if nothing has reported a loss of its lease yet.
    fn uncut(&self) -> Option<&'a Ended> {
        self.ended.as_ref().ok().filter(|ended| is_uncut(ended))
    }

    /// The unlock has found the lease gone.
    fn lost(&self, last_error: Option<String>) -> Given {
        // The lease ran when the command ended.
        let is_late = !self.left.is_zero() && self.is_past_the_lease();
        match self.uncut() {
            Some(_) if is_late => {
                let late = || "the store did not reply in time".to_owned();
                self.not_released(&last_error.unwrap_or_else(late), None, true)
            }
            Some(ended) => self.overlapped(
                &format!("the lease was lost before the command ended ({LOSS})"),
                ended,
            ),
            None => {
                // The reason is printed already, unless the command was stopped at the end of a lease that had long
                // been lost. If the lease has ended by now, the store no longer tells the two apart.
                let is_at_end = |ended: &Ended| ended.stopped == Some(StopReason::Deadline);
                let has_ended = self.locked_until.is_some_and(has_passed);
                let is_over = is_late || has_ended || self.args.keep_alive;
                if !is_over && self.ended.as_ref().is_ok_and(is_at_end) {
                    self.terminal.error(&format!(
                        "{}: the lease had been lost before ({LOSS}): another run may have overlapped this one",
                        self.name
                    ));
                }
                Given::NotBack
            }
        }
    }

    /// Reports that another owner has had the lock, or may have had it, while the command ran.
    fn overlapped(&self, why: &str, ended: &Ended) -> Given {
        self.terminal.error(&format!(
            "{}: {why}: another run may have overlapped this one; the command exited with {}",
            self.name,
            code_of(ended)
        ));
        Given::Lost
    }

    /// Reports why the lock stays taken, and until when.
    fn not_released(&self, why: &str, end: Option<&End>, is_lost: bool) -> Given {
        let is_handed_over = matches!(end, Some(End::HandedOver));
        let end = match end {
            Some(End::Signal(signal)) => format!("; {} arrived", name_of(*signal)),
            Some(End::GaveUp | End::HandedOver) => {
                format!("; gave up after {}", output::duration(PATIENCE))
            }
            None => String::new(),
        };
        // This host's calendar and the store's may differ.
        let has_ended = self.is_past_the_lease() && self.locked_until.is_none_or(has_passed);
        let fate = match is_handed_over {
            true => self.lock.goes_on(),
            false => self.lock.fate(is_lost || has_ended) + &self.unrecorded,
        };
        let name = &self.name;
        self.terminal.error(&format!(
            "{name}: the lock was not released: {why}{end}; {fate}"
        ));
        Given::NotBack
    }
}

fn has_passed(until: SystemTime) -> bool {
    until <= SystemClock.system_time()
}

/// How the slot of a command that was started ends with its lock.
fn slot_fate(
    held: &HeldLock,
    args: &RunArgs,
    ended: &Result<Ended, Failure>,
    has_signal: bool,
) -> SlotFate {
    let durable = args.must_not_be_lost;
    match ended.as_ref().map_or(exit::INTERNAL, code_of) {
        0 => SlotFate::Done { durable },
        _ if has_signal => SlotFate::Cut,
        _ if durable => {
            let attempt = held.slot_attempt().unwrap_or(1);
            let retry_after = args.retries().pause_after(attempt);
            SlotFate::Failed { retry_after }
        }
        _ => SlotFate::Open,
    }
}

/// What it means for the slot if a success is not recorded, because the lock is not released.
fn unrecorded(held: &HeldLock, args: &RunArgs, ended: &Result<Ended, Failure>) -> String {
    let is_done = ended.as_ref().is_ok_and(|ended| code_of(ended) == 0);
    let Some(slot) = held.slot().filter(|_| args.must_not_be_lost && is_done) else {
        return String::new();
    };
    let is_last = held.slot_attempt() >= Some(args.retries().get_max_attempts());
    let follows = if is_last {
        "it counts as given up, since it was the last attempt"
    } else {
        "the next start that gets the lock runs it again"
    };
    format!("; slot {slot} is not recorded as done: {follows}")
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
    tokio::select! {
        error = events.store_error() => {
            report(&error.cause);
            *last_error = Some(error.brief);
        }
        () = SystemClock.sleep_until(SystemClock.now() + SILENCE) => report(NO_REPLY),
    }
    loop {
        *last_error = Some(events.store_error().await.brief);
    }
}

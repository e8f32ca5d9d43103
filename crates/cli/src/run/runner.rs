//! One turn: the lock, the command, and the end of both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use shedlock::{Executor, JournalWriter, Lease, LockConfig, Reading, Skip, Slot};

use super::acquire::{Acquired, Keeps, Taken, acquire, first_to_end, settle};
use super::events::Events;
use super::job::Job;
use super::pings::Pings;
use super::release::{Ending, Given, leave};
use super::signals::{Signals, name_of};
use super::tee::Passing;
use super::{code_of, explain, program, slot};
use crate::args::RunArgs;
use crate::clock;
use crate::exit::{self, Failure};
use crate::journal;
use crate::metrics::Serving;
use crate::output;
use crate::store::Store;
use crate::terminal::Terminal;

/// What all turns of one `run` share.
pub(super) struct Runner<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) terminal: Terminal,
    program: PathBuf,
    pub(super) signals: Signals,
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
        Ok(match acquired? {
            Acquired::Lock(taken) => Turn::Ran(self.run(taken, &events, since).await?),
            Acquired::Skipped(skip, _) => Turn::Skipped(skip),
            Acquired::Interrupted(signal) => Turn::Interrupted(signal),
        })
    }

    /// Runs the command under this lock, which was requested at this time, and gives the lock back.
    async fn run(&mut self, taken: Taken, events: &Events, since: Reading) -> Result<Ran, Failure> {
        let Taken {
            held,
            executor,
            journal,
            store,
        } = taken;
        let attempt = held.slot_attempt();
        let lease = held.lease();
        self.pings.started(&lease);
        let _serving = Serving::start(self.args, &executor, self.terminal);
        let mut job = self.job(store, journal.as_ref(), events);
        let ended = job.run(&held, &**executor.provider()).await;
        let asked = job.asked_to_end();
        let output = job.output();
        let watchdog = job.watchdog();
        if let Ok(ended) = &ended {
            let not_extended = events.not_extended();
            let jumped = clock::now().jumped_since(since);
            explain(ended, asked, not_extended, jumped, self.args, self.terminal);
        }
        let left = ended.as_ref().ok().filter(|it| it.survivors.are_left());
        let has_survivors = left.is_some();
        let given = match left {
            Some(left) => {
                if let Some(watchdog) = watchdog {
                    watchdog.leave();
                }
                leave(held, left, self.terminal)
            }
            None => {
                let ending = Ending::of(&held, self.args, &ended, asked.is_some(), self.terminal);
                let signals = &mut self.signals;
                ending.release(held, events, signals, watchdog).await
            }
        };
        let code = match (&ended, given) {
            (Err(failure), _) => failure.number(),
            (Ok(_), Given::Lost) => exit::LOST,
            (Ok(ended), Given::Back | Given::NotBack) => code_of(ended),
        };
        self.report_end(&executor, journal.as_ref(), &lease, code, output)
            .await;
        ended?;
        self.has_run = true;
        Ok(Ran {
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
        })
    }

    fn job<'j>(
        &'j mut self,
        store: Store,
        journal: Option<&'j JournalWriter>,
        events: &'j Events,
    ) -> Job<'j> {
        let signals = &mut self.signals;
        let mut job = Job::new(self.args, &self.program, store, journal, events, signals);
        if self.pings.take_output() {
            job.keep_output(self.terminal);
        }
        job
    }

    /// Tells pings and journal how the command ended. If a signal asks this process to end, what is not written by then is
    /// kept for a later `shedlock`.
    async fn report_end(
        &mut self,
        executor: &Executor,
        journal: Option<&JournalWriter>,
        lease: &Lease,
        code: u8,
        output: Option<Passing>,
    ) {
        let name = &self.args.name;
        let signal = tokio::select! {
            () = async {
                let output = match output {
                    Some(output) => Some(output.end().await),
                    None => None,
                };
                self.pings.ended(lease, code, output);
                settle(executor, name, self.terminal).await;
                tokio::join!(
                    journal::flush(journal, self.args, self.terminal),
                    self.pings.flush(self.terminal),
                );
            } => return,
            signal = first_to_end(&mut self.signals) => signal,
        };
        let Some(writer) = journal else { return };
        if writer.flush(Duration::ZERO).await > 0 {
            let until = format!("before {} arrived", name_of(signal));
            journal::keep_unwritten(writer, name, &until, self.terminal);
        }
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
}

fn lock(args: &RunArgs, slot: Option<Slot>, wait: Duration) -> LockConfig {
    let lock = args.claim().config().lock_wait(wait);
    match slot {
        Some(slot) => slot::claimed_by(lock, slot, args),
        None => lock,
    }
}

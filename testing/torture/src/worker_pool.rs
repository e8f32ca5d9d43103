//! Many worker processes over one namespace, some of whose holders are killed.

mod faults;
mod start;
mod tail;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use shedlock_conformance::wait::{bounded, now, sleep};
use shedlock_conformance::{Stop, Verdict};
use shedlock_core::ClockSource;
use tempfile::TempDir;
use tokio::process::Child;

use crate::Arena;
use crate::heard::Heard;
use crate::jvm::Driver;
use crate::wall_clock::{self, WallClock};
use crate::worker::{Grid, Job, Slots, WorkerSpec};
use shedlock_proof::history::{Findings, History, Log, Rules, What};
use shedlock_proof::{Mistake, SeededRng};
use tail::Tail;

/// How many acquisitions the history of killed processes must have.
const VARIABLE: &str = "SHEDLOCK_CONFORMANCE_ACQUISITIONS";

const DEFAULT_ACQUISITIONS: usize = 200;

/// The time limit of a whole run.
const LIMIT: Duration = Duration::from_secs(100);

/// The extension of the files that contain what workers write to their standard error.
const ERRORS: &str = "stderr";

/// How far behind the store's clock slots begin, so that none of them is ahead of it.
const SLOTS_AGO: Duration = Duration::from_secs(2);

/// The default for the longest rest between two attempts of a worker.
pub(crate) const REST: Duration = Duration::from_millis(8);

/// How long a worker waits for a reply: so short that requests sometimes arrive late, but long
/// enough for replies that arrive after the lease.
pub(crate) fn patience(at_most: Duration) -> Duration {
    (2 * at_most).max(Duration::from_secs(1))
}

/// The worker processes.
pub(crate) struct WorkerPool {
    context: Arena,
    /// Contains the logs; deleted with the pool, unless it is kept for inspection.
    folder: TempDir,
    /// The log of what is done to the workers.
    log: Log,
    workers: Vec<Worker>,
    spec: WorkerSpec,
    /// The addresses through which some workers reach the store.
    ways: BTreeMap<usize, SocketAddr>,
    /// The workers with a disturbed connection, and for how long it holds up a request, in
    /// nanoseconds.
    disturbed: BTreeMap<usize, u64>,
    /// The wall clocks of the workers whose clocks are wrong.
    clocks: BTreeMap<usize, WallClock>,
    /// The executables of workers of an earlier version.
    olds: BTreeMap<usize, PathBuf>,
    /// The workers that are operators.
    operators: BTreeSet<usize>,
    /// The workers that are processes of ShedLock.
    shedlocks: BTreeSet<usize>,
    pub(crate) rng: SeededRng,
    pub(crate) seed: String,
    started: usize,
    pub(crate) heard: Heard,
    /// The part of `heard` from processes of ShedLock.
    pub(crate) heard_of_shedlocks: Heard,
    /// The part of `heard` from workers of an earlier version.
    pub(crate) heard_of_olds: Heard,
    idle: usize,
}

struct Worker {
    process: Child,
    /// Sends commands to a process of ShedLock.
    driver: Option<Driver>,
    /// Whether it runs an earlier version.
    is_old: bool,
    log: Tail,
    /// How many attempts got a reply.
    answers: usize,
    /// By how many milliseconds its wall clock was ahead of the local one at its last reading.
    ahead: Option<i64>,
}

impl WorkerPool {
    /// The number of acquisitions from the environment, which a long run sets higher than the
    /// default.
    pub(crate) fn acquisitions_wanted() -> Result<usize, Stop> {
        match std::env::var(VARIABLE) {
            Err(_) => Ok(DEFAULT_ACQUISITIONS),
            Ok(text) => text.parse().map_err(|_| {
                Stop::failed(format!("{VARIABLE}={text:?} should be a number, like 1000"))
            }),
        }
    }

    /// Starts this many workers. With slots, each worker goes through them once; without slots, it
    /// continues forever.
    pub(crate) async fn start(
        context: &Arena,
        count: usize,
        jobs: &[Job],
        slots: &[i64],
    ) -> Result<Self, Stop> {
        let mut worker_pool = Self::without_workers(context, jobs).await?;
        worker_pool.spec.slots = slots.to_vec();
        worker_pool.add(count)?;
        Ok(worker_pool)
    }

    /// A pool without workers.
    pub(crate) async fn without_workers(context: &Arena, jobs: &[Job]) -> Result<Self, Stop> {
        let folder = tempfile::Builder::new()
            .prefix("shedlock-history-")
            .tempdir()?;
        let mut log = Log::open(&folder.path().join("worker_pool.jsonl"))?;
        let rng = SeededRng::of_this_run();
        let at_most = context.timing().short();
        let grid = if jobs.iter().any(|job| job.slots != Slots::None) {
            let provider = context.provider().await?;
            let first = context.slot_before_now(&provider, SLOTS_AGO).await?;
            log.write_of(0, What::store_clock(first, SLOTS_AGO))?;
            Some(Grid::from_now_on(first, at_most / 2))
        } else {
            None
        };
        Ok(Self {
            context: context.clone(),
            spec: WorkerSpec {
                log: PathBuf::new(),
                jobs: jobs.to_vec(),
                slots: Vec::new(),
                grid,
                at_most,
                hold: Duration::from_millis(4),
                rest: REST,
                patience: patience(at_most),
                operates: false,
                wrong: None,
                seed: 0,
            },
            folder,
            log,
            workers: Vec::new(),
            ways: BTreeMap::new(),
            disturbed: BTreeMap::new(),
            clocks: BTreeMap::new(),
            olds: BTreeMap::new(),
            operators: BTreeSet::new(),
            shedlocks: BTreeSet::new(),
            seed: rng.to_repeat(),
            rng,
            started: 0,
            heard: Heard::default(),
            heard_of_shedlocks: Heard::default(),
            heard_of_olds: Heard::default(),
            idle: 0,
        })
    }

    /// Sets the mistake that workers make.
    pub(crate) fn go_wrong(&mut self, wrong: Mistake) {
        self.spec.wrong = Some(wrong);
    }

    /// Sets the longest rest of workers between two attempts.
    pub(crate) fn rest(&mut self, longest: Duration) {
        self.spec.rest = longest;
    }

    /// Makes this worker and its replacements connect to the store through this address.
    pub(crate) fn send_through(&mut self, number: usize, addr: SocketAddr) {
        self.ways.insert(number, addr);
    }

    /// Gives this worker and its replacements a separate wall clock.
    pub(crate) fn give_clock(&mut self, number: usize, library: PathBuf) -> Verdict {
        let file = self.folder.path().join(format!("{number}.clock"));
        self.clocks.insert(number, WallClock::new(library, file)?);
        Ok(())
    }

    /// Sets that clock ahead by this many milliseconds.
    pub(crate) fn set_clock(&mut self, number: usize, ahead: i64) -> Verdict {
        if let Some(clock) = self.clocks.get_mut(&number) {
            clock.set(ahead)?;
        }
        Ok(())
    }

    /// By how many milliseconds that clock is ahead.
    pub(crate) fn clock(&self, number: usize) -> i64 {
        self.clocks.get(&number).map_or(0, WallClock::ahead)
    }

    /// An error message about a wall clock whose setting its worker has not yet observed.
    pub(crate) fn clock_without_effect(&self) -> Option<String> {
        self.clocks.iter().find_map(|(number, clock)| {
            let (is, should_be) = (self.workers[*number].ahead, clock.ahead());
            let near = i64::try_from(wall_clock::NOTICED.as_millis()).unwrap_or(0) + 1;
            let is_near = is.is_some_and(|is| is.abs_diff(should_be) <= near.unsigned_abs());
            (!is_near).then(|| {
                format!(
                    "the wall clock of worker {number} should be ahead by {should_be} ms, but is \
                     ahead by {is:?}: libfaketime has no effect"
                )
            })
        })
    }

    /// Starts this many more workers.
    pub(crate) fn add(&mut self, count: usize) -> Verdict {
        for _ in 0..count {
            let worker = self.worker(self.workers.len())?;
            self.workers.push(worker);
        }
        Ok(())
    }

    /// Starts this many workers of an earlier version, whose test target is this executable.
    pub(crate) fn add_old(&mut self, count: usize, executable: &Path) -> Verdict {
        let first = self.workers.len();
        let olds = (first..first + count).map(|number| (number, executable.to_owned()));
        self.olds.extend(olds);
        self.add(count)
    }

    /// Starts an operator, who pauses the locks.
    pub(crate) fn add_operator(&mut self) -> Verdict {
        self.operators.insert(self.workers.len());
        self.add(1)
    }

    /// Starts this many processes of real ShedLock.
    pub(crate) fn add_shedlocks(&mut self, count: usize) -> Verdict {
        let first = self.workers.len();
        self.shedlocks.extend(first..first + count);
        self.add(count)
    }

    /// Kills and replaces holders from time to time, until the logs show this many acquisitions or
    /// the slots are done.
    pub(crate) async fn kill_holders_until(&mut self, acquisitions: usize) -> Verdict {
        let started = now();
        let mut kill_at = acquisitions / 20;
        loop {
            if self.read_logs()? {
                self.idle = 0;
            } else {
                self.idle += 1;
            }
            if self.heard.acquisitions >= acquisitions {
                return Ok(());
            }
            // Workers that have gone through their slots log nothing more.
            if self.idle > 100 && !self.spec.slots.is_empty() {
                return Ok(());
            }
            if now().saturating_since(started) > LIMIT {
                return Err(Stop::failed(format!(
                    "only {} of {acquisitions} acquisitions by {} processes in {LIMIT:?} ({})",
                    self.heard.acquisitions,
                    self.workers.len(),
                    self.seed
                )));
            }
            if self.heard.acquisitions >= kill_at && self.kill_a_holder().await?.is_some() {
                // About fifteen kills per run; each costs the length of a lease.
                kill_at = self.heard.acquisitions + (acquisitions / 15).max(1);
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops all workers and judges what they did.
    pub(crate) async fn stop_and_judge(mut self) -> Result<Findings, Stop> {
        self.stop().await?;
        let rules = self.rules();
        self.judge(&rules)
    }

    /// Stops all workers.
    pub(crate) async fn stop(&mut self) -> Verdict {
        for worker in &mut self.workers {
            drop(worker.process.stdin.take());
            drop(worker.driver.take());
        }
        for number in 0..self.workers.len() {
            let process = &mut self.workers[number].process;
            let ended = bounded(Duration::from_secs(10), process.wait()).await;
            let Some(status) = ended else {
                process.kill().await?;
                continue;
            };
            let status = status?;
            if !status.success() {
                return Err(self.has_failed(status));
            }
        }
        self.read_logs()?;
        Ok(())
    }

    /// The rules for what the provider declares.
    pub(crate) fn rules(&self) -> Rules {
        let capabilities = self.context.capabilities();
        let mut rules = Rules::new(capabilities.granularity, capabilities.fencing);
        // Other stores use versions or the store's own leases: a withdrawn attempt stays withdrawn,
        // but no attempt is refused because of its time.
        rules.refuses_late = capabilities.clock == ClockSource::Store
            && capabilities.slot_clock == ClockSource::Store;
        rules
    }

    /// Judges what the workers did until they were stopped.
    pub(crate) fn judge(&mut self, rules: &Rules) -> Result<Findings, Stop> {
        let findings = History::load(self.folder.path())?.judge(rules);
        if let Some(first) = findings.violations.first() {
            self.folder.disable_cleanup(true);
            return Err(Stop::failed(format!(
                "{} violations in {} acquisitions, the first: {first}; logs in {} ({})",
                findings.violations.len(),
                findings.acquisitions,
                self.folder.path().display(),
                self.seed
            )));
        }
        Ok(findings)
    }

    /// Checks that no worker has ended by itself.
    pub(crate) async fn all_run(&mut self) -> Verdict {
        for number in 0..self.workers.len() {
            let worker = &mut self.workers[number];
            if let Some(status) = worker.process.try_wait()? {
                return Err(self.has_failed(status));
            }
            if let Some(driver) = worker.driver.as_mut().filter(|driver| driver.has_ended()) {
                driver.last_word().await?;
            }
        }
        Ok(())
    }

    /// The folder of the logs.
    pub(crate) fn logs(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the logs for inspection.
    pub(crate) fn keep_logs(&mut self) {
        self.folder.disable_cleanup(true);
    }

    fn has_failed(&mut self, status: ExitStatus) -> Stop {
        self.folder.disable_cleanup(true);
        Stop::failed(format!(
            "a worker process failed with {status}: {}; logs in {} ({})",
            self.said().unwrap_or_else(|error| error.to_string()),
            self.folder.path().display(),
            self.seed
        ))
    }

    /// What all workers have written to their standard error.
    fn said(&self) -> std::io::Result<String> {
        let mut said = String::new();
        for file in self.folder.path().read_dir()? {
            let path = file?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == ERRORS)
            {
                said.push_str(&std::fs::read_to_string(path)?);
            }
        }
        Ok(said.trim_end().to_owned())
    }

    /// Reads what was added to all logs; returns whether there was anything new.
    pub(crate) fn read_logs(&mut self) -> Result<bool, Stop> {
        let mut anything = false;
        for worker in &mut self.workers {
            for event in worker.log.read()? {
                anything = true;
                self.heard.hear(&event);
                if worker.driver.is_some() {
                    self.heard_of_shedlocks.hear(&event);
                }
                if worker.is_old {
                    self.heard_of_olds.hear(&event);
                }
                let answer = matches!(
                    event.what,
                    What::Acquired { .. }
                        | What::Skipped { .. }
                        | What::Paused { .. }
                        | What::Resumed { .. }
                        | What::NotPaused
                );
                worker.answers += usize::from(answer);
                if let What::WallClock { shows } = event.what {
                    worker.ahead = Some(wall_clock::ahead_of_ours(event.at, shows));
                }
            }
        }
        Ok(anything)
    }

    /// The workers that hold a lock according to their logs.
    pub(crate) fn holders(&self) -> Vec<usize> {
        (0..self.workers.len())
            .filter(|i| self.workers[*i].log.holds)
            .collect()
    }

    /// How many attempts of each worker got a reply since it was started.
    pub(crate) fn answers(&self) -> Vec<usize> {
        self.workers.iter().map(|worker| worker.answers).collect()
    }

    /// Whether this worker is a process of ShedLock.
    pub(crate) fn is_shedlock(&self, number: usize) -> bool {
        self.shedlocks.contains(&number)
    }

    /// Whether this worker is an operator.
    pub(crate) fn is_operator(&self, number: usize) -> bool {
        self.operators.contains(&number)
    }

    /// Whether this worker has begun its work, which takes a while for ShedLock.
    pub(crate) fn has_begun(&self, number: usize) -> bool {
        let driver = self.workers[number].driver.as_ref();
        driver.is_none_or(Driver::is_ready)
    }

    /// The process id of this worker, if it runs.
    pub(crate) fn process(&self, number: usize) -> Option<u32> {
        self.workers[number].process.id()
    }

    /// The history so far.
    pub(crate) fn history(&self) -> Result<History, Stop> {
        let moment = now();
        Ok(History::load(self.folder.path())?.until(moment))
    }

    /// Kills a process that holds a lock according to its log, and returns which; `None` if there
    /// is none.
    pub(crate) async fn kill_a_holder(&mut self) -> Result<Option<usize>, Stop> {
        let holders = self.holders();
        if holders.is_empty() {
            return Ok(None);
        }
        let unlucky = *self.rng.pick(&holders);
        let killed = self.process(unlucky);
        self.workers[unlucky].process.kill().await?;
        if let Some(driver) = &mut self.workers[unlucky].driver {
            driver.last_word().await?;
        }
        if let Some(killed) = killed {
            // A dead process sends nothing more, even if it was stopped before.
            self.log.write_of(killed, What::GoesOn)?;
        }
        // What it wrote between the last read and its end counts too.
        self.read_logs()?;
        self.workers[unlucky] = self.worker(unlucky)?;
        if let Some(delay) = self.disturbed.get(&unlucky).copied() {
            // The connection stays disturbed, but the dead process sends nothing more on it.
            if let Some(killed) = killed {
                self.log.write_of(killed, What::WayRestored)?;
            }
            self.note_of(unlucky, What::WayDisturbed { delay })?;
        }
        Ok(Some(unlucky))
    }
}

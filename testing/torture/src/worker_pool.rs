//! Many worker processes over one namespace, of which holders are killed.

mod faults;
mod start;
mod tail;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use shedlock_conformance::wait::{bounded, now, sleep};
use shedlock_conformance::{Stop, Verdict};
use shedlock_core::ClockSource;
use tempfile::TempDir;
use tokio::process::Child;

use crate::Arena;
use crate::heard::Heard;
use crate::history::{Findings, History, Log, Rules, What};
use crate::jvm::Driver;
use crate::rng::SeededRng;
use crate::wall_clock::{self, WallClock};
use crate::worker::{Grid, Job, Slots, WorkerSpec};
use crate::wrong::Wrong;
use tail::Tail;

/// How many acquisitions the history of killed processes must have.
const VARIABLE: &str = "SHEDLOCK_CONFORMANCE_ACQUISITIONS";

const DEFAULT_ACQUISITIONS: usize = 200;

/// Time for a whole run.
const LIMIT: Duration = Duration::from_secs(100);

/// How far behind the store's clock slots begin, so that none of them is ahead of it.
const SLOTS_AGO: Duration = Duration::from_secs(2);

/// The longest rest between two attempts of a worker, where nobody asks for another one.
pub(crate) const REST: Duration = Duration::from_millis(8);

/// How long a worker waits for an answer: so short that requests come late now and then, and longer
/// than answers take that come after the lease.
pub(crate) fn patience(at_most: Duration) -> Duration {
    (2 * at_most).max(Duration::from_secs(1))
}

/// The worker processes.
pub(crate) struct WorkerPool {
    context: Arena,
    /// With the logs; it goes with this, unless it is kept for a person to look at.
    folder: TempDir,
    /// What is done to the workers.
    log: Log,
    workers: Vec<Worker>,
    spec: WorkerSpec,
    /// Where those reach the store that do not go straight.
    ways: BTreeMap<usize, SocketAddr>,
    /// Those whose way is disturbed, and for how long that holds a request up, in nanoseconds.
    disturbed: BTreeMap<usize, u64>,
    /// The wall clocks of those whose own is not right.
    clocks: BTreeMap<usize, WallClock>,
    /// The executables of those that are of an earlier version.
    olds: BTreeMap<usize, PathBuf>,
    /// Those that are ShedLock's.
    shedlocks: BTreeSet<usize>,
    pub(crate) rng: SeededRng,
    pub(crate) seed: String,
    started: usize,
    pub(crate) heard: Heard,
    /// The part of it that was heard of ShedLock's.
    pub(crate) heard_of_shedlocks: Heard,
    /// The part of it that was heard of those of an earlier version.
    pub(crate) heard_of_olds: Heard,
    idle: usize,
}

struct Worker {
    process: Child,
    /// What tells a process of ShedLock's what to do.
    driver: Option<Driver>,
    /// Whether it is of an earlier version.
    is_old: bool,
    log: Tail,
    /// How many attempts were answered.
    answers: usize,
    /// By how many milliseconds its wall clock was ahead of ours when it looked.
    ahead: Option<i64>,
}

impl WorkerPool {
    /// From the environment: more than by default for a long run.
    pub(crate) fn acquisitions_wanted() -> Result<usize, Stop> {
        match std::env::var(VARIABLE) {
            Err(_) => Ok(DEFAULT_ACQUISITIONS),
            Ok(text) => text.parse().map_err(|_| {
                Stop::failed(format!("{VARIABLE}={text:?} should be a number, like 1000"))
            }),
        }
    }

    /// Starts this many workers. With slots each goes through them once; without it goes on.
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

    /// Without any workers yet.
    pub(crate) async fn without_workers(context: &Arena, jobs: &[Job]) -> Result<Self, Stop> {
        let folder = tempfile::Builder::new()
            .prefix("shedlock-history-")
            .tempdir()?;
        let log = Log::open(&folder.path().join("worker_pool.jsonl"))?;
        let rng = SeededRng::of_this_run();
        let at_most = context.timing().short();
        let grid = if jobs.iter().any(|job| job.slots != Slots::None) {
            let provider = context.provider().await?;
            let first = context.slot_before_now(&provider, SLOTS_AGO).await?;
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
                extends: context.capabilities().extend,
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

    /// Has workers make this mistake.
    pub(crate) fn go_wrong(&mut self, wrong: Wrong) {
        self.spec.wrong = Some(wrong);
    }

    /// Has workers rest at most this long between two attempts.
    pub(crate) fn rest(&mut self, longest: Duration) {
        self.spec.rest = longest;
    }

    /// Has this worker, and whoever replaces it, reach the store through this address.
    pub(crate) fn send_through(&mut self, number: usize, addr: SocketAddr) {
        self.ways.insert(number, addr);
    }

    /// Gives this worker, and whoever replaces it, a wall clock of its own.
    pub(crate) fn give_clock(&mut self, number: usize, library: PathBuf) -> Verdict {
        let file = self.folder.path().join(format!("{number}.clock"));
        self.clocks.insert(number, WallClock::new(library, file)?);
        Ok(())
    }

    /// Sets that clock to be ahead by so many milliseconds.
    pub(crate) fn set_clock(&mut self, number: usize, ahead: i64) -> Verdict {
        if let Some(clock) = self.clocks.get_mut(&number) {
            clock.set(ahead)?;
        }
        Ok(())
    }

    /// A complaint about a wall clock that its worker has not yet seen as it was set.
    pub(crate) fn clock_without_effect(&self) -> Option<String> {
        self.clocks.iter().find_map(|(number, clock)| {
            let (is, should_be) = (self.workers[*number].ahead, clock.ahead());
            let near = i64::try_from(wall_clock::NOTICED.as_millis()).unwrap_or(0) + 1;
            let is_near = is.is_some_and(|is| is.abs_diff(should_be) <= near.unsigned_abs());
            (!is_near).then(|| {
                format!(
                    "the wall clock of worker {number} should be ahead by {should_be} ms, but it is by {is:?}: \
                     libfaketime has no effect"
                )
            })
        })
    }

    /// Starts this many more.
    pub(crate) fn add(&mut self, count: usize) -> Verdict {
        for _ in 0..count {
            let worker = self.worker(self.workers.len())?;
            self.workers.push(worker);
        }
        Ok(())
    }

    /// Starts this many of an earlier version, whose test target was built there.
    pub(crate) fn add_old(&mut self, count: usize, executable: &Path) -> Verdict {
        let first = self.workers.len();
        let olds = (first..first + count).map(|number| (number, executable.to_owned()));
        self.olds.extend(olds);
        self.add(count)
    }

    /// Starts this many processes of real ShedLock.
    pub(crate) fn add_shedlocks(&mut self, count: usize) -> Verdict {
        let first = self.workers.len();
        self.shedlocks.extend(first..first + count);
        self.add(count)
    }

    /// Kills holders now and then, and replaces them, until the logs show so many acquisitions, or
    /// until the slots are done.
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
            // Workers that have gone through their slots are silent from then on.
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
                // About fifteen kills in a run; each costs a lease's length.
                kill_at = self.heard.acquisitions + (acquisitions / 15).max(1);
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops all and judges what they did.
    pub(crate) async fn stop_and_judge(mut self) -> Result<Findings, Stop> {
        self.stop().await?;
        let rules = self.rules();
        self.judge(&rules)
    }

    /// Stops all.
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
            if !status?.success() {
                return Err(self.has_failed());
            }
        }
        self.read_logs()?;
        Ok(())
    }

    /// What the provider declares.
    pub(crate) fn rules(&self) -> Rules {
        let capabilities = self.context.capabilities();
        let mut rules = Rules::new(capabilities.granularity, capabilities.fencing);
        // Others have versions, or leases of the store's: what is withdrawn stays withdrawn, but
        // nothing is refused for its time.
        rules.refuses_late = capabilities.clock == ClockSource::Store
            && capabilities.slot_clock == ClockSource::Store;
        rules
    }

    /// Judges what they did until they were stopped.
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

    /// None has ended by itself.
    pub(crate) async fn all_run(&mut self) -> Verdict {
        for number in 0..self.workers.len() {
            let worker = &mut self.workers[number];
            if worker.process.try_wait()?.is_some() {
                return Err(self.has_failed());
            }
            if let Some(driver) = worker.driver.as_mut().filter(|driver| driver.has_ended()) {
                driver.last_word().await?;
            }
        }
        Ok(())
    }

    /// Where the logs are.
    pub(crate) fn logs(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves the logs for a person to look at.
    pub(crate) fn keep_logs(&mut self) {
        self.folder.disable_cleanup(true);
    }

    fn has_failed(&mut self) -> Stop {
        self.folder.disable_cleanup(true);
        Stop::failed(format!(
            "a worker process failed, its message is above; logs in {} ({})",
            self.folder.path().display(),
            self.seed
        ))
    }

    /// Reads on in all logs; true if there was something new.
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
                let answer = matches!(event.what, What::Acquired { .. } | What::Skipped { .. });
                worker.answers += usize::from(answer);
                if let What::WallClock { shows } = event.what {
                    worker.ahead = Some(wall_clock::ahead_of_ours(event.at, shows));
                }
            }
        }
        Ok(anything)
    }

    /// Those that hold a lock as far as their logs tell.
    pub(crate) fn holders(&self) -> Vec<usize> {
        (0..self.workers.len())
            .filter(|i| self.workers[*i].log.holds)
            .collect()
    }

    /// How many attempts of each were answered since it was started.
    pub(crate) fn answers(&self) -> Vec<usize> {
        self.workers.iter().map(|worker| worker.answers).collect()
    }

    /// Whether it is a process of ShedLock's.
    pub(crate) fn is_shedlock(&self, number: usize) -> bool {
        self.shedlocks.contains(&number)
    }

    /// Whether one of them has begun its work, which takes ShedLock's a while.
    pub(crate) fn has_begun(&self, number: usize) -> bool {
        let driver = self.workers[number].driver.as_ref();
        driver.is_none_or(Driver::is_ready)
    }

    /// The process of one of them, if it runs.
    pub(crate) fn process(&self, number: usize) -> Option<u32> {
        self.workers[number].process.id()
    }

    /// What they have done so far.
    pub(crate) fn history(&self) -> Result<History, Stop> {
        let moment = now();
        Ok(History::load(self.folder.path())?.until(moment))
    }

    /// Kills a process that holds a lock as far as its log tells, and says which; none if there is none.
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
        // What it wrote between the last look and its end counts too.
        self.read_logs()?;
        self.workers[unlucky] = self.worker(unlucky)?;
        if let Some(delay) = self.disturbed.get(&unlucky).copied() {
            // The way stays as it is, and the dead one sends nothing more on it.
            if let Some(killed) = killed {
                self.log.write_of(killed, What::WayRestored)?;
            }
            self.note_of(unlucky, What::WayDisturbed { delay })?;
        }
        Ok(Some(unlucky))
    }
}

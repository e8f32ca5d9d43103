//! Many worker processes over one space, of which holders are killed.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Child;

use crate::chance::Chance;
use crate::child::{Role, command};
use crate::history::{Event, Findings, Folder, History, Rules, What};
use crate::wait::{bounded, now, sleep};
use crate::worker::Orders;
use crate::{Setting, Stop, Verdict};

/// How many acquisitions the history of killed processes must have.
const VARIABLE: &str = "SHEDLOCK_CONFORMANCE_ACQUISITIONS";

const DEFAULT_ACQUISITIONS: usize = 200;

/// Time for a whole run.
const LIMIT: Duration = Duration::from_secs(100);

/// The worker processes.
pub(crate) struct Troop {
    setting: Setting,
    folder: Folder,
    workers: Vec<Worker>,
    orders: Orders,
    pub(crate) chance: Chance,
    pub(crate) seed: String,
    started: usize,
    pub(crate) acquisitions: usize,
    idle: usize,
}

struct Worker {
    process: Child,
    log: Tail,
}

impl Troop {
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
        setting: &Setting,
        count: usize,
        names: &[&str],
        slots: &[i64],
    ) -> Result<Self, Stop> {
        let folder = Folder::new()?;
        let chance = Chance::of_this_run();
        let mut troop = Self {
            setting: setting.clone(),
            orders: Orders {
                log: PathBuf::new(),
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                slots: slots.to_vec(),
                at_most: setting.pace().short(),
                hold: Duration::from_millis(4),
                extends: setting.capabilities().extend,
                seed: 0,
            },
            folder,
            workers: Vec::new(),
            seed: chance.to_repeat(),
            chance,
            started: 0,
            acquisitions: 0,
            idle: 0,
        };
        for _ in 0..count {
            let worker = troop.worker()?;
            troop.workers.push(worker);
        }
        Ok(troop)
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
            if self.acquisitions >= acquisitions {
                return Ok(());
            }
            // Workers that have gone through their slots are silent from then on.
            if self.idle > 100 && !self.orders.slots.is_empty() {
                return Ok(());
            }
            if now().saturating_since(started) > LIMIT {
                return Err(Stop::failed(format!(
                    "only {} of {acquisitions} acquisitions by {} processes in {LIMIT:?} ({})",
                    self.acquisitions,
                    self.workers.len(),
                    self.seed
                )));
            }
            if self.acquisitions >= kill_at && self.kill_a_holder().await? {
                // About fifteen kills in a run; each costs a lease's length.
                kill_at = self.acquisitions + (acquisitions / 15).max(1);
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops all and judges what they did.
    pub(crate) async fn stop_and_judge(self) -> Result<Findings, Stop> {
        self.stop_and_judge_with(Duration::ZERO).await
    }

    /// The same, where locks may come free this much later than the provider declares.
    pub(crate) async fn stop_and_judge_with(
        mut self,
        lateness: Duration,
    ) -> Result<Findings, Stop> {
        for worker in &mut self.workers {
            drop(worker.process.stdin.take());
        }
        for worker in &mut self.workers {
            let ended = bounded(Duration::from_secs(10), worker.process.wait()).await;
            let Some(status) = ended else {
                worker.process.kill().await?;
                continue;
            };
            if !status?.success() {
                self.folder.keep();
                return Err(Stop::failed(format!(
                    "a worker process failed, its message is above; logs in {} ({})",
                    self.folder.path().display(),
                    self.seed
                )));
            }
        }
        let capabilities = self.setting.capabilities();
        let rules = Rules::new(capabilities.granularity + lateness, capabilities.fencing);
        let findings = History::load(self.folder.path())?.judge(&rules);
        if let Some(first) = findings.violations.first() {
            self.folder.keep();
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

    fn worker(&mut self) -> Result<Worker, Stop> {
        let mut orders = self.orders.clone();
        orders.log = self.folder.path().join(format!("{}.jsonl", self.started));
        orders.seed = self.chance.next();
        self.started += 1;
        // The log is there before its writer, so that it can be followed from the beginning.
        File::create(&orders.log)?;
        let log = Tail::new(File::open(&orders.log)?);
        let process = command(&self.setting, Role::Worker(orders))?.spawn()?;
        Ok(Worker { process, log })
    }

    /// Reads on in all logs; true if there was something new.
    pub(crate) fn read_logs(&mut self) -> Result<bool, Stop> {
        let mut anything = false;
        for worker in &mut self.workers {
            for event in worker.log.read()? {
                anything = true;
                if matches!(event.what, What::Acquired { .. }) {
                    self.acquisitions += 1;
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

    /// The process of one of them, if it runs.
    pub(crate) fn process(&self, number: usize) -> Option<u32> {
        self.workers[number].process.id()
    }

    /// Kills a process that holds a lock as far as its log tells; false if there is none.
    pub(crate) async fn kill_a_holder(&mut self) -> Result<bool, Stop> {
        let holders = self.holders();
        if holders.is_empty() {
            return Ok(false);
        }
        let unlucky = *self.chance.pick(&holders);
        self.workers[unlucky].process.kill().await?;
        // What it wrote between the last look and its end counts too.
        self.read_logs()?;
        self.workers[unlucky] = self.worker()?;
        Ok(true)
    }
}

/// A log that is still being written.
struct Tail {
    file: File,
    rest: Vec<u8>,
    holds: bool,
}

impl Tail {
    fn new(file: File) -> Self {
        Self {
            file,
            rest: Vec::new(),
            holds: false,
        }
    }

    fn read(&mut self) -> Result<Vec<Event>, Stop> {
        self.file.read_to_end(&mut self.rest)?;
        let mut events = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let event: Event = serde_json::from_slice(&line)?;
            self.holds = matches!(
                event.what,
                What::Acquired { .. } | What::Renewed { .. } | What::RenewAsked { .. }
            );
            events.push(event);
        }
        Ok(events)
    }
}

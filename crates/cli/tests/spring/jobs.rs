//! The jobs, and what must be true of their runs.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock::scheduler::{Job as Scheduled, Schedule};
use shedlock::{Executor, LockConfig};
use shedlock_interop::{Ran, SpringRuns};
use shedlock_rig::wait;

/// A job of `testing/interop/spring`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) name: &'static str,
    /// As both sides write it; `None` for a fixed rate.
    cron: Option<&'static str>,
    /// The ticks that it stands for, in milliseconds: the period, and the first after midnight.
    ticks: (u64, u64),
    /// The longest lease that its runs get, without keep-alive.
    lease: u64,
    at_least: u64,
    takes: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    KeptAlive,
    /// Every run fails, on both sides.
    Fails,
    /// Only Spring runs it.
    OfJava,
    /// Spring runs it at a fixed rate, and we run it without slots.
    WithoutSlots,
}

pub(crate) const JOBS: [Job; 6] = [
    Job {
        name: "invoices",
        cron: Some("*/5 * * * * *"),
        ticks: (5_000, 0),
        lease: 4_500,
        at_least: 3_000,
        takes: 100,
        kind: Kind::Plain,
    },
    Job {
        name: "spring-only",
        cron: None,
        ticks: (5_000, 0),
        lease: 4_500,
        at_least: 3_000,
        takes: 100,
        kind: Kind::OfJava,
    },
    Job {
        name: "failing",
        cron: Some("2/5 * * * * *"),
        ticks: (5_000, 2_000),
        lease: 4_500,
        at_least: 3_000,
        takes: 100,
        kind: Kind::Fails,
    },
    Job {
        name: "extended",
        cron: Some("*/10 * * * * *"),
        ticks: (10_000, 0),
        lease: 9_000,
        at_least: 4_000,
        takes: 6_000,
        kind: Kind::KeptAlive,
    },
    Job {
        name: "kept-alive",
        cron: Some("*/30 * * * * *"),
        ticks: (30_000, 0),
        lease: 30_000,
        at_least: 4_000,
        takes: 18_000,
        kind: Kind::KeptAlive,
    },
    Job {
        name: "fixed-rate",
        cron: None,
        ticks: (2_000, 0),
        lease: 5_000,
        at_least: 1_000,
        takes: 100,
        kind: Kind::WithoutSlots,
    },
];

/// What became of a job's ticks.
#[derive(Debug)]
pub(crate) struct Tally {
    job: &'static str,
    ticks: String,
    of_java: usize,
    of_ours: usize,
    /// The ticks that say nothing about the locks: some node was later than `lockAtLeastFor`.
    late: usize,
    /// Every violation, in words.
    pub(crate) wrong: Vec<String>,
}

impl Job {
    /// Whether both sides run it at its ticks, and without failures.
    pub(crate) fn is_healthy(&self) -> bool {
        matches!(self.kind, Kind::Plain | Kind::KeptAlive)
    }

    /// Whether we run it in slots.
    pub(crate) fn is_registered(&self) -> bool {
        self.cron.is_some()
    }

    fn config(&self) -> LockConfig {
        let config = LockConfig::new(self.name)
            .lock_at_most_for(Duration::from_millis(self.lease))
            .lock_at_least_for(Duration::from_millis(self.at_least));
        match self.kind {
            Kind::KeptAlive => config.keep_alive(),
            _ => config,
        }
    }

    /// The job of our scheduler, if it has one.
    pub(crate) fn scheduled(self, runs: &SpringRuns) -> anyhow::Result<Option<Scheduled>> {
        let Some(cron) = self.cron else {
            return Ok(None);
        };
        let runs = runs.clone();
        let job = Scheduled::new(self.config(), Schedule::cron(cron)?, move |_| {
            let runs = runs.clone();
            async move {
                self.run(&runs).await;
                match self.kind {
                    Kind::Fails => Err("the mail server is down"),
                    _ => Ok(()),
                }
            }
        });
        Ok(Some(job))
    }

    async fn run(self, runs: &SpringRuns) {
        let begun = now();
        wait::sleep(Duration::from_millis(self.takes)).await;
        runs.add(Ran {
            job: self.name.to_owned(),
            by: "Rust",
            begun,
            ended: now(),
        });
    }

    /// Judges the runs by the ticks whose whole period is in this time. A tick may run twice only where ShedLock, which
    /// has no slots, allows it: if the second node came after the end of `lockAtLeastFor`.
    pub(crate) fn tally(&self, runs: &[Ran], from: u64, until: u64) -> Tally {
        let (period, phase) = self.ticks;
        let lock = |ran: &Ran| ran.ended.max(ran.begun + self.at_least);
        let mut tally = Tally {
            job: self.name,
            ticks: "-".to_owned(),
            of_java: runs.iter().filter(|ran| ran.by == "Java").count(),
            of_ours: runs.iter().filter(|ran| ran.by != "Java").count(),
            late: 0,
            wrong: Vec::new(),
        };
        for pair in runs.windows(2) {
            let [first, second] = pair else { continue };
            if second.begun >= first.ended {
                continue;
            }
            // A process that stood still longer than its lease has no lock.
            match first.ended - first.begun > self.lease && self.kind != Kind::KeptAlive {
                true => tally.late += 1,
                false => tally
                    .wrong
                    .push(format!("{}: two runs at once: {pair:?}", self.name)),
            }
        }
        if self.kind == Kind::WithoutSlots {
            if runs.is_empty() {
                tally.wrong.push(format!("{}: no run", self.name));
            }
            return tally;
        }
        let ticks = (from - phase).div_ceil(period)..(until - phase) / period;
        for tick in ticks.clone() {
            let begin = tick * period + phase;
            let of_tick = |ran: &&Ran| (begin..begin + period).contains(&ran.begun);
            let of_tick: Vec<&Ran> = runs.iter().filter(of_tick).collect();
            let is_wrong = match of_tick.as_slice() {
                [_] => continue,
                [] => !runs
                    .iter()
                    .any(|ran| ran.begun < begin && lock(ran) > begin),
                // Beside the lock of a tick whose node came in time, no second run begins before its end.
                several => several
                    .windows(2)
                    .any(|pair| pair[1].begun < pair[0].begun + self.at_least - self.at_least / 4),
            };
            match is_wrong {
                false => tally.late += 1,
                true => tally.wrong.push(format!(
                    "{}: {} runs of the tick at {begin}: {of_tick:?}",
                    self.name,
                    of_tick.len()
                )),
            }
        }
        tally.ticks = ticks.count().to_string();
        tally
    }
}

/// Runs the job of the fixed rate beside Spring, as a service without our scheduler does.
pub(crate) fn without_slots(executor: &Executor, runs: &SpringRuns) {
    let jobs = JOBS
        .into_iter()
        .filter(|job| job.kind == Kind::WithoutSlots);
    for job in jobs {
        let (executor, runs) = (executor.clone(), runs.clone());
        tokio::spawn(async move {
            loop {
                wait::sleep(Duration::from_millis(job.ticks.0)).await;
                // A store that fails shows in the ticks of the other jobs.
                let _ = executor.execute(&job.config(), job.run(&runs)).await;
            }
        });
    }
}

/// The table for people.
pub(crate) fn table(how: &str, seconds: u64, tallies: &[Tally]) -> String {
    let mut table = format!(
        "{how}, {seconds} s, two processes of Spring and two of ours\n{:<12} {:>6} {:>6} {:>6} {:>6} {:>6}\n",
        "job", "ticks", "Java", "Rust", "late", "wrong"
    );
    for tally in tallies {
        let wrong = tally.wrong.len();
        let _ = writeln!(
            table,
            "{:<12} {:>6} {:>6} {:>6} {:>6} {wrong:>6}",
            tally.job, tally.ticks, tally.of_java, tally.of_ours, tally.late
        );
    }
    table
}

/// Milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock that all processes share orders what they did"
)]
pub(crate) fn now() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

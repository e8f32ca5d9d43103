//! The platform: databases, hosts and monitoring, what happens to them, and what is recorded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use serde_json::Value;
use shedlock_rig::wait::{pause, until};
use tempfile::TempDir;

use crate::alerts::Change;
use crate::databases::{Databases, USERS};
use crate::hosts::Hosts;
use crate::judge::{self, Run};
use crate::monitoring::Monitoring;
use crate::phase::Phase;

/// The environment variable with the program `shedlock`; `cargo xtask drill` sets it.
const COMMAND: &str = "SHEDLOCK_DRILL_COMMAND";

/// How long alerts may stay after their reason is gone.
const TO_RESOLVE: Duration = Duration::from_secs(420);

/// Prints a line with the time since the start.
pub(crate) fn say(line: &str) {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let seconds = BEGUN.get_or_init(Instant::now).elapsed().as_secs();
    println!("{:>3}:{:02} {line}", seconds / 60, seconds % 60);
}

/// A job that is in the crontabs of all hosts.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: &'static str,
    /// The first slot that must run.
    pub(crate) from: Timestamp,
    /// The slots from here on need not run.
    pub(crate) until: Option<Timestamp>,
}

/// What happened in a phase.
#[derive(Debug)]
pub(crate) struct Episode {
    pub(crate) phase: Phase,
    pub(crate) begun: Timestamp,
    /// When its cause was gone.
    pub(crate) over: Timestamp,
    pub(crate) ended: Timestamp,
    /// What `doctor` found: each check and its level, except those that are `ok`.
    pub(crate) doctor: Vec<(String, String)>,
}

/// What the judge judges.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) jobs: Vec<Job>,
    pub(crate) runs: Vec<Run>,
    pub(crate) changes: Vec<Change>,
}

/// Everything that runs.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) databases: Databases,
    hosts: Hosts,
    monitoring: Monitoring,
    jobs: Vec<Job>,
    doctor: Vec<(String, String)>,
    over: Option<Timestamp>,
    command: PathBuf,
    pub(crate) folder: TempDir,
}

impl World {
    pub(crate) fn start(plant_bare: bool) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let given = std::env::var_os(COMMAND);
        let given =
            given.with_context(|| format!("{COMMAND} is not set: use `cargo xtask drill`"))?;
        let command = folder.path().join("shedlock");
        fs::copy(&given, &command).context("cannot copy `shedlock`")?;
        let databases = Databases::start()?;
        let [app, monitor] = USERS.map(|user| databases.store(user));
        shedlock(&command, folder.path(), &["migrate", "--store", &app])?;
        let names = ["report", "mail"];
        let hosts = Hosts::start(folder.path(), &command, &app, &names, plant_bare)?;
        let monitoring = Monitoring::start(folder.path(), &command, &monitor)?;
        let from = judge::next_minute(Timestamp::now());
        say("two servers, three hosts and monitoring have started");
        Ok(Self {
            databases,
            hosts,
            monitoring,
            jobs: names
                .map(|name| Job {
                    name,
                    from,
                    until: None,
                })
                .into(),
            doctor: Vec::new(),
            over: None,
            command,
            folder,
        })
    }

    /// Lets it happen, and waits until all alerts of it are resolved.
    pub(crate) fn live_through(&mut self, phase: Phase) -> anyhow::Result<Episode> {
        say(&format!("== {}", phase.title()));
        let begun = Timestamp::now();
        phase.happen(self)?;
        let over = self.over.take().unwrap_or_else(Timestamp::now);
        let alerts = self.monitoring.alerts.clone();
        let is_quiet = || alerts.raised().iter().all(judge::looks_back);
        if !until(TO_RESOLVE, is_quiet) {
            say("  not all alerts are resolved");
        }
        // What is late belongs to it too.
        self.minutes(1)?;
        Ok(Episode {
            phase,
            begun,
            over,
            ended: Timestamp::now(),
            doctor: std::mem::take(&mut self.doctor),
        })
    }

    /// Lets time pass. Everything must still run then.
    pub(crate) fn minutes(&mut self, minutes: u64) -> anyhow::Result<()> {
        pause(Duration::from_secs(minutes * 60));
        self.hosts.check()?;
        self.monitoring.check()
    }

    /// The cause of this phase is gone.
    pub(crate) fn is_over(&mut self) {
        say("  over");
        self.over = Some(Timestamp::now());
    }

    /// Replaces a job on all hosts.
    pub(crate) fn rename(&mut self, old: &str, new: &'static str) -> anyhow::Result<()> {
        let now = Timestamp::now();
        let from = judge::next_minute(judge::next_minute(now));
        for job in &mut self.jobs {
            if job.name == old {
                job.until = Some(now);
            }
        }
        self.jobs.push(Job {
            name: new,
            from,
            until: None,
        });
        let jobs = self.jobs.iter().filter(|job| job.until.is_none());
        let names: Vec<_> = jobs.map(|job| job.name).collect();
        self.hosts.set_jobs(&self.databases.store(USERS[0]), &names)
    }

    /// Runs the command as an operator does, at the address of the store.
    pub(crate) fn shedlock(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.shedlock_at(&self.databases.store(USERS[0]), arguments)
    }

    /// The same, at this store.
    pub(crate) fn shedlock_at(&self, store: &str, arguments: &[&str]) -> anyhow::Result<String> {
        say(&format!("  shedlock {}", arguments.join(" ")));
        let with_store = [arguments, &["--store", store]].concat();
        shedlock(&self.command, self.folder.path(), &with_store)
    }

    /// What `doctor` finds now, for the record.
    pub(crate) fn ask_doctor(&mut self) -> anyhow::Result<()> {
        let store = self.databases.store(USERS[0]);
        let mut doctor = Command::new(&self.command);
        doctor.args(["doctor", "-o", "json", "--store", &store]);
        let said = doctor
            .env_clear()
            .env("HOME", self.folder.path())
            .output()?;
        let findings: Value = serde_json::from_slice(&said.stdout)?;
        for finding in findings["findings"].as_array().context("no findings")? {
            let word = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
            if word("level") != "ok" {
                let (check, level) = (word("check"), word("level"));
                say(&format!("  doctor: {level}: {check}: {}", word("message")));
                self.doctor.push((check, level));
            }
        }
        Ok(())
    }

    /// Everything that the judge needs, and what the command said meanwhile.
    pub(crate) fn record(&self) -> anyhow::Result<Record> {
        let runs = self.hosts.runs()?;
        println!("\nwhat `shedlock run` said on the hosts:");
        for (line, times) in self.hosts.said() {
            println!("{times:>4} × {line}");
        }
        Ok(Record {
            jobs: self.jobs.clone(),
            runs: runs.lines().map(Run::read).collect::<anyhow::Result<_>>()?,
            changes: self.monitoring.alerts.changes(),
        })
    }

    /// Runs a program of PostgreSQL on the primary's data.
    pub(crate) fn program(&self, name: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let program = shedlock_rig::PostgresServer::programs()?.join(name);
        let mut command = Command::new(program);
        command.args(arguments).arg("--dbname");
        let ran = command.arg(self.databases.primary().url()).output()?;
        ensure!(
            ran.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
        Ok(())
    }
}

fn shedlock(command: &Path, home: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(command);
    let ran = command
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .output()?;
    if !ran.status.success() {
        bail!(
            "shedlock {arguments:?}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    Ok(String::from_utf8(ran.stdout)?)
}

//! What the command reports meanwhile.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::jobs::{JOBS, now};

/// The states of a job that no one needs to look at.
const FINE: [&str; 5] = ["no run yet", "ok", "running", "taken", "unverified"];

/// The readers of one store.
pub(crate) struct Readers {
    store: String,
    /// What `doctor` found before the first job ran.
    known: BTreeSet<String>,
    are_watched: bool,
    pub(crate) looks: u32,
    pub(crate) alarms: Vec<String>,
}

impl Readers {
    /// Sets the store up, with a journal.
    pub(crate) fn of(store: &str) -> anyhow::Result<Self> {
        let mut readers = Self {
            store: store.to_owned(),
            known: BTreeSet::new(),
            are_watched: false,
            looks: 0,
            alarms: Vec::new(),
        };
        readers.shedlock(&["migrate"])?;
        readers.known = readers.findings()?;
        Ok(readers)
    }

    /// Reads everything, and keeps what is a false alarm.
    pub(crate) fn look(&mut self) -> anyhow::Result<()> {
        self.looks += 1;
        if !self.are_watched {
            // The outcome of Java's runs is Java's to report.
            for job in JOBS.iter().filter(|job| job.is_registered()) {
                self.shedlock(&["jobs", "--watched-by-java", job.name])?;
            }
            self.are_watched = true;
        }
        self.jobs()?;
        self.metrics()?;
        let found = self.findings()?;
        for finding in found.difference(&self.known) {
            self.alarms.push(format!("doctor: {finding}"));
        }
        Ok(())
    }

    fn jobs(&mut self) -> anyhow::Result<()> {
        let json: Value = serde_json::from_str(&self.shedlock(&["jobs", "-o", "json"])?)?;
        let jobs = json["jobs"].as_array().context("no jobs")?;
        for job in JOBS.iter().filter(|job| job.is_healthy()) {
            let of_job = jobs.iter().find(|it| it["job"] == job.name);
            let of_job = of_job.with_context(|| format!("{} is not registered", job.name))?;
            let is_fine = of_job["is_overdue"] == false
                && of_job["missed_slots"]["not_started"] == 0
                && FINE.iter().any(|state| of_job["state"] == *state);
            if !is_fine {
                self.alarms.push(format!("jobs: {of_job}"));
            }
        }
        Ok(())
    }

    /// The rules of `docs/alerts`, without their patience.
    fn metrics(&mut self) -> anyhow::Result<()> {
        let text = self.shedlock(&["metrics"])?;
        for job in JOBS.iter().filter(|job| job.is_healthy()) {
            let label = format!("job_name=\"{}\"", job.name);
            let lines: Vec<_> = text.lines().filter(|line| line.contains(&label)).collect();
            let mut deadlines = 0;
            for line in lines {
                let (series, value) = line.rsplit_once(' ').context("no value")?;
                let value: f64 = value.parse()?;
                let is_fine = if series.starts_with("shedlock_job_deadline_timestamp_seconds{") {
                    deadlines += 1;
                    value > Duration::from_millis(now()).as_secs_f64()
                } else if series.starts_with("shedlock_job_missed_slots{") {
                    value == 0.0 || !series.contains("not_started")
                } else {
                    !series.starts_with("shedlock_job_end_unknown{") || value == 0.0
                };
                if !is_fine {
                    self.alarms.push(format!("metrics: {line}"));
                }
            }
            ensure!(
                deadlines == 1,
                "{} has {deadlines} deadlines:\n{text}",
                job.name
            );
        }
        Ok(())
    }

    /// What `doctor` warns of.
    fn findings(&self) -> anyhow::Result<BTreeSet<String>> {
        let json: Value = serde_json::from_str(&self.shedlock(&["doctor", "-o", "json"])?)?;
        let findings = json["findings"].as_array().context("no findings")?;
        let findings = findings.iter().filter(|finding| finding["level"] != "ok");
        Ok(findings
            .map(|finding| format!("{}: {}", finding["check"], finding["message"]))
            .collect())
    }

    pub(crate) fn shedlock(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shedlock"));
        command
            .args(arguments)
            .args(["--quiet", "--store", &self.store]);
        let output = command.output().context("the command cannot be started")?;
        if !output.status.success() {
            bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

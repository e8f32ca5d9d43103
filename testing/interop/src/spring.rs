//! The application with Spring Boot.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, bail};
use shedlock_torture::spring_jvm;

use crate::Place;

/// A run of a job.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The job.
    pub job: String,
    /// Who ran it.
    pub by: &'static str,
    /// When it began, in milliseconds since 1970.
    pub begun: u64,
    /// When it ended.
    pub ended: u64,
}

/// The runs of all nodes, and what Spring has logged.
#[derive(Clone, Debug, Default)]
pub struct Runs(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    runs: Vec<Ran>,
    log: Vec<String>,
}

impl Runs {
    /// Adds one.
    pub fn add(&self, ran: Ran) {
        self.lock().runs.push(ran);
    }

    /// Returns those of this job, in the order of their begins.
    pub fn of(&self, job: &str) -> Vec<Ran> {
        let seen = self.lock();
        let mut runs: Vec<Ran> = seen
            .runs
            .iter()
            .filter(|ran| ran.job == job)
            .cloned()
            .collect();
        runs.sort_by_key(|ran| ran.begun);
        runs
    }

    /// Returns what Spring has logged since the last call.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().log)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process of `testing/interop/spring`. It is killed when this is dropped.
#[derive(Debug)]
pub struct Spring(Child);

impl Spring {
    /// Starts one on this store, and waits until Spring schedules its jobs.
    ///
    /// # Errors
    /// If it does not start.
    ///
    /// # Panics
    /// If it was not built: a test that needs it must not pass without it.
    pub fn start(place: &Place, runs: &Runs) -> anyhow::Result<Self> {
        let store = match place.arguments.as_slice() {
            [_, url, environment] if place.url.scheme() == "redis" => vec![
                "--interop.store=redis".to_owned(),
                format!("--spring.data.redis.url={url}"),
                format!("--interop.environment={environment}"),
                "--spring.autoconfigure.exclude=\
                 org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration"
                    .to_owned(),
            ],
            [_, url, ..] => vec![
                "--interop.store=postgres".to_owned(),
                format!("--spring.datasource.url={url}"),
            ],
            other => bail!("no settings for Spring in {other:?}"),
        };
        let command = spring_jvm(&store);
        let mut command =
            command.expect("SHEDLOCK_TEST_SPRING is not set: run `cargo xtask spring`");
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut spring = Self(process.spawn().context("java cannot be started")?);
        let output = spring.0.stdout.take().context("no pipe from java")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        // What Spring logs before it is ready says why it does not get ready.
        let mut log = String::new();
        while let Some(line) = lines.next() {
            if line == "ready" {
                let runs = runs.clone();
                thread::spawn(move || {
                    for line in lines {
                        match ran(&line) {
                            Some(ran) => runs.add(ran),
                            None => runs.lock().log.push(line),
                        }
                    }
                });
                return Ok(spring);
            }
            log += &line;
            log.push('\n');
        }
        bail!("the application has ended:\n{log}")
    }
}

impl Drop for Spring {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads the line that each run prints.
fn ran(line: &str) -> Option<Ran> {
    let mut words = line.strip_prefix("ran ")?.split(' ');
    Some(Ran {
        job: words.next()?.to_owned(),
        by: "Java",
        begun: words.next()?.parse().ok()?,
        ended: words.next()?.parse().ok()?,
    })
}

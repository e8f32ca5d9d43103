//! The other side.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use shedlock_torture::shedlock_jvm;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

/// A process of ShedLock's. It ends with this, holding what it held.
#[derive(Debug)]
pub struct Java {
    input: tokio::sync::Mutex<ChildStdin>,
    waiting: Arc<Waiting>,
    next: AtomicU64,
    process: Child,
}

type Waiting = Mutex<HashMap<u64, oneshot::Sender<Value>>>;

/// A lock that it holds, or held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(u64);

/// One of its providers; unless it was opened, the one that the process was started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provider(u64);

/// A method that Spring schedules.
#[derive(Clone, Copy, Debug)]
pub struct Scheduled<'a> {
    /// The lock.
    pub name: &'a str,
    /// When, as Spring reads it, in UTC.
    pub cron: &'a str,
    /// The longest lease.
    pub at_most: Duration,
    /// The shortest.
    pub at_least: Duration,
    /// How long each run takes.
    pub takes: Duration,
    /// How long it is scheduled.
    pub during: Duration,
    /// Whether the proxy that takes the lock is around the scheduler, not around the method.
    pub is_around_scheduler: bool,
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Milliseconds since 1970 at which its runs began.
    pub begun: Vec<u64>,
    /// How many of them gave their lock back when at-most was over.
    pub overruns: u64,
}

/// A task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// The longest lease.
    pub at_most: Duration,
    /// How long it takes.
    pub takes: Duration,
    /// Whether it first runs another one under the same lock.
    pub nested: bool,
    /// The lease that it then extends its own to.
    pub extend: Option<Duration>,
}

impl Java {
    /// Starts it in this time zone with these arguments; see `testing/interop/java`.
    ///
    /// # Errors
    /// Where it could not be started or its store not be opened.
    ///
    /// # Panics
    /// Where it was not built: a test that needs it does not pass without.
    pub async fn start(zone: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let properties = [
            ("user.timezone", zone),
            ("org.slf4j.simpleLogger.defaultLogLevel", "warn"),
            // A row that is there already is told as an error there, and is none.
            ("org.slf4j.simpleLogger.log.org.mariadb", "off"),
        ];
        let command = shedlock_jvm(&properties, arguments)
            .expect("SHEDLOCK_TEST_JAVA is not set: run `cargo xtask test`");
        let mut process = Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("java cannot be started")?;
        let input = process.stdin.take().context("no pipe to java")?;
        let mut lines = BufReader::new(process.stdout.take().context("no pipe from java")?).lines();
        lines
            .next_line()
            .await?
            .context("java ended before it was ready; it says why on standard error")?;
        let waiting = Arc::default();
        tokio::spawn(hand_out(lines, Arc::clone(&waiting)));
        Ok(Self {
            input: tokio::sync::Mutex::new(input),
            waiting,
            next: AtomicU64::new(1),
            process,
        })
    }

    /// One more provider of ShedLock's in this process; see `testing/interop/java`.
    ///
    /// # Errors
    /// Whatever ShedLock throws.
    pub async fn open(&self, arguments: &[String]) -> anyhow::Result<Provider> {
        let answer = self
            .ask(json!({ "do": "open", "arguments": arguments }))
            .await?;
        let provider = answer["provider"].as_u64();
        provider.map(Provider).context("no word on the provider")
    }

    /// Takes the lock; `None` where it is somebody else's.
    ///
    /// # Errors
    /// Whatever ShedLock throws.
    pub async fn lock(&self, name: &str, at_most: Duration) -> anyhow::Result<Option<Handle>> {
        self.lock_for(name, at_most, Duration::ZERO).await
    }

    /// Takes it, for at least so long.
    ///
    /// # Errors
    /// Whatever ShedLock throws.
    pub async fn lock_for(
        &self,
        name: &str,
        at_most: Duration,
        at_least: Duration,
    ) -> anyhow::Result<Option<Handle>> {
        let answer = self.ask(lock(name, at_most, at_least)).await?;
        Ok(handle(&answer))
    }

    /// Takes it by another provider.
    ///
    /// # Errors
    /// Whatever ShedLock throws.
    pub async fn lock_at(
        &self,
        Provider(provider): Provider,
        name: &str,
        at_most: Duration,
    ) -> anyhow::Result<Option<Handle>> {
        let mut command = lock(name, at_most, Duration::ZERO);
        command["provider"] = provider.into();
        Ok(handle(&self.ask(command).await?))
    }

    /// Takes it and keeps it, by ShedLock's `KeepAliveLockProvider`.
    ///
    /// # Errors
    /// Whatever ShedLock throws.
    pub async fn lock_kept_alive(
        &self,
        name: &str,
        at_most: Duration,
        at_least: Duration,
    ) -> anyhow::Result<Option<Handle>> {
        let mut command = lock(name, at_most, at_least);
        command["keep_alive"] = true.into();
        Ok(handle(&self.ask(command).await?))
    }

    /// Gives it back.
    ///
    /// # Errors
    /// Whatever ShedLock throws.
    pub async fn unlock(&self, Handle(handle): Handle) -> anyhow::Result<()> {
        self.ask(json!({ "do": "unlock", "handle": handle }))
            .await
            .map(drop)
    }

    /// Extends it; `None` where ShedLock says that it is lost.
    ///
    /// # Errors
    /// Whatever ShedLock throws.
    pub async fn extend(
        &self,
        Handle(of): Handle,
        at_most: Duration,
    ) -> anyhow::Result<Option<Handle>> {
        let command = json!({ "do": "extend", "handle": of, "at_most": millis(at_most) });
        Ok(handle(&self.ask(command).await?))
    }

    /// Runs a task through ShedLock's executor; when it ended, or `None` where it was skipped.
    ///
    /// # Errors
    /// Whatever ShedLock throws.
    pub async fn run(&self, name: &str, run: Run) -> anyhow::Result<Option<SystemTime>> {
        let mut command = lock(name, run.at_most, Duration::ZERO);
        command["do"] = "run".into();
        command["takes"] = millis(run.takes).into();
        if run.nested {
            command["nested"] = true.into();
        }
        if let Some(extend) = run.extend {
            command["extend"] = millis(extend).into();
        }
        let answer = self.ask(command).await?;
        let ended = answer["ended"].as_u64();
        Ok(ended.map(|ended| UNIX_EPOCH + Duration::from_millis(ended)))
    }

    /// Has Spring schedule a method.
    ///
    /// # Errors
    /// Whatever Spring and ShedLock throw.
    pub async fn schedule(&self, job: Scheduled<'_>) -> anyhow::Result<Runs> {
        let mut command = lock(job.name, job.at_most, job.at_least);
        command["do"] = "schedule".into();
        command["cron"] = job.cron.into();
        command["takes"] = millis(job.takes).into();
        command["during"] = millis(job.during).into();
        if job.is_around_scheduler {
            command["scheduler_proxy"] = true.into();
        }
        let answer = self.ask(command).await?;
        let runs = answer["runs"].as_array().context("no word on its runs")?;
        Ok(Runs {
            begun: runs.iter().filter_map(Value::as_u64).collect(),
            overruns: answer["overruns"].as_u64().context("no word on overruns")?,
        })
    }

    /// Whether this error of another call says that ShedLock has no such thing on this store.
    pub fn lacks(error: &anyhow::Error) -> bool {
        error
            .to_string()
            .contains("java.lang.UnsupportedOperationException")
    }

    /// Kills it at once (`kill -9`).
    ///
    /// # Errors
    /// Where it cannot be killed.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.process.kill().await?)
    }

    async fn ask(&self, mut command: Value) -> anyhow::Result<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        command["id"] = id.into();
        let (sender, answer) = oneshot::channel();
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, sender);
        let line = format!("{command}\n");
        self.input.lock().await.write_all(line.as_bytes()).await?;
        let answer = answer.await.context("java has ended")?;
        if let Some(error) = answer["error"].as_str() {
            bail!("ShedLock threw {error}");
        }
        Ok(answer)
    }
}

/// Gives each answer to who waits for it, until there are no more.
async fn hand_out(mut lines: tokio::io::Lines<BufReader<ChildStdout>>, waiting: Arc<Waiting>) {
    while let Ok(Some(line)) = lines.next_line().await {
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = answer["id"].as_u64().and_then(|id| waiting.remove(&id)) {
            // Who has stopped waiting needs no answer.
            let _ = sender.send(answer);
        }
    }
    waiting
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
}

fn lock(name: &str, at_most: Duration, at_least: Duration) -> Value {
    json!({
        "do": "lock", "name": name, "at_most": millis(at_most), "at_least": millis(at_least),
    })
}

fn handle(answer: &Value) -> Option<Handle> {
    answer["handle"].as_u64().map(Handle)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

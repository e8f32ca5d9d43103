//! The Java side.

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

/// A process of ShedLock. It ends when this is dropped, without releasing its locks.
#[derive(Debug)]
pub struct Java {
    input: tokio::sync::Mutex<ChildStdin>,
    waiting: Arc<Waiting>,
    next: AtomicU64,
    process: Child,
}

type Waiting = Mutex<HashMap<u64, oneshot::Sender<Value>>>;

/// A lock that the process holds or has held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(u64);

/// One of the process's providers. The default is the provider that the process was started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provider(u64);

/// A method that Spring schedules.
#[derive(Clone, Copy, Debug)]
pub struct Scheduled<'a> {
    /// The lock.
    pub name: &'a str,
    /// The cron expression in Spring's syntax, in UTC.
    pub cron: &'a str,
    /// ShedLock's lock-at-most-for.
    pub at_most: Duration,
    /// ShedLock's lock-at-least-for.
    pub at_least: Duration,
    /// How long each run takes.
    pub takes: Duration,
    /// How long the method stays scheduled.
    pub during: Duration,
    /// Whether the locking proxy wraps the scheduler rather than the method.
    pub is_around_scheduler: bool,
}

/// The runs of a scheduled method.
#[derive(Clone, Debug)]
pub struct Runs {
    /// When its runs began, in milliseconds since 1970.
    pub begun: Vec<u64>,
    /// From when on the lock-at-least-for of each run's lock counted, in milliseconds since 1970.
    pub since: Vec<u64>,
    /// How many runs released their lock after lock-at-most-for had passed.
    pub overruns: u64,
}

/// A task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// ShedLock's lock-at-most-for.
    pub at_most: Duration,
    /// How long it takes.
    pub takes: Duration,
    /// Whether it first runs another task under the same lock.
    pub nested: bool,
    /// The lease to which it then extends its own.
    pub extend: Option<Duration>,
}

impl Java {
    /// Starts the process in this time zone with these arguments; see `testing/interop/java`. Without arguments it has
    /// no store.
    ///
    /// # Errors
    /// If it cannot be started, or if it cannot open its store.
    ///
    /// # Panics
    /// If it was not built: a test that needs it must not pass without it.
    pub async fn start(zone: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let properties = [
            ("user.timezone", zone),
            ("org.slf4j.simpleLogger.defaultLogLevel", "warn"),
            // The driver logs an existing row as an error although it is none.
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

    /// Opens another provider of ShedLock in this process; see `testing/interop/java`.
    ///
    /// # Errors
    /// Any exception that ShedLock throws.
    pub async fn open(&self, arguments: &[String]) -> anyhow::Result<Provider> {
        let answer = self
            .ask(json!({ "do": "open", "arguments": arguments }))
            .await?;
        let provider = answer["provider"].as_u64();
        provider
            .map(Provider)
            .context("the answer does not name the provider")
    }

    /// Acquires the lock; `None` if another owner holds it.
    ///
    /// # Errors
    /// Any exception that ShedLock throws.
    pub async fn lock(&self, name: &str, at_most: Duration) -> anyhow::Result<Option<Handle>> {
        self.lock_for(name, at_most, Duration::ZERO).await
    }

    /// Acquires the lock with this lock-at-least-for.
    ///
    /// # Errors
    /// Any exception that ShedLock throws.
    pub async fn lock_for(
        &self,
        name: &str,
        at_most: Duration,
        at_least: Duration,
    ) -> anyhow::Result<Option<Handle>> {
        let answer = self.ask(lock(name, at_most, at_least)).await?;
        Ok(handle(&answer))
    }

    /// Acquires the lock with another provider.
    ///
    /// # Errors
    /// Any exception that ShedLock throws.
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

    /// Acquires the lock and keeps it alive with ShedLock's `KeepAliveLockProvider`.
    ///
    /// # Errors
    /// Any exception that ShedLock throws.
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

    /// Unlocks.
    ///
    /// # Errors
    /// Any exception that ShedLock throws.
    pub async fn unlock(&self, Handle(handle): Handle) -> anyhow::Result<()> {
        self.ask(json!({ "do": "unlock", "handle": handle }))
            .await
            .map(drop)
    }

    /// Extends the lock; `None` if ShedLock reports it as lost.
    ///
    /// # Errors
    /// Any exception that ShedLock throws.
    pub async fn extend(
        &self,
        Handle(of): Handle,
        at_most: Duration,
    ) -> anyhow::Result<Option<Handle>> {
        let command = json!({ "do": "extend", "handle": of, "at_most": millis(at_most) });
        Ok(handle(&self.ask(command).await?))
    }

    /// Runs a task through ShedLock's executor. Returns when the task ended, or `None` if it was
    /// skipped.
    ///
    /// # Errors
    /// Any exception that ShedLock throws.
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

    /// Makes Spring schedule a method.
    ///
    /// # Errors
    /// Any exception that Spring or ShedLock throws.
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
        let times = |of: &str| -> anyhow::Result<Vec<u64>> {
            let times = answer[of].as_array();
            let times = times.with_context(|| format!("the answer does not list {of:?}"))?;
            Ok(times.iter().filter_map(Value::as_u64).collect())
        };
        Ok(Runs {
            begun: times("runs")?,
            since: times("since")?,
            overruns: answer["overruns"]
                .as_u64()
                .context("the answer does not count the overruns")?,
        })
    }

    /// Returns the slots of Spring's `@Scheduled` that follow each of these instants, in seconds since 1970: this many,
    /// or `None` if Spring refuses the cron expression. Each case is an expression, a time zone and an instant.
    ///
    /// # Errors
    /// Any exception that Spring throws.
    pub async fn spring_slots(
        &self,
        cases: &[(String, &str, i64)],
        count: usize,
    ) -> anyhow::Result<Vec<Option<Vec<i64>>>> {
        let command = json!({ "do": "cron", "cases": cases, "count": count });
        let mut answer = self.ask(command).await?;
        Ok(serde_json::from_value(answer["slots"].take())?)
    }

    /// Returns whether this error of another call means that ShedLock does not support the
    /// operation on this store.
    pub fn lacks(error: &anyhow::Error) -> bool {
        error
            .to_string()
            .contains("java.lang.UnsupportedOperationException")
    }

    /// Kills the process with SIGKILL.
    ///
    /// # Errors
    /// If it cannot be killed.
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

/// Passes each reply to the caller that waits for it, until there are no more.
async fn hand_out(mut lines: tokio::io::Lines<BufReader<ChildStdout>>, waiting: Arc<Waiting>) {
    while let Ok(Some(line)) = lines.next_line().await {
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = answer["id"].as_u64().and_then(|id| waiting.remove(&id)) {
            // The caller may have stopped waiting.
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

//! A part of the soak, which is a process of its own: a server that nothing else uses, a load, and samples of both.

use std::fs;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use shedlock::{Executor, ListRequest, LockConfig, LockName, LockProvider, Outcome, Release};
use shedlock_rig::OwnServer;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::quantity::{DESCRIPTORS, HEAP, Quantity, RESIDENT, TASKS, THREADS};
use crate::verdict::quantile;
use crate::{ALLOCATED, Load};

/// How long a lock lasts if its process dies.
pub(crate) const AT_MOST: Duration = Duration::from_secs(60);

/// How long what is under way at the end may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The store of one part.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) server: Option<Arc<OwnServer>>,
    _folder: TempDir,
}

impl Place {
    /// Starts a server, or names a file.
    pub(crate) fn new(store: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let (url, server) = if store == "sqlite" {
            (
                format!("sqlite:{}", folder.path().join("locks.db").display()),
                None,
            )
        } else {
            // It is killed, but the machine is not, so nothing is lost. A wait for the disk would hide all other time.
            let arguments: &[&str] = if store == "postgres" {
                &["-cfsync=off"]
            } else {
                &[]
            };
            let server = OwnServer::start(store, arguments)?;
            (server.url().to_owned(), Some(Arc::new(server)))
        };
        Ok(Self {
            url,
            server,
            _folder: folder,
        })
    }

    /// A provider of its own, over migrated tables.
    pub(crate) async fn provider(&self) -> anyhow::Result<Arc<dyn LockProvider>> {
        let provider = shedlock::connect(&self.url).await?;
        provider.migrate().await?;
        if let Some(journal) = provider.journal() {
            journal.migrate().await?;
        }
        Ok(provider)
    }
}

/// Prints samples, each a line that the driver reads.
pub(crate) struct Samples {
    begun: Instant,
    load: Load,
    next: Instant,
}

impl Samples {
    /// From now on.
    pub(crate) fn new(load: Load) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            load,
            next: begun,
        }
    }

    /// Waits for the next sample. False once the time is up. Cancellation safe.
    pub(crate) async fn next(&mut self) -> bool {
        let next = (self.next + self.load.every).max(Instant::now());
        tokio::time::sleep_until(next.into()).await;
        self.next = next;
        self.begun.elapsed() <= self.load.lasts
    }

    pub(crate) fn add(&self, quantity: &Quantity, value: f64) {
        let hours = self.begun.elapsed().as_secs_f64() / 3_600.0;
        println!("sample\t{hours:.6}\t{}\t{value}", quantity.name);
    }

    /// What this process has.
    pub(crate) fn add_own(&self) -> anyhow::Result<()> {
        self.add(&HEAP, kilobytes(ALLOCATED.allocated()));
        self.add(&TASKS, count(Handle::current().metrics().num_alive_tasks()));
        let pid = std::process::id();
        self.add(&RESIDENT, resident(pid)?);
        self.add(&THREADS, status(pid, "Threads:")?);
        self.add(&DESCRIPTORS, descriptors(pid)?);
        Ok(())
    }
}

/// Something that must be so at the end.
pub(crate) fn end(what: &str, value: usize, at_most: usize) {
    println!("end\t{what}\t{value}\t{at_most}");
}

/// Waits for what goes on in the background. No lock may be held then.
pub(crate) async fn nothing_is_held(executor: &Executor) -> anyhow::Result<()> {
    tokio::time::timeout(PATIENCE, executor.settled()).await?;
    let held = ListRequest::new().held_only();
    let held = executor.provider().list(&held).await?;
    end("locks held", held.len(), 0);
    Ok(())
}

/// What a part has done, for people.
pub(crate) fn note(text: &str) {
    println!("note\t{text}");
}

pub(crate) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

fn kilobytes(bytes: usize) -> f64 {
    count(bytes / 1_024)
}

/// The descriptors of a process.
pub(crate) fn descriptors(pid: u32) -> anyhow::Result<f64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).context("a process has ended")?;
    Ok(count(entries.count()))
}

/// What a process has in memory, in kB.
pub(crate) fn resident(pid: u32) -> anyhow::Result<f64> {
    status(pid, "VmRSS:")
}

fn status(pid: u32, field: &str) -> anyhow::Result<f64> {
    let status =
        fs::read_to_string(format!("/proc/{pid}/status")).context("a process has ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let value = line.and_then(|line| line.split_whitespace().next());
    Ok(value
        .with_context(|| format!("this kernel does not report {field}"))?
        .parse()?)
}

/// Times of something since the last sample.
#[derive(Clone, Default)]
pub(crate) struct Times(Arc<Mutex<Vec<f64>>>);

impl Times {
    /// Adds the time of this.
    pub(crate) async fn of<T>(&self, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let done = work.await;
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.push(begun.elapsed().as_secs_f64());
        done
    }

    /// Returns the median, and forgets them.
    fn take(&self) -> f64 {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        quantile(times.drain(..), 0.5)
    }

    /// Adds the ratio of the medians, if something was done.
    pub(crate) fn sample(works: &[(&Quantity, &Self)], reads: &Self, samples: &Samples) {
        let read = reads.take();
        for (quantity, times) in works {
            let ratio = times.take() / read;
            if ratio.is_finite() {
                samples.add(quantity, ratio);
            }
        }
    }
}

/// Reads one lock: the least that the store does for a client, and the measure of every other time.
pub(crate) struct Yardstick {
    provider: Arc<dyn LockProvider>,
    name: LockName,
    pub(crate) times: Times,
}

impl Yardstick {
    pub(crate) async fn new(executor: &Executor) -> anyhow::Result<Self> {
        run_once(
            executor,
            &LockConfig::new("yardstick").lock_at_most_for(AT_MOST),
        )
        .await?;
        Ok(Self {
            provider: executor.provider().clone(),
            name: LockName::new("yardstick")?,
            times: Times::default(),
        })
    }

    pub(crate) async fn read(&self) -> anyhow::Result<()> {
        self.times.of(self.provider.inspect(&self.name)).await?;
        Ok(())
    }
}

/// An empty run, which must be one.
pub(crate) async fn run_once(executor: &Executor, config: &LockConfig) -> anyhow::Result<()> {
    let outcome = executor.execute(config, async {}).await?;
    let is_released = matches!(
        outcome,
        Outcome::Executed {
            release: Release::Released,
            ..
        }
    );
    ensure!(
        is_released,
        "{} was not run and given back: {outcome:?}",
        config.name()
    );
    Ok(())
}

/// Tasks that repeat something until the part ends. An error ends the part.
#[derive(Default)]
pub(crate) struct Workers {
    tasks: JoinSet<anyhow::Result<()>>,
    done: Arc<AtomicU64>,
    stopped: Arc<AtomicU64>,
}

impl Workers {
    /// Repeats `step` with this rest in between.
    pub(crate) fn add<F>(&mut self, rest: Duration, mut step: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = anyhow::Result<()>> + Send,
    {
        let (done, stopped) = (self.done.clone(), self.stopped.clone());
        self.tasks.spawn(async move {
            while stopped.load(Ordering::SeqCst) == 0 {
                step().await?;
                done.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(rest).await;
            }
            Ok(())
        });
    }

    /// Fails if one has failed.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        match self.tasks.try_join_next() {
            Some(ended) => ended?,
            None => Ok(()),
        }
    }

    /// Ends all of them, and returns how many steps they made.
    pub(crate) async fn stop(mut self) -> anyhow::Result<u64> {
        self.stopped.store(1, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(self.done.load(Ordering::SeqCst))
    }
}

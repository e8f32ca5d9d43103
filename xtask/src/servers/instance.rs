//! One running server: started, broken and repaired at will, and stopped for good with its run.

use super::port;
use super::run_dir::{Ending, RunDir};
use crate::host;
use crate::process::{Process, wait_until};
use anyhow::{Context as _, bail};
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How one kind of server is created, started, probed and stopped.
pub(crate) trait Server: Send + Sync {
    /// The word for it in messages, commands and folder names.
    fn name(&self) -> &'static str;

    /// The user it runs as, if not the current one.
    fn account(&self) -> Option<host::Account>;

    /// Fills the empty folder `home`, which belongs to the account.
    fn init(&self, run: &RunDir, home: &Path) -> anyhow::Result<()>;

    /// Serves what is in `home` on this port of 127.0.0.1, in the foreground.
    fn command(&self, home: &Path, port: u16) -> Command;

    /// The URL for clients.
    fn url(&self, port: u16) -> String;

    /// Its version, once it serves.
    fn probe(&self, port: u16) -> anyhow::Result<String>;

    /// How it ends when its data is no longer needed.
    fn ending(&self) -> Ending;

    /// The signal that shuts it down in order, disconnecting its clients.
    fn shutdown(&self) -> Signal;
}

/// A server of any kind.
pub(crate) fn boxed(server: impl Server + 'static) -> Box<dyn Server> {
    Box::new(server)
}

/// A throw-away server.
pub(crate) struct Instance {
    server: Box<dyn Server>,
    home: PathBuf,
    port: u16,
    running: Option<Child>,
    version: String,
}

/// How long a server may take until it serves; the slowest takes some seconds.
const START: Duration = Duration::from_secs(90);

/// How long it may take to end when its data is no longer needed.
const END: Duration = Duration::from_secs(10);

/// How long it may take to end in order, or, after a kill, to disappear.
const STOP: Duration = Duration::from_secs(60);

/// How often a server is restarted because another program took its port first.
const TRIES: usize = 3;

impl Instance {
    /// Creates and starts one, and waits until it serves.
    pub(crate) fn start(run: &RunDir, server: Box<dyn Server>) -> anyhow::Result<Self> {
        let name = server.name();
        let home = run.path().join(name);
        fs::create_dir(&home)
            .with_context(|| format!("{} could not be created", home.display()))?;
        if let Some(account) = server.account() {
            account.own(&home)?;
        }
        server
            .init(run, &home)
            .with_context(|| format!("{name} could not be set up"))?;
        let port = port::free()?;
        let mut instance = Self {
            server,
            home,
            port,
            running: None,
            version: String::new(),
        };
        for tries in 1.. {
            match instance.launch(run) {
                Ok(()) => break,
                Err(_) if tries < TRIES && instance.lost_its_port() => {
                    instance.port = port::free()?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(instance)
    }

    /// The word for it.
    pub(crate) fn name(&self) -> &'static str {
        self.server.name()
    }

    /// Its port on 127.0.0.1, the same for its whole life.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> String {
        self.server.url(self.port)
    }

    /// The version that it reported when it was started.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Starts it again after [`Instance::stop`] or [`Instance::kill`], with the same port and data.
    /// Does nothing if it runs.
    pub(crate) fn resume(&mut self, run: &RunDir) -> anyhow::Result<()> {
        if self.running.is_some() {
            Ok(())
        } else {
            self.launch(run)
        }
    }

    /// Shuts it down in order, as an operator does. Its clients are disconnected. Its data stays.
    pub(crate) fn stop(&mut self, run: &RunDir) -> anyhow::Result<()> {
        let Some(process) = self.process() else {
            return Ok(());
        };
        process.signal(self.server.shutdown());
        if !process.wait_ended(STOP) {
            bail!("{} did not stop within {} s", self.name(), STOP.as_secs());
        }
        self.reap(run)
    }

    /// Ends it like a crash. Its data stays, as far as it had been written.
    pub(crate) fn kill(&mut self, run: &RunDir) -> anyhow::Result<()> {
        if let Some(process) = self.process()
            && !process.kill_tree(STOP)
        {
            bail!("{} was killed, and did not end", self.name());
        }
        self.reap(run)
    }

    /// Makes it hang: connections stay open and are accepted, nothing is answered.
    pub(crate) fn freeze(&self) {
        if let Some(process) = self.process() {
            process.signal_tree(Signal::STOP);
        }
    }

    /// Ends [`Instance::freeze`].
    pub(crate) fn thaw(&self) {
        if let Some(process) = self.process() {
            process.signal_tree(Signal::CONT);
        }
    }

    fn launch(&mut self, run: &RunDir) -> anyhow::Result<()> {
        let name = self.name();
        let log = self.log()?;
        let mut command = self.server.command(&self.home, self.port);
        command
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("a log file could not be shared")?)
            .stderr(log);
        if let Some(account) = self.server.account() {
            account.apply(&mut command);
        }
        let mut child = run.spawn(name, self.server.ending(), &mut command)?;
        let mut answer = None;
        let mut ended = None;
        wait_until(START, || {
            ended = child.try_wait().ok().flatten();
            answer = Some(self.server.probe(self.port));
            ended.is_some() || matches!(answer, Some(Ok(_)))
        });
        self.running = Some(child);
        // A reply counts only while it runs: another program on the same port would answer, too.
        match (ended, answer) {
            (None, Some(Ok(version))) => {
                self.version = version;
                Ok(())
            }
            (Some(status), _) => {
                let _ = self.reap(run);
                bail!("{name} ended with {status}: {}", self.last_words());
            }
            (None, answer) => {
                let _ = self.kill(run);
                let why = answer
                    .and_then(Result::err)
                    .map_or(String::new(), |e| format!("{e:#}"));
                let seconds = START.as_secs();
                bail!(
                    "{name} was not ready within {seconds} s: {why}: {}",
                    self.last_words()
                );
            }
        }
    }

    fn reap(&mut self, run: &RunDir) -> anyhow::Result<()> {
        if let Some(mut child) = self.running.take() {
            child
                .wait()
                .with_context(|| format!("{} could not be waited for", self.name()))?;
        }
        run.forget(self.name(), self.server.ending());
        Ok(())
    }

    fn process(&self) -> Option<Process> {
        self.running
            .as_ref()
            .and_then(|child| Process::find(child.id()))
    }

    fn log(&self) -> anyhow::Result<File> {
        let path = self.log_path();
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("{} could not be written", path.display()))
    }

    /// Next to the home, which some servers require to be empty at first.
    fn log_path(&self) -> PathBuf {
        self.home.with_extension("log")
    }

    fn last_words(&self) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        host::last_lines(&String::from_utf8_lossy(&log), 15)
    }

    fn lost_its_port(&self) -> bool {
        self.last_words()
            .to_lowercase()
            .contains("address already in use")
    }
}

impl Drop for Instance {
    /// Ends it and leaves no zombie. Its run removes the data.
    fn drop(&mut self) {
        if let Some(process) = self.process() {
            process.signal_tree(self.server.ending().signal());
            process.signal_tree(Signal::CONT);
            if !process.wait_ended(END) {
                process.signal_tree(Signal::KILL);
            }
        }
        if let Some(mut child) = self.running.take() {
            let _ = child.wait();
        }
    }
}

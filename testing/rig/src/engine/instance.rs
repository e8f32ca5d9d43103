//! One running server: started, broken and repaired at will, and stopped for good with its run.

use super::definition::{Definition, Found, Kind};
use super::probe::Address;
use super::run_dir::RunDir;
use super::words::Words;
use crate::host::{self, Account};
use crate::port;
use crate::process::Process;
use crate::wait::until;
use anyhow::{Context as _, bail};
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use url::Url;

/// A throw-away server.
pub struct Instance {
    server: &'static Definition,
    /// What replaces the placeholders of its definition.
    words: Words,
    account: Option<Account>,
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
    /// Creates and starts one, and waits until it serves. `before` is the port of the server that it
    /// needs, if any.
    pub(crate) fn start(
        run: &RunDir,
        kind: Kind,
        found: Found,
        settings: Vec<String>,
        before: Option<u16>,
    ) -> anyhow::Result<Self> {
        let server = kind.0;
        let name = server.word;
        let home = run.path().join(name);
        fs::create_dir(&home)
            .with_context(|| format!("{} could not be created", home.display()))?;
        let account = server.account()?;
        if let Some(account) = account {
            account.own(&home)?;
        }
        let mut words = found.0;
        words.set("home", home.display());
        words.set_all("settings", settings);
        words.set(
            "before",
            before.map_or(String::new(), |port| port.to_string()),
        );
        for number in 0..server.more_ports {
            words.set(&format!("port{}", number + 2), port::free()?);
        }
        let mut instance = Self {
            server,
            words,
            account,
            home,
            port: port::free()?,
            running: None,
            version: String::new(),
        };
        instance
            .prepare(run)
            .with_context(|| format!("{name} could not be set up"))?;
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
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.server.word
    }

    /// Its port on 127.0.0.1, the same for its whole life.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url.replace("{port}", &self.port.to_string())
    }

    /// The version that it reported when it was started.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Starts it again after [`Instance::stop`] or [`Instance::kill`], with the same port and data.
    /// Does nothing if it runs.
    pub fn resume(&mut self, run: &RunDir) -> anyhow::Result<()> {
        if self.running.is_some() {
            Ok(())
        } else {
            self.launch(run)
        }
    }

    /// Shuts it down in order, as an operator does. Its clients are disconnected. Its data stays.
    pub fn stop(&mut self, run: &RunDir) -> anyhow::Result<()> {
        let Some(process) = self.process() else {
            return Ok(());
        };
        process.signal(self.server.shutdown);
        if !process.wait_ended(STOP) {
            bail!("{} did not stop within {} s", self.name(), STOP.as_secs());
        }
        self.reap(run)
    }

    /// Ends it like a crash. Its data stays, as far as it had been written.
    pub fn kill(&mut self, run: &RunDir) -> anyhow::Result<()> {
        if let Some(process) = self.process()
            && !process.kill_tree(STOP)
        {
            bail!("{} was killed, and did not end", self.name());
        }
        self.reap(run)
    }

    /// Makes it hang: connections stay open and are accepted, nothing is answered.
    pub fn freeze(&self) {
        if let Some(process) = self.process() {
            process.signal_tree(Signal::STOP);
        }
    }

    /// Ends [`Instance::freeze`].
    pub fn thaw(&self) {
        if let Some(process) = self.process() {
            process.signal_tree(Signal::CONT);
        }
    }

    /// Fills its folder.
    fn prepare(&self, run: &RunDir) -> anyhow::Result<()> {
        if self.server.prepare.is_empty() {
            return Ok(());
        }
        let name = format!("{}-init", self.name());
        let mut command = self.command(self.server.prepare, &self.words)?;
        run.complete(&name, &self.home.with_extension("init.log"), &mut command)
    }

    /// The command of this template, as its user in its folder.
    fn command(&self, template: &[&str], words: &Words) -> anyhow::Result<Command> {
        let mut arguments = words.arguments(template).into_iter();
        let program = arguments.next().context("it has no program")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.home);
        for (name, value) in self.server.variables {
            command.envs(words.text(value).map(|value| (name, value)));
        }
        if let Some(account) = self.account {
            account.apply(&mut command);
        }
        Ok(command)
    }

    fn launch(&mut self, run: &RunDir) -> anyhow::Result<()> {
        let name = self.name();
        let mut words = self.words.clone();
        words.set("port", self.port);
        for (file, text) in self.server.files {
            let file = self.home.join(file);
            let text = words.text(text).context("one of its files lacks a value")?;
            fs::write(&file, text)
                .with_context(|| format!("{} could not be written", file.display()))?;
        }
        let log = self.log()?;
        let mut command = self.command(self.server.command, &words)?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("a log file could not be shared")?)
            .stderr(log);
        let mut child = run.spawn(name, self.server.ending, &mut command)?;
        let mut answer = None;
        let mut ended = None;
        until(START, || {
            ended = child.try_wait().ok().flatten();
            answer = Some(self.probe());
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

    fn probe(&self) -> anyhow::Result<String> {
        let version = self.server.probe.version(&Address {
            url: &Url::parse(&self.url()).context("its URL cannot be read")?,
            host: "127.0.0.1",
            port: self.port,
            is_ours: true,
        })?;
        Ok(self.server.shown.replace("{}", &version))
    }

    fn reap(&mut self, run: &RunDir) -> anyhow::Result<()> {
        if let Some(mut child) = self.running.take() {
            child
                .wait()
                .with_context(|| format!("{} could not be waited for", self.name()))?;
        }
        run.forget(self.name(), self.server.ending);
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
            process.signal_tree(self.server.ending.signal());
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

//! A server that a test can stop.

use crate::running::Running;
use crate::wait::PATIENCE;
use anyhow::{Context as _, bail};
use std::env;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The environment variable with the program that starts servers; `cargo xtask test` sets it.
const PROGRAM: &str = "SHEDLOCK_TEST_XTASK";

/// As the harnesses of the conformance kit return errors.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A server that nothing else uses. `xtask servers up` starts it, kills it and starts it again, and outlives this
/// process by the time that it needs to clear up.
#[derive(Debug)]
pub struct OwnServer {
    store: String,
    url: String,
    /// Servers that run alongside the store: the store names as in the variables, and the URLs.
    companions: Vec<(String, String)>,
    xtask: Mutex<Running>,
}

impl OwnServer {
    /// Starts a server of this store (the name as for `cargo xtask test --store`) with these
    /// additional command-line arguments, and waits until it accepts connections.
    ///
    /// # Errors
    /// If the server cannot be started.
    pub fn start(store: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        Self::start_as(store, &["--bare"], arguments)
    }

    /// Like [`start`](Self::start), and also starts what runs alongside the store in the full test,
    /// if the machine has it: for PostgreSQL, PgBouncer in front of it.
    ///
    /// # Errors
    /// If the server cannot be started.
    pub fn start_with_companions(store: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        Self::start_as(store, &[], arguments)
    }

    fn start_as(store: &str, options: &[&str], arguments: &[&str]) -> anyhow::Result<Self> {
        let program = env::var_os(PROGRAM)
            .with_context(|| format!("{PROGRAM} is not set: run `cargo xtask test`"))?;
        let mut command = Command::new(program);
        command
            .args(["servers", "up", "--no-install", "--store", store])
            .args(options)
            .args(arguments.iter().map(|word| format!("--extra-arg={word}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let xtask = Running::start(&mut command)?;
        let mut urls = Vec::new();
        let ready =
            xtask.output.find(|line| {
                let named = line.strip_prefix("export SHEDLOCK_TEST_");
                let named = named.and_then(|rest| rest.split_once("_URL='"));
                urls.extend(named.map(|(name, url)| {
                    (name.to_lowercase(), url.trim_end_matches('\'').to_owned())
                }));
                (line == "# ready").then_some(())
            });
        let its_own = urls.iter().position(|(name, _)| name == store);
        let Some(its_own) = its_own.filter(|_| ready.is_ok()) else {
            bail!("xtask could not start a server of {store}");
        };
        let (_, url) = urls.swap_remove(its_own);
        Ok(Self {
            store: store.to_owned(),
            url,
            companions: urls,
            xtask: Mutex::new(xtask),
        })
    }

    /// The server's URL, which does not change across restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of this companion (`pgbouncer`), if it runs.
    #[must_use]
    pub fn companion(&self, name: &str) -> Option<&str> {
        let found = self.companions.iter().find(|(known, _)| known == name);
        found.map(|(_, url)| url.as_str())
    }

    /// Ends the server in order, as an operator does.
    ///
    /// # Errors
    /// If the server does not end.
    pub fn stop(&self) -> Result<(), BoxError> {
        Ok(self.order("stop")?)
    }

    /// Kills the server, as a crash does.
    ///
    /// # Errors
    /// If the server is not running.
    pub fn kill(&self) -> Result<(), BoxError> {
        Ok(self.order("kill")?)
    }

    /// Starts the server again, with its data, and waits until it accepts connections.
    ///
    /// # Errors
    /// If the server cannot be started.
    pub fn start_again(&self) -> Result<(), BoxError> {
        Ok(self.order("start")?)
    }

    fn order(&self, verb: &str) -> anyhow::Result<()> {
        let mut xtask = self.xtask.lock().unwrap_or_else(PoisonError::into_inner);
        xtask.say(&format!("{verb} {}", self.store))?;
        let answer = xtask.output.next(PATIENCE)?.context("xtask has ended")?;
        if !answer.starts_with("ok") {
            bail!(answer);
        }
        Ok(())
    }
}

impl Drop for OwnServer {
    /// The program stops its servers when its input ends.
    fn drop(&mut self) {
        let xtask = self.xtask.get_mut().unwrap_or_else(PoisonError::into_inner);
        xtask.close_input();
        // If it does not end, its guard stops its servers.
        let _ = xtask.wait(PATIENCE);
    }
}

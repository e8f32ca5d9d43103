//! A server that a test can stop.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::BoxError;

/// The environment variable with the program that starts servers; `cargo xtask test` sets it.
const PROGRAM: &str = "SHEDLOCK_TEST_XTASK";

/// A server that nothing else uses, for [`Harness::namespace_on_own_store`](crate::Harness).
/// `xtask servers up` starts it, kills it and starts it again. The server ends when this is dropped
/// and when this process is killed.
#[derive(Debug)]
pub struct OwnServer {
    store: String,
    url: String,
    /// Servers that run alongside the store: the store names as in the variables, and the URLs.
    companions: Vec<(String, String)>,
    xtask: Mutex<Xtask>,
}

#[derive(Debug)]
struct Xtask {
    process: Child,
    /// `None` once the program has to end.
    spec: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl OwnServer {
    /// Returns whether a server can be started: the environment names the program that starts
    /// servers.
    pub fn can_start() -> bool {
        std::env::var_os(PROGRAM).is_some()
    }

    /// Starts a server of this store (the name as for `cargo xtask test --store`) with these
    /// additional command-line arguments, and waits until it accepts connections.
    ///
    /// # Errors
    /// If the server cannot be started.
    pub fn start(store: &str, arguments: &[&str]) -> Result<Self, BoxError> {
        Self::start_as(store, &["--bare"], arguments)
    }

    /// Like [`start`](Self::start), and also starts what runs alongside the store in the full test,
    /// if the machine has it: for PostgreSQL, PgBouncer in front of it.
    ///
    /// # Errors
    /// If the server cannot be started.
    pub fn start_with_companions(store: &str, arguments: &[&str]) -> Result<Self, BoxError> {
        Self::start_as(store, &[], arguments)
    }

    fn start_as(store: &str, options: &[&str], arguments: &[&str]) -> Result<Self, BoxError> {
        let program = std::env::var_os(PROGRAM);
        let program = program.ok_or_else(|| format!("{PROGRAM} is not set"))?;
        let mut process = Command::new(program)
            .args(["servers", "up", "--no-install", "--store", store])
            .args(options)
            .args(arguments.iter().map(|word| format!("--extra-arg={word}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let spec = process.stdin.take();
        let stdout = process.stdout.take().ok_or("no standard output")?;
        let mut answers = BufReader::new(stdout).lines();
        let mut urls = Vec::new();
        for line in answers.by_ref() {
            let line = line?;
            if line == "# ready" {
                break;
            }
            let named = line.strip_prefix("export SHEDLOCK_TEST_");
            if let Some((name, url)) = named.and_then(|rest| rest.split_once("_URL='")) {
                urls.push((name.to_lowercase(), url.trim_end_matches('\'').to_owned()));
            }
        }
        let its_own = urls.iter().position(|(name, _)| name == store);
        let its_own =
            its_own.ok_or_else(|| format!("xtask could not start a server of {store}"))?;
        let (_, url) = urls.swap_remove(its_own);
        Ok(Self {
            store: store.to_owned(),
            url,
            companions: urls,
            xtask: Mutex::new(Xtask {
                process,
                spec,
                answers,
            }),
        })
    }

    /// Returns the server's URL, which does not change across restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the URL of this companion (`pgbouncer`), if it runs.
    pub fn companion(&self, name: &str) -> Option<&str> {
        let found = self.companions.iter().find(|(known, _)| known == name);
        found.map(|(_, url)| url.as_str())
    }

    /// Kills the server, as a crash does.
    ///
    /// # Errors
    /// If the server is not running.
    pub fn kill(&self) -> Result<(), BoxError> {
        self.order("kill")
    }

    /// Starts the server again, with its data, and waits until it accepts connections.
    ///
    /// # Errors
    /// If the server cannot be started.
    pub fn start_again(&self) -> Result<(), BoxError> {
        self.order("start")
    }

    fn order(&self, verb: &str) -> Result<(), BoxError> {
        let mut xtask = self.xtask.lock().unwrap_or_else(PoisonError::into_inner);
        let spec = xtask.spec.as_mut().ok_or("it is shutting down")?;
        writeln!(spec, "{verb} {}", self.store)?;
        spec.flush()?;
        let answer = xtask.answers.next().ok_or("xtask has ended")??;
        if answer.starts_with("ok") {
            Ok(())
        } else {
            Err(answer.into())
        }
    }
}

impl Drop for OwnServer {
    /// The program stops its servers when its input ends.
    fn drop(&mut self) {
        let xtask = self.xtask.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(xtask.spec.take());
        // If the process has already ended, there is nothing to wait for.
        let _ = xtask.process.wait();
    }
}

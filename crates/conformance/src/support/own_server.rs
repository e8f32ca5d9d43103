//! A server that a test may stop.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::BoxError;

/// Names the program that starts servers: `cargo xtask test` sets it.
const PROGRAM: &str = "SHEDLOCK_TEST_XTASK";

/// A server that nobody else uses, for [`Harness::namespace_on_own_store`](crate::Harness): started,
/// killed and started again by `xtask servers up`. It is gone when this is dropped, and when this
/// process is killed.
#[derive(Debug)]
pub struct OwnServer {
    store: String,
    url: String,
    /// What stands beside it: the names of the stores as the variables have them, and the URLs.
    companions: Vec<(String, String)>,
    xtask: Mutex<Xtask>,
}

#[derive(Debug)]
struct Xtask {
    process: Child,
    /// None once it is to end.
    spec: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl OwnServer {
    /// Whether one can be started: the environment names the program that does.
    pub fn can_start() -> bool {
        std::env::var_os(PROGRAM).is_some()
    }

    /// Starts a server of this store (the word of `cargo xtask test --store`), with these arguments
    /// added to its command line, and waits until it serves.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(store: &str, arguments: &[&str]) -> Result<Self, BoxError> {
        Self::start_as(store, &["--bare"], arguments)
    }

    /// The same with what stands beside the store in the full test, where the machine has it: for
    /// PostgreSQL, PgBouncer in front of it.
    ///
    /// # Errors
    /// Where it cannot be started.
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

    /// Where it listens; the same after it was started again.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where this companion listens (`pgbouncer`), if it runs.
    pub fn companion(&self, name: &str) -> Option<&str> {
        let found = self.companions.iter().find(|(known, _)| known == name);
        found.map(|(_, url)| url.as_str())
    }

    /// Ends it as a crash does.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn kill(&self) -> Result<(), BoxError> {
        self.order("kill")
    }

    /// Starts it again, with its data, and waits until it serves.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start_again(&self) -> Result<(), BoxError> {
        self.order("start")
    }

    fn order(&self, verb: &str) -> Result<(), BoxError> {
        let mut xtask = self.xtask.lock().unwrap_or_else(PoisonError::into_inner);
        let spec = xtask.spec.as_mut().ok_or("it was told to end")?;
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
    /// It ends its servers when its input does.
    fn drop(&mut self) {
        let xtask = self.xtask.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(xtask.spec.take());
        // One that is gone already needs no waiting for.
        let _ = xtask.process.wait();
    }
}

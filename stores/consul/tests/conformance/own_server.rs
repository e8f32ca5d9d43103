//! A server that a case may stop, from `cargo xtask servers up`.

use std::env;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use shedlock_conformance::BoxError;

pub(crate) struct OwnServer {
    url: String,
    xtask: Mutex<Xtask>,
}

struct Xtask {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl OwnServer {
    /// None where `cargo xtask test` is not what runs this.
    pub(crate) fn start() -> Option<Result<Self, BoxError>> {
        let program = env::var_os("SHEDLOCK_TEST_XTASK")?;
        let mut command = Command::new(program);
        command.args(["servers", "up", "--store", "consul", "--no-install"]);
        Some(Self::up(&mut command))
    }

    fn up(command: &mut Command) -> Result<Self, BoxError> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let said = process.stdout.take().ok_or("no output")?;
        let mut xtask = Xtask {
            process,
            said: BufReader::new(said).lines(),
        };
        let mut url = None;
        loop {
            let line = xtask.line()?;
            if let Some(value) = line.strip_prefix("export SHEDLOCK_TEST_CONSUL_URL=") {
                url = Some(value.trim_matches('\'').to_owned());
            }
            if line == "# ready" {
                let url = url.ok_or("no URL")?;
                let xtask = Mutex::new(xtask);
                return Ok(Self { url, xtask });
            }
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Gives an order, such as `kill` or `start`.
    pub(crate) fn order(&self, verb: &str) -> Result<(), BoxError> {
        let mut xtask = self.xtask.lock().unwrap_or_else(PoisonError::into_inner);
        let stdin = xtask.process.stdin.as_mut().ok_or("no input")?;
        writeln!(stdin, "{verb} consul")?;
        let said = xtask.line()?;
        if said.starts_with("ok") {
            return Ok(());
        }
        Err(said.into())
    }
}

impl Xtask {
    fn line(&mut self) -> Result<String, BoxError> {
        Ok(self.said.next().ok_or("the servers ended")??)
    }
}

impl Drop for Xtask {
    /// The end of its input ends the server.
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

//! A server of a test's own, which `xtask servers up` starts, stops and starts again.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use shedlock_conformance::BoxError;

/// A server that nobody else uses.
pub(crate) struct Own {
    url: String,
    xtask: Mutex<Xtask>,
}

struct Xtask {
    process: Child,
    /// None once it is to end.
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Own {
    /// The program that starts servers, which `cargo xtask test` names.
    pub(crate) fn program() -> Option<PathBuf> {
        std::env::var_os("SHEDLOCK_TEST_XTASK").map(PathBuf::from)
    }

    pub(crate) fn start(program: PathBuf, arguments: &[&str]) -> Result<Self, BoxError> {
        let mut up = Command::new(program);
        up.args(["servers", "up", "--store", "mongodb"])
            .args(arguments.iter().map(|word| format!("--extra-arg={word}")));
        let mut process = up
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let orders = process.stdin.take();
        let stdout = process.stdout.take().ok_or("no standard output")?;
        let mut answers = BufReader::new(stdout).lines();
        let mut url = None;
        for line in answers.by_ref() {
            let line = line?;
            if line == "# ready" {
                break;
            }
            let named = line.strip_prefix("export SHEDLOCK_TEST_MONGODB_URL='");
            url = url.or(named.map(|url| url.trim_end_matches('\'').to_owned()));
        }
        Ok(Self {
            url: url.ok_or("xtask could not start a server")?,
            xtask: Mutex::new(Xtask {
                process,
                orders,
                answers,
            }),
        })
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// As by a crash: `kill`, or `start`.
    pub(crate) fn order(&self, verb: &str) -> Result<(), BoxError> {
        let mut xtask = self.lock();
        let orders = xtask.orders.as_mut().ok_or("it was told to end")?;
        writeln!(orders, "{verb} mongodb")?;
        orders.flush()?;
        let answer = xtask.answers.next().ok_or("xtask has ended")??;
        if answer.starts_with("ok") {
            Ok(())
        } else {
            Err(answer.into())
        }
    }

    fn lock(&self) -> MutexGuard<'_, Xtask> {
        self.xtask.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Own {
    /// It ends its servers when its input does.
    fn drop(&mut self) {
        let mut xtask = self.lock();
        drop(xtask.orders.take());
        let _ = xtask.process.wait();
    }
}

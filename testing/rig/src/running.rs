//! A child process that ends with the value that started it.

use crate::process::Process;
use crate::wait::{PATIENCE, found, until};
use anyhow::{Context as _, bail};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A process. When this is dropped, it is killed with all that it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    program: String,
    input: Option<ChildStdin>,
    /// Its standard output, if that is a pipe.
    pub output: Lines,
    /// Its standard error, if that is a pipe.
    pub errors: Lines,
}

/// The lines that a process prints. They are read in the background, so that it never waits for a reader. What is not
/// UTF-8 is replaced.
#[derive(Debug)]
pub struct Lines(Receiver<String>);

impl Lines {
    fn read(pipe: Option<impl Read + Send + 'static>) -> Self {
        let (sender, receiver) = channel();
        let read = |pipe| {
            move || {
                for line in BufReader::new(pipe).split(b'\n') {
                    let Ok(line) = line else { return };
                    let line = line.strip_suffix(b"\r").unwrap_or(&line);
                    // If no one reads them, the pipe must be emptied nevertheless.
                    let _ = sender.send(String::from_utf8_lossy(line).into_owned());
                }
            }
        };
        if let Some(pipe) = pipe {
            thread::spawn(read(pipe));
        }
        Self(receiver)
    }

    /// The next one, or `None` once there are no more.
    ///
    /// # Errors
    /// If none comes within this time.
    pub fn next(&self, patience: Duration) -> anyhow::Result<Option<String>> {
        match self.0.recv_timeout(patience) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                bail!("a process printed no line within {patience:?}")
            }
        }
    }

    /// What `look` finds in one of the next ones.
    ///
    /// # Errors
    /// If it finds nothing before the last one, or within the time that any machine needs.
    pub fn find<T>(&self, mut look: impl FnMut(&str) -> Option<T>) -> anyhow::Result<T> {
        let end = Instant::now() + PATIENCE;
        let mut seen = String::new();
        while let Some(line) = self.next(end.saturating_duration_since(Instant::now()))? {
            if let Some(found) = look(&line) {
                return Ok(found);
            }
            seen += &line;
            seen.push('\n');
        }
        bail!("a process printed something else: {seen}")
    }

    /// All that are left, once the process has closed its side.
    #[must_use]
    pub fn rest(&self) -> String {
        self.0.iter().map(|line| line + "\n").collect()
    }
}

impl Running {
    /// Starts this command.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn();
        let mut child = child.with_context(|| format!("{program} could not be started"))?;
        Ok(Self {
            input: child.stdin.take(),
            output: Lines::read(child.stdout.take()),
            errors: Lines::read(child.stderr.take()),
            program,
            child,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to its standard input.
    ///
    /// # Errors
    /// If that is closed, or no pipe.
    pub fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut();
        let input = input.with_context(|| format!("{} has no input", self.program))?;
        writeln!(input, "{line}")?;
        Ok(input.flush()?)
    }

    /// Ends its standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Sends it a signal, if it still runs.
    pub fn signal(&self, signal: Signal) {
        if let Some(process) = Process::find(self.id()) {
            process.signal(signal);
        }
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// If it has not within this time.
    pub fn wait(&mut self, patience: Duration) -> anyhow::Result<ExitStatus> {
        found(patience, || self.ended())
            .with_context(|| format!("{} has not ended within {patience:?}", self.program))
    }

    /// Kills it with all that it started, as a crash of the machine does. Nothing is left when this returns.
    pub fn kill(&mut self) {
        if let Some(process) = Process::find(self.id()) {
            process.kill_tree(PATIENCE);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process that a test starts, stops and starts again.
#[derive(Debug, Default)]
pub struct Restartable(Mutex<Option<Running>>);

impl Restartable {
    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self, command: &mut Command) -> anyhow::Result<()> {
        *self.running() = Some(Running::start(command)?);
        Ok(())
    }

    /// Whether it has ended, or was never started.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut running = self.running();
        running.as_mut().is_none_or(|it| it.ended().is_some())
    }

    /// Stops it like a power failure would, if it runs.
    pub fn stop(&self) {
        drop(self.running().take());
    }

    /// Sends it a signal, if it runs.
    pub fn signal(&self, signal: Signal) {
        if let Some(running) = &*self.running() {
            running.signal(signal);
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether all of these processes have ended.
#[must_use]
pub fn all_gone(ids: &[u32]) -> bool {
    ids.iter().all(|id| Process::find(*id).is_none())
}

/// Waits until all of these processes have ended. Returns `false` if one has not.
#[must_use]
pub fn wait_all_gone(ids: &[u32]) -> bool {
    until(PATIENCE, || all_gone(ids))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn shell(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Running::start(&mut command).unwrap()
    }

    #[test]
    fn lines_are_read_and_written() {
        let mut cat = shell("echo ready; cat; exit 3");
        let number = |line: &str| line.parse::<u32>().ok();
        cat.say("no number").unwrap();
        cat.say("7").unwrap();
        assert_eq!(cat.output.find(number).unwrap(), 7);
        assert!(cat.errors.find(number).is_err(), "no pipe");
        assert!(
            cat.output.next(Duration::from_millis(5)).is_err(),
            "none yet"
        );
        assert!(cat.ended().is_none());
        cat.close_input();
        assert!(cat.output.find(number).is_err(), "no more");
        assert_eq!(cat.wait(PATIENCE).unwrap().code(), Some(3));
        assert!(cat.say("gone").is_err());
    }

    #[test]
    fn a_value_that_is_dropped_leaves_no_process() {
        let shell = shell("sleep 60 & echo $!; wait");
        let child = shell.output.find(|line| line.parse().ok()).unwrap();
        let ids = [shell.id(), child];
        assert!(!all_gone(&ids));
        drop(shell);
        assert!(wait_all_gone(&ids));
    }

    #[test]
    fn an_output_without_a_reader_blocks_nothing() {
        let mut chatty = shell("head -c 1000000 /dev/zero");
        assert!(chatty.wait(PATIENCE).unwrap().success());
    }
}

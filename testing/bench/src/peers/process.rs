//! The process of a contender, from outside.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use shedlock_bench_contender::{Answer, Order, Ready};
use shedlock_rig::Running;
use shedlock_rig::wait::PATIENCE;

/// A contender's process. It ends when this value is dropped.
pub(crate) struct Process {
    running: Running,
    versions: String,
}

/// The result of a round, and the CPU time that the process used for it.
pub(crate) struct Ran {
    pub(crate) answer: Answer,
    pub(crate) cpu: Duration,
}

impl Process {
    /// Starts it, and waits until it is ready.
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Self {
            running: Running::start(&mut command)?,
            versions: String::new(),
        };
        process.versions = process.answer::<Ready>()?.versions;
        Ok(process)
    }

    /// The components that it reports.
    pub(crate) fn versions(&self) -> &str {
        &self.versions
    }

    /// Makes it run a round.
    pub(crate) fn round(&mut self, order: &Order) -> anyhow::Result<Ran> {
        let before = self.cpu()?;
        self.running.say(&serde_json::to_string(order)?)?;
        let answer = self.answer()?;
        let cpu = self.cpu()?.saturating_sub(before);
        Ok(Ran { answer, cpu })
    }

    fn answer<T: serde::de::DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let line = self.running.output.next(PATIENCE)?;
        let line = line.context("a contender has ended: see its message above")?;
        serde_json::from_str(&line).with_context(|| format!("a contender printed {line:?}"))
    }

    /// CPU time of all its threads so far, in system ticks of usually 10 ms.
    fn cpu(&self) -> anyhow::Result<Duration> {
        let path = format!("/proc/{}/stat", self.running.id());
        let stat = fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
        let ticks = ticks(&stat).with_context(|| format!("{path} is not as expected"))?;
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        Ok(Duration::from_secs_f64(seconds))
    }
}

/// User and system time, in the format of `proc_pid_stat(5)`. The program's name may contain
/// blanks.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

impl Drop for Process {
    fn drop(&mut self) {
        self.running.close_input();
        if let Err(error) = self.running.wait(PATIENCE) {
            eprintln!("bench: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_user_and_system_time() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 8 0";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("nothing"), None);
    }
}

//! Runs the line of a step, and ends what it left running.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use shedlock_rig::wait::found;

use crate::screen::Printed;

/// A step that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A process group that may still run.
#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs the command to its end. What it prints goes to files, so that a process that it leaves in the background is not
/// waited for.
pub(crate) fn run(mut command: Command, outputs: &Path) -> Result<(Printed, Group), String> {
    let error = |error: std::io::Error| format!("cannot run the step: {error}");
    let (stdout, stderr) = (outputs.join("stdout"), outputs.join("stderr"));
    command
        .stdin(Stdio::null())
        .stdout(appended(&stdout).map_err(error)?)
        .stderr(appended(&stderr).map_err(error)?)
        .process_group(0);
    let mut child = command.spawn().map_err(error)?;
    let group = Group(i32::try_from(child.id()).ok().and_then(Pid::from_raw));
    // Also an error ends the wait.
    let status = found(LIMIT, || child.try_wait().transpose());
    let status = status.transpose().map_err(error)?;
    let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut printed = Printed {
        stdout: read(stdout).map_err(error)?,
        stderr: read(stderr).map_err(error)?,
        code: -1,
    };
    let Some(status) = status else {
        let screen = printed.screen().join("\n");
        return Err(format!(
            "the step did not end within {LIMIT:?}; it printed:\n{screen}"
        ));
    };
    printed.code = status.code().unwrap_or(-1);
    Ok((printed, group))
}

/// An empty file, to which each process appends.
fn appended(path: &Path) -> Result<File, std::io::Error> {
    let _ = fs::remove_file(path);
    File::options().create(true).append(true).open(path)
}

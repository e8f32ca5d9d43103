//! The command that must never run twice at once.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::time::{ClockId, clock_gettime};
use shedlock_rig::wait::pause;

/// The folder that the jobs of one contest share. If it is set, this program is a job.
pub(crate) const FOLDER: &str = "SHEDLOCK_TORTURE_FOLDER";

pub(crate) fn is_wanted() -> bool {
    std::env::var_os(FOLDER).is_some()
}

/// Enters, stays a little, leaves, and logs when.
///
/// It also holds a kernel lock while it lives. A job that finds that lock taken overlaps with
/// another, whatever the clocks show.
pub(crate) fn run() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let token = std::env::var("SHEDLOCK_FENCING_TOKEN").unwrap();
    let arena = File::create(folder.join("arena")).unwrap();
    if flock(&arena, FlockOperation::NonBlockingLockExclusive).is_err() {
        log(&folder, &format!("overlap {token} {}\n", now().as_micros()));
        std::process::exit(99);
    }
    log(&folder, &format!("enter {token} {}\n", now().as_micros()));
    std::io::stdout().lock().write_all(b"in\n").unwrap();
    pause(Duration::from_micros(
        token.parse::<u64>().unwrap() % 20_000,
    ));
    log(&folder, &format!("leave {token} {}\n", now().as_micros()));
}

/// One line in one write, so that lines of several processes do not mix.
fn log(folder: &Path, line: &str) {
    let mut options = OpenOptions::new();
    let mut log = options
        .append(true)
        .create(true)
        .open(folder.join("log"))
        .unwrap();
    log.write_all(line.as_bytes()).unwrap();
}

/// The clock that all processes of this machine share.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(
        now.tv_sec.try_into().unwrap(),
        now.tv_nsec.try_into().unwrap(),
    )
}

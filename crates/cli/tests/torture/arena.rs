//! The contest, and the judge.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use shedlock_rig::wait::pause;
use tempfile::TempDir;

use crate::job::{FOLDER, now};
use crate::stores::Store;

const PROCESSES: u32 = 10;
/// One winner of this many is killed.
const KILLED: u32 = 12;
const AT_MOST: Duration = Duration::from_millis(1500);
/// The time that the contenders may need, on a machine that is busy with all of them and more, to
/// notice that the lock is free.
const NOTICING: Duration = Duration::from_secs(10);
/// The command was stopped before its lease ended, or not started because too little of it was
/// left: correct on a machine that is too busy for such short leases.
const STARVED: [i32; 2] = [75, 69];
const SKIPPED: i32 = 9;

struct Fight {
    url: String,
    folder: TempDir,
    wanted: u32,
    won: AtomicU32,
    complaints: Mutex<Vec<String>>,
}

/// Lets the processes contend for this store. The error describes what went wrong.
pub(crate) fn fight(store: &Store) -> Result<(), String> {
    let is_full = std::env::var_os("SHEDLOCK_TEST_FULL").is_some_and(|value| !value.is_empty());
    let default = if is_full { 100 } else { 40 };
    let wanted = std::env::var("SHEDLOCK_TORTURE_ACQUISITIONS").map_or(default, |wanted| {
        wanted
            .parse()
            .expect("SHEDLOCK_TORTURE_ACQUISITIONS is a number")
    });
    let folder = TempDir::new().unwrap();
    let fight = Fight {
        url: store.url(folder.path())?,
        folder,
        wanted,
        won: AtomicU32::new(0),
        complaints: Mutex::default(),
    };
    let migrated = fight.shedlock(&["migrate"]).output().unwrap();
    if !migrated.status.success() {
        return Err(String::from_utf8_lossy(&migrated.stderr).into_owned());
    }
    std::thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| fight.contend());
        }
    });
    let mut complaints = fight.complaints.into_inner().unwrap();
    let log = fs::read_to_string(fight.folder.path().join("log")).unwrap();
    complaints.extend(judge(&log, wanted));
    if complaints.is_empty() {
        return Ok(());
    }
    Err(complaints.join("\n"))
}

impl Fight {
    fn shedlock(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shedlock"));
        command
            .args(arguments)
            .env("SHEDLOCK_STORE", &self.url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn goes_on(&self) -> bool {
        self.won.load(Ordering::Relaxed) < self.wanted && self.complaints.lock().unwrap().is_empty()
    }

    fn contend(&self) {
        let at_most = format!("{}ms", AT_MOST.as_millis());
        let job = std::env::current_exe().unwrap();
        while self.goes_on() {
            let mut run = self.shedlock(&["run", "--name", "torture"]);
            run.args(["--lock-at-most-for", &at_most])
                .args(["--skip-exit-code", &SKIPPED.to_string(), "--"])
                .arg(&job)
                .env(FOLDER, self.folder.path());
            let spawned = now();
            let mut child = run.spawn().unwrap();
            let mut line = String::new();
            let mut stdout = BufReader::new(child.stdout.take().unwrap());
            stdout.read_line(&mut line).unwrap();
            let mut is_killed = false;
            if line == "in\n" {
                let won = self.won.fetch_add(1, Ordering::Relaxed);
                is_killed = won % KILLED == KILLED / 2;
                if is_killed {
                    // At any point of its run, also while it gives the lock back.
                    pause(Duration::from_micros(u64::from(won) * 7_919 % 25_000));
                    child.kill().unwrap();
                }
            }
            self.look_at_end(child, is_killed, spawned);
        }
    }

    fn look_at_end(&self, mut child: Child, is_killed: bool, spawned: Duration) {
        let mut stderr = String::new();
        if !is_killed {
            // If it was killed, the watchdog holds the other end until its job is gone.
            let mut pipe = child.stderr.take().unwrap();
            pipe.read_to_string(&mut stderr).unwrap();
        }
        let code = child.wait().unwrap().code();
        let is_fine = match code {
            // A lease that is lost before the unlock must have had the time to end by itself.
            Some(0) => stderr.is_empty() || now() - spawned > AT_MOST,
            Some(SKIPPED) => true,
            None => is_killed,
            Some(code) if STARVED.contains(&code) => stderr.contains("raise"),
            Some(_) => false,
        };
        if !is_fine {
            let mut complaints = self.complaints.lock().unwrap();
            complaints.push(format!("a run ended with {code:?}: {stderr}"));
        }
        // Spread out, so that they do not all try at once again.
        pause(Duration::from_micros(now().as_micros() as u64 % 3_000));
    }
}

/// The violations in a history.
fn judge(log: &str, wanted: u32) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut entered: Option<(u64, Duration)> = None;
    let mut left = true;
    let mut entries = 0;
    for line in log.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let token: u64 = fields[1].parse().unwrap();
        let at = Duration::from_micros(fields[2].parse().unwrap());
        match fields[0] {
            "enter" => {
                entries += 1;
                if let Some((before, since)) = entered {
                    if token <= before {
                        complaints.push(format!("token {token} came after {before}"));
                    }
                    // The attempt that won came before the command that entered, so this is
                    // stricter by the time that a command takes to start.
                    if !left && at - since > AT_MOST + NOTICING {
                        complaints.push(format!(
                            "after token {before} the lock stayed taken for {:?}",
                            at - since
                        ));
                    }
                }
                entered = Some((token, at));
                left = false;
            }
            "leave" => {
                if entered.is_none_or(|(inside, _)| inside != token) {
                    complaints.push(format!("{token} left while another was inside"));
                }
                left = true;
            }
            _ => complaints.push(format!("two commands at once: {line}")),
        }
    }
    // A contest that was aborted already has its violation.
    if entries < wanted {
        complaints.push(format!(
            "only {entries} of {wanted} acquisitions are in the log"
        ));
    }
    complaints
}

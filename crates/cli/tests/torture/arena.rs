//! The contest.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use shedlock_proof::SeededRng;
use shedlock_proof::history::History;
use shedlock_rig::wait::pause;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::faults::{Fault, LATE_AFTER_CUT, WallClock, Way};
use crate::history::{self, Run, SKIPPED};
use crate::job::{Job, now};
use crate::observer::observe;
use crate::stores::Store;

const CONTENDERS: usize = 7;
pub(crate) const AT_MOST: Duration = Duration::from_secs(5);
/// The first two are for commands that run long. The others are free most of the time, so that a late request may win.
const LOCKS: [&str; 4] = [
    "torture-hot",
    "torture-warm",
    "torture-cool",
    "torture-cold",
];
/// The time that a contender may need, on a machine that is busy with all of them and more, to notice that a lock is free.
const NOTICING: Duration = Duration::from_secs(20);
/// The command was stopped before its lease ended, or the store failed, or was too slow.
const STOPPED: [i32; 2] = [75, 69];
/// Shorter runs may not have each fault.
const HAS_ALL_FAULTS: Duration = Duration::from_secs(25);

struct Contest {
    url: String,
    folder: TempDir,
    until: Duration,
    clocks: Option<String>,
    runtime: Runtime,
    numbers: AtomicU32,
    runs: Mutex<Vec<Run>>,
    faults: Mutex<BTreeMap<&'static str, usize>>,
    complaints: Mutex<Vec<String>>,
}

/// Lets the processes contend for this store. The error describes what went wrong.
pub(crate) fn fight(store: &Store) -> Result<(), String> {
    let mut rng = SeededRng::of_this_run();
    let lasts = store.lasts();
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let contest = Contest {
        url: store.url(folder.path())?,
        folder,
        until: now() + lasts,
        // A file is judged by the clocks of its clients.
        clocks: WallClock::library().filter(|_| store.is_server()),
        runtime,
        numbers: AtomicU32::new(0),
        runs: Mutex::default(),
        faults: Mutex::default(),
        complaints: Mutex::default(),
    };
    let migrated = contest
        .shedlock(&["migrate", "--no-journal"])
        .output()
        .unwrap();
    if !migrated.status.success() {
        return Err(String::from_utf8_lossy(&migrated.stderr).into_owned());
    }
    let stops = AtomicBool::new(false);
    let observed = std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(observe(&contest.url, &LOCKS, &stops))
        });
        let contenders: Vec<_> = (0..CONTENDERS)
            .map(|number| {
                let (contest, rng) = (&contest, rng.fork());
                scope.spawn(move || contest.contend(number, rng))
            })
            .collect();
        for contender in contenders {
            contender.join().unwrap();
        }
        contest.are_free();
        stops.store(true, Ordering::Relaxed);
        observer.join().unwrap()
    });
    let (capabilities, seen) = observed?;
    let written = History::load(contest.folder.path()).unwrap();
    let runs = contest.runs.into_inner().unwrap();
    let history = history::of(&runs, &written, &seen);
    let findings = history.judge(&history::rules(&capabilities));
    let faults = contest.faults.into_inner().unwrap();
    println!(
        "{}: {} runs, {} acquisitions, {} skips, faults {faults:?}, {} events judged, {} violations; {}",
        store.name(),
        runs.len(),
        findings.acquisitions,
        findings.skips,
        findings.events,
        findings.violations.len(),
        rng.to_repeat()
    );
    let mut complaints = contest.complaints.into_inner().unwrap();
    complaints.extend(findings.violations.into_iter().take(8));
    if lasts >= HAS_ALL_FAULTS && complaints.is_empty() {
        let mut wanted = vec!["kills", "stops"];
        wanted.extend(store.is_server().then_some(LATE_AFTER_CUT));
        wanted.extend(contest.clocks.is_some().then_some("jumps"));
        wanted.retain(|word| !faults.contains_key(word));
        complaints.extend(wanted.iter().map(|word| format!("there were no {word}")));
    }
    if complaints.is_empty() {
        return Ok(());
    }
    let folder = contest.folder.keep();
    let lines = |lines: Vec<String>| lines.join("\n");
    let runs = lines(runs.iter().map(|run| format!("{run:?}")).collect());
    fs::write(folder.join("runs"), runs).unwrap();
    let events = history.events().iter().map(|event| format!("{event:?}"));
    fs::write(folder.join("history"), lines(events.collect())).unwrap();
    complaints.push(format!("logs in {}; {}", folder.display(), rng.to_repeat()));
    Err(complaints.join("\n"))
}

impl Contest {
    fn shedlock(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shedlock"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("SHEDLOCK_STORE", &self.url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn goes_on(&self) -> bool {
        now() < self.until && self.complaints.lock().unwrap().is_empty()
    }

    fn has_seen(&self, word: &str) -> bool {
        self.faults.lock().unwrap().contains_key(word)
    }

    fn count(&self, word: &'static str) {
        *self.faults.lock().unwrap().entry(word).or_default() += 1;
    }

    fn contend(&self, number: usize, mut rng: SeededRng) {
        // One out of three reaches the store directly.
        let way = (!number.is_multiple_of(3)).then(|| Way::to(&self.url, &self.runtime));
        let way = way.flatten();
        // Short contests have each fault, too. One that finds no command waits for the next.
        let mut planned = match number {
            1 => Some(Fault::Stopped(Duration::ZERO)),
            4 if self.clocks.is_some() => Some(Fault::StoppedAndJump(Duration::ZERO)),
            2 if self.clocks.is_some() => Some(Fault::Jump(Duration::ZERO, AT_MOST * 2)),
            _ => None,
        };
        while self.goes_on() {
            let drawn = Fault::draw(&mut rng, self.clocks.is_some());
            let fault = *planned.get_or_insert(drawn);
            if self.run(&mut rng, way.as_ref(), fault) {
                planned = None;
            }
            // Spread out, so that they do not all try at once again.
            pause(rng.up_to(Duration::from_millis(200)));
        }
    }

    /// Returns whether the fault has found its command.
    fn run(&self, rng: &mut SeededRng, way: Option<&Way>, fault: Fault) -> bool {
        let lasts = fault.lasts(rng);
        let locks = match way {
            _ if lasts > AT_MOST => &LOCKS[..2],
            Some(_) => &LOCKS[2..],
            None => &LOCKS,
        };
        let lock = *rng.pick(locks);
        let (has_struck, struck) = self.run_for(rng, way, fault, lock, lasts);
        if struck == Some(LATE_AFTER_CUT) {
            // Another owner comes and goes, so that the record no longer shows that the first one has ended.
            let lasts = Duration::from_millis(1);
            self.run_for(rng, None, Fault::None, lock, lasts);
        }
        has_struck
    }

    /// Returns whether the fault has found its command, and what has disturbed its connections.
    fn run_for(
        &self,
        rng: &mut SeededRng,
        way: Option<&Way>,
        fault: Fault,
        lock: &str,
        lasts: Duration,
    ) -> (bool, Option<&'static str>) {
        let job = Job {
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            lock: lock.to_owned(),
            lasts,
            is_stubborn: rng.one_in(4),
        };
        let is_kept_alive = rng.one_in(3);
        let at_most = format!("{}ms", AT_MOST.as_millis());
        let mut command = self.shedlock(&["run", "--name", &job.lock]);
        command.args(["--lock-at-most-for", &at_most]);
        command.args(["--skip-exit-code", &SKIPPED.to_string()]);
        command.args(is_kept_alive.then_some("--keep-alive"));
        if rng.flip() {
            command.args(["--lock-wait", "3s"]);
        }
        let (variable, orders) = job.variable();
        command.arg("--").arg(std::env::current_exe().unwrap());
        command.env(variable, orders);
        let disturbance = way.and_then(|way| {
            command.env("SHEDLOCK_STORE", &way.url);
            way.disturb(rng, &job.lock, !self.has_seen(LATE_AFTER_CUT))
        });
        let clock = match (&self.clocks, fault) {
            (Some(library), Fault::Jump(..) | Fault::StoppedAndJump(_)) => {
                let file = self.folder.path().join(format!("{}.clock", job.number));
                Some(WallClock::of(&mut command, library, file))
            }
            _ => None,
        };
        let spawned = now();
        let mut child = command.spawn().unwrap();
        let (has_struck, killed) = self.strike(&mut child, fault, clock.as_ref());
        let mut stderr = String::new();
        // If it was killed, its watchdog holds the other end until it has ended.
        let mut pipe = child.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        let code = child.wait().unwrap().code();
        let struck = disturbance.and_then(|it| it.struck());
        if let Some(way) = way {
            way.heal(&self.runtime);
        }
        if let Some(word) = struck {
            self.count(word);
        }
        let is_short = fault == Fault::None && struck.is_none() && job.lasts < AT_MOST / 2;
        let is_fine = match code {
            Some(0 | SKIPPED) => true,
            None => killed.is_some(),
            Some(code) if STOPPED.contains(&code) => !is_short || stderr.contains("raise"),
            Some(_) => false,
        };
        if !is_fine {
            let complaint = format!("run {}, {fault:?}, {struck:?}", job.number);
            let complaint = format!("{complaint}: it ended with {code:?}: {stderr}");
            self.complaints.lock().unwrap().push(complaint);
        }
        self.runs.lock().unwrap().push(Run {
            number: job.number,
            lock: job.lock,
            pid: child.id(),
            is_kept_alive,
            what: format!("{fault:?}, {struck:?}, {lasts:?}"),
            is_disturbed: struck.is_some(),
            spawned,
            killed,
            ended: now(),
            code,
            stderr,
        });
        (has_struck, struck)
    }

    /// Does to the process what is planned. Returns whether that was possible, and when it was killed.
    fn strike(
        &self,
        child: &mut Child,
        fault: Fault,
        clock: Option<&WallClock>,
    ) -> (bool, Option<Duration>) {
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        if let Fault::KilledEarly(after) = fault {
            pause(after);
            child.kill().unwrap();
            self.count("kills");
            return (true, Some(now()));
        }
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        if line != "in\n" {
            return (fault == Fault::None, None);
        }
        let signal = |signal| {
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            kill_process(pid, signal).unwrap();
        };
        let mut killed = None;
        match fault {
            Fault::Killed(after) => {
                pause(after);
                signal(Signal::KILL);
                killed = Some(now());
            }
            Fault::Stopped(after) | Fault::StoppedAndJump(after) => {
                pause(after);
                signal(Signal::STOP);
                if let Some(clock) = clock {
                    clock.is_ahead_by(AT_MOST * 2);
                }
                pause(AT_MOST * 3 / 2);
                signal(Signal::CONT);
            }
            Fault::Jump(after, by) => {
                pause(after);
                clock.unwrap().is_ahead_by(by);
            }
            Fault::None | Fault::KilledEarly(_) => {}
        }
        if let Some(word) = fault.word() {
            self.count(word);
        }
        (true, killed)
    }

    /// Whatever has happened, each lock is free within its lease.
    fn are_free(&self) {
        let wait = format!("{}s", (AT_MOST + NOTICING).as_secs());
        let at_most = format!("{}ms", AT_MOST.as_millis());
        for lock in LOCKS {
            let options = ["run", "--name", lock, "--lock-wait", &wait];
            let spawned = now();
            let child = self
                .shedlock(&options)
                .args(["--lock-at-most-for", &at_most, "--", "true"])
                .spawn()
                .unwrap();
            let pid = child.id();
            let ended = child.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
            if !ended.status.success() {
                let complaint = format!("{lock} is not free: {:?}: {stderr}", ended.status);
                self.complaints.lock().unwrap().push(complaint);
            }
            self.runs.lock().unwrap().push(Run {
                number: self.numbers.fetch_add(1, Ordering::Relaxed),
                lock: lock.to_owned(),
                pid,
                is_kept_alive: false,
                what: String::new(),
                is_disturbed: false,
                spawned,
                killed: None,
                ended: now(),
                code: ended.status.code(),
                stderr,
            });
        }
    }
}

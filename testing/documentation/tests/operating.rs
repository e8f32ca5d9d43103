//! The session of docs/operating.md, typed again. `SHEDLOCK_TRANSCRIPTS=record` writes what it prints into the page.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use shedlock_documentation::{root, shedlock, succeed};
use shedlock_rig::Running;
use shedlock_rig::wait::{eventually, pause};
use shedlock_transcripts::{Facts, Mode, Stage, replay_examples};
use tempfile::TempDir;

const PAGE: &str = "docs/operating.md";

const COLUMNS: u16 = 100;

/// When the page was recorded, as it shows it: 2026-11-24T03:12:00Z, in microseconds since 1970.
const SHOWN: i64 = 1_795_489_920_000_000;

/// Slots are this far apart, so times are moved by a multiple of it.
const PERIOD: i64 = 600_000_000;

const SCHEDULE: [&str; 2] = ["--schedule", "*/10 * * * *"];

/// Names the host, and numbers its processes like one that has run for a while.
const HOST: &str = "hostname \"$0\" && echo 4710 2>/dev/null >/proc/sys/kernel/ns_last_pid; \"$@\"";

/// A terminal of 100 columns on one of the hosts, with a store.
struct Site {
    folder: TempDir,
    outputs: TempDir,
    hosts: Vec<Running>,
    /// By how much the page moves the times of this replay, in microseconds.
    moved: i64,
}

impl Stage for Site {
    fn command(&self, line: &str, columns: Option<u16>) -> Command {
        let columns = columns.unwrap_or(COLUMNS);
        fs::write(self.path("line"), format!("stty cols {columns}\n{line}\n")).unwrap();
        self.on("web-1", &["script", "-qefc", "sh line", "/dev/null"])
    }

    fn columns(&self) -> Option<u16> {
        Some(COLUMNS)
    }

    fn facts(&self) -> Facts {
        Facts {
            moved: self.moved,
            ..Facts::default()
        }
    }

    fn outputs(&self) -> &Path {
        self.outputs.path()
    }
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(shedlock(), bin.join("shedlock")).unwrap();
        std::os::unix::fs::symlink("/bin/true", bin.join("send-mails")).unwrap();
        Self {
            folder,
            outputs: tempfile::tempdir().unwrap(),
            hosts: Vec::new(),
            moved: 0,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program on this host. If it is killed, the host dies with all of its processes.
    fn on(&self, host: &str, program: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        let path = std::env::var("PATH").unwrap();
        command
            .args(["--uts", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", HOST, host])
            .args(program)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOME", self.folder.path())
            .env("USER", "alice")
            .env("TZ", "UTC")
            .env("NO_COLOR", "1")
            .env(
                "SHEDLOCK_STORE",
                format!("sqlite:{}", self.path("locks.db").display()),
            )
            .stdin(Stdio::null());
        command
    }

    /// What happened before the session.
    fn evening(&mut self) {
        succeed(&mut self.on("web-1", &["shedlock", "migrate"]));
        let run =
            |name| [&["shedlock", "run", "-q", "-n", name, "--lock-at-most-for"][..]].concat();
        let scheduled = |name| [&run(name)[..], &["9m"], &SCHEDULE, &["--"]].concat();
        succeed(&mut self.on("web-1", &[&scheduled("report")[..], &["true"]].concat()));
        let failing = ["sh", "-c", "exit 1"];
        let failing = self
            .on("web-2", &[&scheduled("mails")[..], &failing].concat())
            .status();
        assert_eq!(failing.unwrap().code(), Some(1));
        let hanging = [
            "--",
            "sh",
            "-c",
            "touch \"$SHEDLOCK_NAME\"; exec sleep 86400",
        ];
        let by_hand = [&run("mails")[..], &["9m"], &hanging].concat();
        let scheduled = [&run("invoices")[..], &["4h"], &SCHEDULE, &hanging].concat();
        for (host, name, run) in [
            ("web-2", "invoices", scheduled),
            ("web-1", "mails", by_hand),
        ] {
            let mut hanging = self.on(host, &run);
            self.hosts.push(Running::start(&mut hanging).unwrap());
            eventually(&format!("{name} runs"), || self.path(name).exists());
        }
        // web-2 dies.
        self.hosts.remove(0).kill();
    }
}

#[test]
fn the_session_is_as_the_page_shows_it() {
    let mut site = Site::new();
    let late = jiff::Timestamp::now().as_microsecond().rem_euclid(PERIOD);
    if late > PERIOD * 9 / 10 {
        // The page shows one slot.
        pause(Duration::from_micros((PERIOD - late).unsigned_abs()));
    }
    site.evening();
    let now = jiff::Timestamp::now().as_microsecond();
    site.moved = (SHOWN - now).div_euclid(PERIOD) * PERIOD;
    let mode = Mode::from_environment().unwrap();
    if let Err(wrong) = replay_examples(&root().join(PAGE), mode, &site) {
        panic!("{wrong}");
    }
}

//! The session of docs/operating.md, typed again. `SHEDLOCK_PAGES=write` writes what it prints into the page.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use shedlock_documentation::{root, shedlock, succeed};
use shedlock_rig::Running;
use shedlock_rig::wait::{eventually, pause};
use tempfile::TempDir;

const PAGE: &str = "docs/operating.md";

const WRITE: &str = "SHEDLOCK_PAGES";

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
    hosts: Vec<Running>,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(shedlock(), bin.join("shedlock")).unwrap();
        std::os::unix::fs::symlink("/bin/true", bin.join("send-mails")).unwrap();
        let hosts = Vec::new();
        Self { folder, hosts }
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

    /// What this line prints on a terminal.
    fn typed(&self, line: &str) -> String {
        fs::write(self.path("line"), format!("stty cols 100\n{line}\n")).unwrap();
        let script = ["script", "-qec", "sh line", "/dev/null"];
        let output = self.on("web-1", &script).output().unwrap();
        String::from_utf8(output.stdout).unwrap().replace('\r', "")
    }

    /// What happened before the session.
    fn evening(&mut self) {
        succeed(&mut self.on("web-1", &["shedlock", "migrate", "--journal"]));
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

/// The sessions of the page: where their texts are.
fn sessions(page: &str) -> Vec<Range<usize>> {
    let mut sessions = Vec::new();
    let mut is_session = false;
    for (event, range) in Parser::new(page).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(of))) => {
                is_session = &*of == "console"
            }
            Event::End(TagEnd::CodeBlock) => is_session = false,
            Event::Text(_) if is_session => sessions.push(range),
            _ => {}
        }
    }
    sessions
}

/// Moves all times so that the session was recorded when the page shows it.
fn moved(text: &str, by: i64) -> String {
    let mut moved = String::new();
    for word in
        text.split_inclusive(|char: char| !char.is_ascii_alphanumeric() && !":-.".contains(char))
    {
        let end = word.trim_end_matches(|char: char| !char.is_ascii_alphanumeric());
        let rest = &word[end.len()..];
        if let Ok(time) = end.parse::<jiff::Timestamp>() {
            let time = jiff::Timestamp::from_microsecond(time.as_microsecond() + by).unwrap();
            moved += &format!("{time}{rest}");
        } else if let Some(token) = end.parse::<i64>().ok().filter(|_| end.len() == 16) {
            moved += &format!("{}{rest}", token + by);
        } else {
            moved += word;
        }
    }
    moved
}

/// Replaces what differs from run to run, and the blanks that depend on it.
fn shape(text: &str) -> String {
    let word = |word: &str| {
        let core = word.trim_matches(|char: char| !char.is_ascii_alphanumeric());
        let is_digit = |char: char| char.is_ascii_digit();
        let shape = if core.parse::<jiff::Timestamp>().is_ok() {
            "TIME".to_owned()
        } else if core.matches('/').count() == 2 {
            format!("{}/PROCESS/RANDOM", core.split('/').next().unwrap())
        } else if core.starts_with(is_digit) && core.ends_with(['s', 'm', 'h', 'd']) {
            "DURATION".to_owned()
        } else if core.len() == 16 && core.chars().all(is_digit) {
            "TOKEN".to_owned()
        } else if core.starts_with(is_digit) && core.matches('.').count() == 2 {
            "VERSION".to_owned()
        } else {
            core.to_owned()
        };
        match word.ends_with('…') {
            // Cut anywhere, as its column is wide.
            true => "…".to_owned(),
            false => word.replacen(core, &shape, 1),
        }
    };
    let lines = text.lines().map(|line| {
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_session_is_as_the_page_shows_it() {
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let mut site = Site::new();
    let late = jiff::Timestamp::now().as_microsecond().rem_euclid(PERIOD);
    if late > PERIOD * 9 / 10 {
        // The page shows one slot.
        pause(Duration::from_micros((PERIOD - late).unsigned_abs()));
    }
    site.evening();
    let now = jiff::Timestamp::now().as_microsecond();
    let by = (SHOWN - now).div_euclid(PERIOD) * PERIOD;
    let mut recorded = String::new();
    let mut end = 0;
    for session in sessions(&page) {
        recorded += &page[end..session.start];
        end = session.end;
        for line in page[session].lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                recorded += &format!("{line}\n{}", moved(&site.typed(command), by));
            }
        }
    }
    recorded += &page[end..];
    check(&path, &page, &recorded);
}

/// Compares the page with the recorded one, or writes it.
fn check(path: &Path, page: &str, recorded: &str) {
    if shape(page) == shape(recorded) {
        return;
    }
    if std::env::var(WRITE).is_ok_and(|word| word == "write") {
        fs::write(path, recorded).unwrap();
        return;
    }
    let (page, recorded) = (shape(page), shape(recorded));
    let differing = page
        .lines()
        .zip(recorded.lines())
        .find(|(old, new)| old != new);
    panic!(
        "{PAGE} is out of date: {WRITE}=write records it again; the first difference: {differing:#?}"
    );
}

#[test]
fn times_and_tokens_move_and_nothing_else_does() {
    let text = "a/12/ff 2026-11-24T03:00:00Z (1795489200000001) 15, mails:\n";
    let moved = moved(text, PERIOD);
    assert_eq!(
        moved,
        "a/12/ff 2026-11-24T03:10:00Z (1795489800000001) 15, mails:\n"
    );
    assert_eq!(shape(text), shape(&moved));
}

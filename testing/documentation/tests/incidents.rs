//! The incidents of docs/incidents.md, on a real PostgreSQL and a real Redis. `SHEDLOCK_TRANSCRIPTS=record` writes what is
//! printed into the page.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use shedlock_documentation::{root, shedlock, succeed};
use shedlock_rig::wait::{eventually, pause};
use shedlock_rig::{OwnServer, Running};
use shedlock_transcripts::{Facts, Mode, Stage, replay_examples};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, JoinSet};

const PAGE: &str = "docs/incidents.md";
const COLUMNS: u16 = 100;

/// When the page was recorded, as it shows it: 2026-11-24T03:12:00Z, in microseconds since 1970.
const SHOWN: i64 = 1_795_489_920_000_000;
/// Times are moved by a multiple of it.
const PERIOD: i64 = 300_000_000;

/// The page shows one slot of `--every 5m`, and takes less time than this.
const TAKES: i64 = 60_000_000;

const FAKETIME: &str = "SHEDLOCK_TEST_FAKETIME";

/// Runs a line on another host: one with this name, a clock of its own, and on `edge-1` a disk that is full.
const SSH: &str = r#"#!/bin/sh
host=$1; shift
case $host in
  db) exec psql -q -h db.localhost -U postgres app -c "$*" ;;
  cache) exec redis-cli -h cache.localhost $* >/dev/null ;;
  web-3) clock=+180 ;;
  web-4) clock=-180 ;;
esac
[ -z "$clock" ] || export LD_PRELOAD="$FAKETIME_LIBRARY" FAKETIME=$clock FAKETIME_DONT_FAKE_MONOTONIC=1
[ "$host" != edge-1 ] || full='mount -t tmpfs -o size=64k none disk && dd if=/dev/zero of=disk/fill bs=1k count=100 2>/dev/null;'
exec unshare --uts --mount sh -c "hostname \$0; $full exec sh -c \"\$1\"" "$host" "$*"
"#;

/// Names the host and its neighbors, and numbers its processes like one that has run for a while.
const HOST: &str = "hostname \"$0\" && mount --bind hosts /etc/hosts && mount --bind .. /home && cd /home/alice && \
                    echo 4710 2>/dev/null >/proc/sys/kernel/ns_last_pid; \"$@\"";

/// A server at its usual port, on an address that no other test uses.
struct Door {
    runtime: Runtime,
    here: SocketAddr,
    server: SocketAddr,
    open: Mutex<Option<AbortHandle>>,
}

impl Door {
    fn new(ip: &str, port: u16, server: &OwnServer) -> Self {
        let (_, at) = server.url().split_once("127.0.0.1:").unwrap();
        let digits: String = at.chars().take_while(char::is_ascii_digit).collect();
        let door = Self {
            runtime: Runtime::new().unwrap(),
            here: format!("{ip}:{port}").parse().unwrap(),
            server: format!("127.0.0.1:{digits}").parse().unwrap(),
            open: Mutex::default(),
        };
        door.open();
        door
    }

    fn open(&self) {
        let server = self.server;
        let listener = self.runtime.block_on(TcpListener::bind(self.here)).unwrap();
        let serving = self.runtime.spawn(async move {
            let mut passed = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                passed.spawn(async move {
                    let mut server = TcpStream::connect(server).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        *self.open.lock().unwrap() = Some(serving.abort_handle());
    }

    /// Nothing listens, and all connections are cut.
    fn close(&self) {
        if let Some(open) = self.open.lock().unwrap().take() {
            open.abort();
        }
        eventually("nothing listens", || {
            std::net::TcpStream::connect(self.here).is_err()
        });
    }
}

/// A terminal on `web-1`, and what it reaches.
struct Site {
    folder: TempDir,
    outputs: TempDir,
    db: Door,
    _cache: Door,
    _servers: [OwnServer; 2],
    moved: i64,
}

impl Stage for Site {
    fn command(&self, line: &str, columns: Option<u16>) -> Command {
        match line {
            "ssh db systemctl stop postgresql" => self.db.close(),
            "ssh db systemctl start postgresql" => self.db.open(),
            _ => {
                let columns = columns.unwrap_or(COLUMNS);
                fs::write(self.path("line"), format!("stty cols {columns}\n{line}\n")).unwrap();
                return self.on("web-1", &["script", "-qefc", "sh line", "/dev/null"]);
            }
        }
        Command::new("true")
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
        let home = folder.path().join("alice");
        let bin = home.join("bin");
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir(home.join("disk")).unwrap();
        symlink(shedlock(), bin.join("shedlock")).unwrap();
        for name in ["send-mails", "backup", "pay"] {
            symlink("/bin/true", bin.join(name)).unwrap();
        }
        fs::write(bin.join("ssh"), SSH).unwrap();
        fs::set_permissions(bin.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
        let process = std::process::id();
        let ip = |last| format!("127.{}.{}.{last}", process >> 8 & 0xff, process & 0xff);
        let hosts = format!(
            "127.0.0.1 localhost\n{} db.localhost\n{} cache.localhost\n",
            ip(1),
            ip(2)
        );
        fs::write(home.join("hosts"), hosts).unwrap();
        let servers = ["postgres", "redis"].map(|store| OwnServer::start(store, &[]).unwrap());
        Self {
            db: Door::new(&ip(1), 5432, &servers[0]),
            _cache: Door::new(&ip(2), 6379, &servers[1]),
            folder,
            outputs: tempfile::tempdir().unwrap(),
            _servers: servers,
            moved: 0,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("alice").join(name)
    }

    /// A program on this host.
    fn on(&self, host: &str, program: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        let path = std::env::var("PATH").unwrap();
        let library = std::env::var(FAKETIME).unwrap_or_default();
        assert!(Path::new(&library).exists(), "{FAKETIME} names no library");
        command
            .args(["--uts", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", HOST, host])
            .args(program)
            .current_dir(self.path(""))
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOME", "/home/alice")
            .env("USER", "alice")
            .env("TZ", "UTC")
            .env("NO_COLOR", "1")
            .env("FAKETIME_LIBRARY", library)
            .env("SHEDLOCK_STORE", "postgres://app@db.localhost/app")
            .stdin(Stdio::null());
        command
    }

    /// What happened before.
    fn evening(&self) {
        let sql = |database: &str, statement: &str| {
            let psql = [
                "psql",
                "-q",
                "-h",
                "db.localhost",
                "-U",
                "postgres",
                database,
                "-c",
                statement,
            ];
            succeed(&mut self.on("web-1", &psql));
        };
        sql("postgres", "CREATE ROLE app LOGIN");
        sql("postgres", "CREATE DATABASE app OWNER app");
        succeed(&mut self.on("web-1", &["shedlock", "migrate"]));
        // Its first host was believed dead.
        let run = [
            "shedlock",
            "run",
            "-n",
            "payroll",
            "--lock-at-most-for",
            "1h",
            "--",
        ];
        let task = "echo x > paying; until [ -e paid ]; do sleep 0.05; done";
        let mut first = self.on("web-1", &[&run[..], &["sh", "-c", task]].concat());
        let first = Running::start(first.stderr(Stdio::null())).unwrap();
        eventually("payroll runs", || self.path("paying").exists());
        let free = ["shedlock", "unlock", "payroll", "--force"];
        succeed(&mut self.on("web-2", &free));
        succeed(&mut self.on("web-2", &[&run[..], &["pay"]].concat()));
        fs::write(self.path("paid"), "").unwrap();
        drop(first);
        let run = [
            "shedlock",
            "run",
            "-n",
            "backup",
            "--lock-at-most-for",
            "1m",
        ];
        let often = ["--every", "5m", "--", "backup"];
        succeed(&mut self.on("web-1", &[&run[..], &often].concat()));
        // An hour has passed since.
        sql(
            "app",
            "UPDATE shedlock_job SET deadline_us = deadline_us - 3600000000, \
             next_slot_us = next_slot_us - 3600000000, last_slot_us = last_slot_us - 3600000000, \
             last_started_us = last_started_us - 3600000000, \
             last_succeeded_us = last_succeeded_us - 3600000000 WHERE job = 'backup'; \
             UPDATE shedlock_run SET started_us = started_us - 3600000000, \
             slot_us = slot_us - 3600000000 WHERE job = 'backup'; \
             UPDATE shedlock SET shedlock_slot = shedlock_slot - 3600000000, \
             shedlock_slot_done = shedlock_slot_done - 3600000000 WHERE name = 'backup'",
        );
    }
}

#[test]
fn the_incidents_are_as_the_page_shows_them() {
    let mut site = Site::new();
    let late = jiff::Timestamp::now().as_microsecond().rem_euclid(PERIOD);
    if late > PERIOD - TAKES {
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
